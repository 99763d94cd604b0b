"""Years of a store in seconds: a seed is a run, and a run says the same every time.

Some processes share a data folder on a disk that forgets as much as a disk may. One action after
the other is thrown: somebody creates, opens, appends, forks, tags, trashes; a process dies at any
call, even in the middle of a write; the power goes; calls fail; the disk is full for a while; the
clock jumps. What was acknowledged is kept in mind, and what must hold is looked at after each step.
In the end the faults stop, and every thread has to open and come to rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from random import Random
from typing import Any, Final

from msgspec import Struct

from core.random_events import random_durable_event
from core.samples import CONFIG
from lab.checks import read_chain
from lab.faulty_disk import CAN_FAIL
from lab.model_disk import ModelDisk
from lab.model_nodes import Survivor, choices_of
from lab.script import small_snapshots
from lab.simulation_entries import all_of, fits, random_fact, way_out
from lab.simulation_processes import Crash, Process, names_of_drafts, silence
from runtime.desk import imbalance
from treadle.core.actions import SendLlmRequest
from treadle.core.conversation import Conversation
from treadle.core.events import (
    Rewound,
)
from treadle.core.messages import Message
from treadle.errors import (
    DiskError,
    ReadOnlyThreadError,
    StoreError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.store.local_store import LocalStore
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import (
    Configured,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.snapshot import decode_snapshot

STEP_COUNT: Final = 500
"""Steps of a run before the faults stop."""

PROCESS_COUNT: Final = 3
THREAD_COUNT_MAX: Final = 5
RECORD_COUNT_MAX: Final = 80
"""A thread that is longer is left alone, so that looking at all of it stays cheap."""

REST_COUNT_MAX: Final = 100
"""Steps in which a thread must come to rest when nothing fails any more."""

CRASH, POWER, FAIL = "crash", "power", "fail"
_FAILING: Final = tuple(CAN_FAIL)
_DAY: Final = 86_400


class Violation(AssertionError):  # noqa: N818
    """Something does not hold; the message begins with its kind."""


class Known(Struct):
    """What the outside knows of a thread: the last acknowledged record, and what it had read."""

    seq: int
    hash: str
    messages: Conversation
    base: tuple[Message, ...] = ()
    is_trashed: bool | None = False
    """`None` while a move was begun and nobody knows how far it got."""


class Simulation:
    """One run.

    Args:
        seed: of everything that happens.
        step_count: how long it goes on before the faults stop.
    """

    def __init__(self, seed: int, step_count: int = STEP_COUNT) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.disk = ModelDisk(survival=self._survival)
        self.known: dict[str, Known] = {}
        self.step = 0
        self.log = sha256()
        self.done = dict.fromkeys(ACTIONS, 0)
        self.crash_count = self.failure_count = self.cut_count = 0
        self._step_count = step_count
        self._ids = count(1)
        self._clock = 0.0
        self._fuse = 0
        self._fuse_kind = ""
        self._failed = False
        self._errno = 0
        self._full_until = 0
        self._has_faults = True
        self.processes = [Process(self) for _ in range(PROCESS_COUNT)]
        self.now_at = self.processes[0]

    # ---- the world ---------------------------------------------------------------------------

    def now(self) -> str:
        """A clock that mostly goes on, and sometimes jumps."""
        self._clock += 1
        seconds = int(self._clock)
        day, left = divmod(max(seconds, 0), _DAY)
        return f"{2026 + day // 360}-{day // 30 % 12 + 1:02}-{day % 30 + 1:02}T" + (
            f"{left // 3600:02}:{left // 60 % 60:02}:{left % 60:02}.000000Z"
        )

    def next_id(self) -> str:
        """An id that was never given before."""
        return f"T-00000000-0000-7000-8000-{next(self._ids):012x}"

    def _survival(self, data: bytes) -> bytes | None:
        return self.random.choice((None, data, data[: len(data) // 2]))

    def before(self, operation: str, path: str) -> None:
        """An operation of a process is about to happen: unless something happens before it."""
        if not self._has_faults:
            return
        if self.step < self._full_until and operation in _GROWING:
            self._failed = True
            raise OSError(28, os.strerror(28), path)
        if not self._fuse:
            return
        if self._fuse_kind == FAIL and operation not in CAN_FAIL[self._errno]:
            return
        self._fuse -= 1
        if self._fuse:
            return
        if self._fuse_kind == FAIL:
            self._failed = True
            self.failure_count += 1
            raise OSError(self._errno, os.strerror(self._errno), path)
        raise Crash

    def must(self, holds: bool, kind: str, text: str = "") -> None:
        """Whether something holds."""
        if not holds:
            raise Violation(f"{kind}: {text} (seed {self.seed}, step {self.step})")

    # ---- running -----------------------------------------------------------------------------

    def run(self) -> Simulation:
        """To the end.

        Raises:
            Violation: something does not hold.
        """
        with silence(), names_of_drafts(Random(self.seed)), small_snapshots(3_000):
            while self.step < self._step_count:
                self.take_step()
            self._come_to_rest()
        return self

    def take_step(self) -> None:
        """Throw an action, do it, look at what must hold."""
        self.step += 1
        self._failed = False
        [name] = self.random.choices(_NAMES, _WEIGHTS)
        self.now_at = self.random.choice(self.processes)
        self.done[name] += 1
        try:
            ACTIONS[name][1](self)
        except Crash:
            self._die(self.now_at)
        except StoreError as error:
            self.must(self._failed, "refused", f"{name}: {type(error).__name__}: {error}")
            self._drop_finished()
        self.log.update(f"{name} {self.disk.change_count};".encode())

    def _drop_finished(self) -> None:
        """Writers that have met an error are closed, as a program does."""
        for thread_id, writer in list(self.now_at.writers.items()):
            if not writer.is_usable or writer.has_staged:
                del self.now_at.writers[thread_id]
                try:
                    writer.close()
                except StoreError:
                    self.must(self._failed, "refused", "close")
                except Crash:
                    self._die(self.now_at)

    def _die(self, process: Process) -> None:
        power, self._fuse = self._fuse_kind == POWER, 0
        if power:
            self.cut_power()
        else:
            self.crash_count += 1
            process.disk.die()
            self.processes[self.processes.index(process)] = Process(self)
            self.log.update(b"died")

    def cut_power(self) -> None:
        """All processes die, and the disk keeps what it must and any part of the rest."""
        self.cut_count += 1
        for process in self.processes:
            process.disk.die()
        root = self.disk._root
        chosen = {key: self.random.choice(variants) for key, variants in choices_of(root)}
        change_count = self.disk.change_count
        self.disk = self.disk._grown(Survivor(chosen).folder(root))
        self.disk.change_count = change_count
        self.processes = [Process(self) for _ in range(PROCESS_COUNT)]

    # ---- what must hold ----------------------------------------------------------------------

    def check_writer(self, writer: ThreadWriter) -> None:
        """After each step, of the thread that it was about; costs what is in view."""
        known, conversation = self.known[writer.thread_id], writer.fold.conversation
        read = known.messages
        self.must(len(conversation) >= len(read), "removed", "messages are gone")
        if read:
            last = len(read) - 1
            self.must(conversation[last] == read[last], "changed", f"message {last}")
        self.must(fits(conversation), "view", str(conversation.view))
        self.must(writer.head.seq >= known.seq, "lost", "the head went back")

    def check_request(self, request: Any) -> None:
        """Whether a provider takes it."""
        why = imbalance(request.messages)
        self.must(not why, "pairs", why)
        ids = [call.id for message in request.messages for call in message.tool_calls]
        self.must(len(ids) == len(set(ids)), "ids", str(ids))

    def acknowledge(self, writer: ThreadWriter) -> None:
        """From now on it must not be lost."""
        self.check_writer(writer)
        known = self.known[writer.thread_id]
        known.seq, known.hash = writer.head.seq, writer.head.hash
        known.messages = writer.fold.conversation

    def check_opened(self, store: LocalStore, thread_id: str, fold: ThreadFold) -> None:
        """All of a thread that was read from disk, against what is known of it."""
        known = self.known[thread_id]
        path = store.folders.find(thread_id)[0]
        records, _ = read_chain(self.disk.read(path))
        with suppress(FileNotFoundError):
            snapshot = decode_snapshot(self.disk.read(path.removesuffix("l")))
            self.must(snapshot is not None, "damaged", f"the snapshot of {thread_id}")
        self.must(len(records) >= known.seq, "lost", f"{len(records)} records of {known.seq}")
        told = records[known.seq - 1].hash if known.seq else ""
        self.must(told == known.hash, "changed", f"record {known.seq} of {thread_id}")
        self.must(fold.version == len(records), "version", f"{fold.version} of {len(records)}")
        whole = store.load(thread_id, fold.version).fold
        self.must(all_of(whole) == all_of(fold), "snapshot", "the fold from nothing differs")
        conversation = fold.conversation
        self.must(
            list(conversation[: len(known.messages)]) == list(known.messages), "changed", "messages"
        )
        self.must(tuple(conversation[: len(known.base)]) == known.base, "fork", "another history")
        ids = [call.id for message in conversation for call in message.tool_calls]
        self.must(len(ids) == len(set(ids)), "ids", str(ids))
        self.must(fold.header.thread == thread_id, "ids", fold.header.thread)

    # ---- actions -----------------------------------------------------------------------------

    def _any_open(self) -> ThreadWriter | None:
        writers = [w for w in self.now_at.writers.values() if w.head.seq < RECORD_COUNT_MAX]
        if writers:
            return self.random.choice(writers)
        self._open()
        return None

    def _any_thread(self) -> str | None:
        return self.random.choice(list(self.known)) if self.known else None

    def _holders(self, thread_id: str) -> list[Process]:
        return [process for process in self.processes if thread_id in process.writers]

    def _keep(self, writer: ThreadWriter, base: tuple[Message, ...] = ()) -> None:
        self.must(writer.thread_id not in self.known, "ids", writer.thread_id)
        head, conversation = writer.head, writer.fold.conversation
        self.known[writer.thread_id] = Known(head.seq, head.hash, conversation, base)
        self.now_at.writers[writer.thread_id] = writer
        self.check_writer(writer)

    def _create(self) -> None:
        if len(self.known) < THREAD_COUNT_MAX:
            first = (Configured(CONFIG, "scripted"),) if self.random.random() < 0.8 else ()
            self._keep(self.now_at.store.create("sim", workspace="/w", first=first))
        else:
            self._open()

    def _open(self) -> None:
        thread_id = self._any_thread()
        if thread_id is None or self.known[thread_id].seq >= RECORD_COUNT_MAX:
            return
        known, holders = self.known[thread_id], self._holders(thread_id)
        try:
            writer = self.now_at.store.open(thread_id)
        except ThreadBusyError:
            self.must(bool(holders), "busy", f"nobody has {thread_id}")
            return
        except ReadOnlyThreadError:
            self.must(known.is_trashed is not False, "trashed", thread_id)
            known.is_trashed = True
            return
        except UnknownThreadError as error:
            self.must(False, "lost", f"{thread_id}: {error}")
        self.must(not holders, "shared", thread_id)
        self.must(known.is_trashed is not True, "trashed", f"{thread_id} opened")
        known.is_trashed = False
        self.now_at.writers[thread_id] = writer
        self.check_opened(self.now_at.store, thread_id, writer.fold)
        self.acknowledge(writer)

    def _append(self) -> None:
        writer = self._any_open()
        if writer is None:
            return
        fold = writer.fold
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.random.random() < 0.25:
                writer.stage(random_fact(self.random, self.step))
                continue
            assert not isinstance(fold.state, tuple)
            event = random_durable_event(self.random, fold.state, self.step)  # type: ignore[arg-type]
            action = writer.stage(event)
            if isinstance(action, SendLlmRequest):
                self.check_request(action.request)
            elif isinstance(event, Rewound) and fold.is_idle:
                self.must(imbalance(fold.conversation.in_view) == "", "pairs", "after a rewind")
        writer.commit()
        self.acknowledge(writer)

    def _snapshot(self) -> None:
        writer = self._any_open()
        if writer is not None:
            self.random.choice((writer.refresh_snapshot, writer.write_snapshot))()

    def _close(self) -> None:
        if self.now_at.writers:
            thread_id = self.random.choice(list(self.now_at.writers))
            problem = self.now_at.writers.pop(thread_id).close()
            self.must(problem is None or self._failed, "refused", f"close: {problem}")

    def _load(self) -> None:
        thread_id = self._any_thread()
        if thread_id is not None:
            loaded = self.now_at.store.load(thread_id)
            self.must(loaded.problem == "", "unreadable", loaded.problem)
            self.must(loaded.head.seq >= self.known[thread_id].seq, "lost", "on reading")

    def _load_old(self) -> None:
        thread_id = self._any_thread()
        if thread_id is not None:
            version = self.random.randrange(1, self.known[thread_id].seq + 1)
            old = self.now_at.store.load(thread_id, version).fold
            self.must(old.version == version, "version", str(old.version))
            seen = list(old.conversation)
            now = list(self.known[thread_id].messages[: len(seen)])
            self.must(seen == now, "removed", f"version {version}")

    def _list(self) -> None:
        lines = {line.id: line for line in self.now_at.store.list()}
        for thread_id, known in self.known.items():
            if known.is_trashed is False:
                self.must(thread_id in lines or self._failed, "lost", f"{thread_id} in the list")
        problems = [line.problem for line in lines.values() if line.problem]
        self.must(not problems or self._failed, "unreadable", str(problems))

    def _fork(self) -> None:
        thread_id = self._any_thread()
        if thread_id is None or len(self.known) >= 2 * THREAD_COUNT_MAX:
            return
        known = self.known[thread_id]
        version = self.random.randrange(1, known.seq + 1)
        try:
            writer = self.now_at.store.fork(thread_id, version, creator="sim")
        except ReadOnlyThreadError:
            self.must(known.is_trashed is not False, "trashed", thread_id)
            return
        length = len(self.now_at.store.load(thread_id, version).fold.conversation)
        base = tuple(known.messages[:length])
        self._keep(writer, base)
        self.must(tuple(writer.fold.conversation) == base, "fork", f"of {thread_id}@{version}")

    def _trash(self) -> None:
        self._move(self.now_at.trash.put, to_trash=True)

    def _restore(self) -> None:
        self._move(self.now_at.trash.restore, to_trash=False)

    def _move(self, move: Callable[[list[str]], object], *, to_trash: bool) -> None:
        found = [one for one, known in self.known.items() if known.is_trashed is not to_trash]
        if not found:
            return
        thread_id = self.random.choice(found)
        known = self.known[thread_id]
        if self._holders(thread_id):
            with _raises(ThreadBusyError, self):
                move([thread_id])
            return
        was_known, known.is_trashed = known.is_trashed is not None, None
        try:
            move([thread_id])
        except UsageError as error:
            self.must(not was_known, "trashed", error.message)
        known.is_trashed = to_trash
        self.check_opened(self.now_at.store, thread_id, self.now_at.store.load(thread_id).fold)

    def _arm(self) -> None:
        self._fuse = self.random.randrange(1, 40)
        self._fuse_kind = self.random.choice((CRASH, POWER, FAIL))
        self._errno = self.random.choice(_FAILING)

    def _fill(self) -> None:
        self._full_until = self.step + self.random.randrange(1, 12)

    def _jump(self) -> None:
        self._clock += self.random.choice((-_DAY * 400, -3600, 3600, _DAY * 400))

    # ---- the end -----------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        """Nothing fails any more: every thread opens and comes to rest."""
        self._has_faults, self._fuse = False, 0
        for process in self.processes:
            process.disk.die()
        process = self.now_at = Process(self)
        self.processes = [process]
        with process.trash.hold_lock():
            process.trash.finish_moves()
        for thread_id in [*process.trash.ids()]:
            process.trash.restore([thread_id])
        for thread_id, known in self.known.items():
            known.is_trashed = False
            try:
                writer = process.store.open(thread_id)
            except TreadleError as error:
                self.must(False, "stuck", f"{thread_id}: {type(error).__name__}: {error}")
            self.check_opened(process.store, thread_id, writer.fold)
            for _ in range(REST_COUNT_MAX):
                if writer.fold.is_idle:
                    break
                assert not isinstance(writer.fold.state, tuple)
                writer.stage(way_out(writer.fold.state))  # type: ignore[arg-type]
                writer.commit()
                self.acknowledge(writer)
            self.must(writer.fold.is_idle, "restless", f"{thread_id} in {writer.fold.state_kind}")
            self.must(writer.close() is None, "stuck", "no snapshot")
        self.must(self.disk.handle_count == 0, "leak", f"{self.disk.handle_count} handles")


ACTIONS: Final[dict[str, tuple[int, Callable[[Simulation], None]]]] = {
    "create": (4, Simulation._create),
    "open": (8, Simulation._open),
    "append": (100, Simulation._append),
    "snapshot": (5, Simulation._snapshot),
    "close": (4, Simulation._close),
    "load": (3, Simulation._load),
    "load an old version": (2, Simulation._load_old),
    "list": (1, Simulation._list),
    "fork": (2, Simulation._fork),
    "trash": (2, Simulation._trash),
    "restore": (3, Simulation._restore),
    "arm": (6, Simulation._arm),
    "fill the disk": (1, Simulation._fill),
    "jump": (2, Simulation._jump),
}
"""What can happen next, and how often it does."""

_NAMES: Final = list(ACTIONS)
_WEIGHTS: Final = [weight for weight, _ in ACTIONS.values()]
_GROWING: Final = CAN_FAIL[28]


@contextmanager
def _raises(kind: type[TreadleError], world: Simulation) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    except DiskError:
        raise
    world.must(False, "shared", "a thread that is open elsewhere was moved")
