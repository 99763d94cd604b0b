"""A machine of a simulation: a disk that forgets, a clock that jumps, a session, and what it said.

Everything that a person or an agent says there carries a number of its own, so that it is known
wherever it has gone, and however its record was chained anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Final

from msgspec import Struct

from core.samples import CONFIG, answer, call, success
from lab.model_disk import ModelDisk
from lab.model_nodes import Survivor, choices_of
from lab.simulation_entries import way_out
from lab.simulation_processes import Crash, Process
from treadle.core.chat.states import (
    CallingLlm,
    ExecutingTools,
    PostToolsHook,
    WaitingForUserInput,
)
from treadle.core.events import (
    PostToolsHookCompleted,
    Rewound,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.messages import Message
from treadle.core.tools import ToolExecutionStatus
from treadle.errors import StorageBusyError, UnknownThreadError
from treadle.store.local_store import LocalStore
from treadle.store.send_lock import set_private
from treadle.store.thread_writer import ThreadWriter
from treadle.store.upkeep.scrub import scrub
from treadle.thread.codec import Entry
from treadle.thread.facts import Annotated, Configured, InputQueued, Renamed, Tagged
from treadle.thread.fold import ThreadFold

NUMBER: Final = re.compile(rb"(?:tok|gone)-(\d{6})")
SECRET: Final = "tok-{:06}"
"""What is said holds its number like this; a scrub puts `gone` in the place of `tok`."""

RECORD_COUNT_MAX: Final = 60
_DAY: Final = 86_400


class Saying(Struct, frozen=True):
    """Something that was acknowledged: its number, where, and in which order of that machine."""

    number: int
    thread: str


class Machine:
    """One client. Implements the `World` of the lab's processes.

    Args:
        name: of the machine.
        random: its dice.
        numbers: gives out what nobody has said yet.
        ids: gives out ids of threads.
    """

    def __init__(
        self, name: str, random: Random, numbers: Iterator[int], ids: Iterator[int]
    ) -> None:
        self.name = name
        self.random = random
        self.disk = ModelDisk(survival=self._survival)
        self.said: list[Saying] = []
        self.fuse = 0
        self.is_power = False
        self.crash_count = self.cut_count = 0
        self._numbers = numbers
        self._ids = ids
        self._clock = 0.0
        self._home = Process(self)

    # ---- the world of its processes ------------------------------------------------------------

    def now(self) -> str:
        """A clock that mostly goes on, and sometimes jumps."""
        self._clock += 1
        day, left = divmod(max(int(self._clock), 0), _DAY)
        return f"{2026 + day // 360}-{day // 30 % 12 + 1:02}-{day % 30 + 1:02}T" + (
            f"{left // 3600:02}:{left // 60 % 60:02}:{left % 60:02}.{ord(self.name):06}Z"
        )

    def jump(self) -> None:
        """The clock is set anew."""
        self._clock += self.random.choice((-_DAY * 40, -3600, 3600, _DAY * 40))

    def jump_ahead(self) -> None:
        """So much time goes by that nobody waits any more."""
        self._clock += 3_600

    def next_id(self) -> str:
        """An id that was never given before."""
        return f"T-00000000-0000-7000-8000-{next(self._ids):012x}"

    def _survival(self, data: bytes) -> bytes | None:
        return self.random.choice((None, data, data[: len(data) // 2]))

    def before(self, operation: str, path: str) -> None:
        """An operation of a process is about to happen, or the process dies before it."""
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                raise Crash

    @property
    def store(self) -> LocalStore:
        """The threads, as the process of the sessions reaches them."""
        return self._home.store

    def new_process(self) -> Process:
        """Another process on this machine."""
        return Process(self)

    def die(self) -> None:
        """The process of the sessions dies, and another one begins."""
        self.crash_count += 1
        self._home.disk.die()
        self._home = Process(self)

    def cut_power(self) -> None:
        """All processes die, and the disk keeps what it must and any part of the rest."""
        self.cut_count += 1
        self._home.disk.die()
        root = self.disk._root
        chosen = {key: self.random.choice(variants) for key, variants in choices_of(root)}
        self.disk = self.disk._grown(Survivor(chosen).folder(root))
        self._home = Process(self)

    # ---- what people and agents do there -------------------------------------------------------

    def ids(self) -> list[str]:
        """The threads outside the trash."""
        return self.store.ids()

    def all_ids(self) -> list[str]:
        """All threads, those in the trash among them."""
        folders = self.store.folders
        return sorted({*folders.ids(), *folders.ids(in_trash=True)})

    def looks_private(self, thread_id: str) -> bool:
        """Whether what lies on the disk says that a thread is private, whoever has died."""
        path = str(self.store.places.data / "threads" / f"{thread_id}.jsonl")
        return looks_private(self.disk.files().get(path, b""))

    def begin(self, *, is_private: bool = False, parent: tuple[str, str, int] | None = None) -> str:
        """A new thread; gives its id."""
        number = next(self._numbers)
        writer = self.store.create(
            "sim",
            workspace="/w",
            is_private=is_private,
            parent=parent,
            first=(Configured(CONFIG, "scripted"), Annotated(SECRET.format(number))),
        )
        try:
            self.said.append(Saying(number, writer.thread_id))
        finally:
            writer.close()
        return writer.thread_id

    def fork(self, thread_id: str) -> str:
        """A thread that goes on from a version of another one."""
        number = next(self._numbers)
        last = len(self.store.scan(thread_id).records)
        version = self.random.randrange(1, max(last, 1) + 1)
        first = (Annotated(SECRET.format(number)),)
        writer = self.store.fork(thread_id, version, creator="sim", first=first)
        try:
            self.said.append(Saying(number, writer.thread_id))
        finally:
            writer.close()
        return writer.thread_id

    def talk(self, thread_id: str) -> None:
        """Some steps of a turn, and some facts."""
        with self._opened(thread_id) as writer:
            if writer.head.seq > RECORD_COUNT_MAX:
                return
            for _ in range(self.random.choice((1, 2, 4, 8))):
                batch = [self._say(writer) for _ in range(self.random.choice((1, 1, 2)))]
                writer.commit()
                self.said += [Saying(one, thread_id) for one in batch if one]

    def settle(self) -> None:
        """End what a crash has cut: moves to the trash, unfinished writes."""
        with self._home.trash.hold_lock():
            self._home.trash.finish_moves()
        for thread_id in self.all_ids():
            with suppress(UnknownThreadError):  # it was being made when its process died
                self.store.open_including_trash(thread_id).close()

    def rewind(self, thread_id: str) -> None:
        """Go back to where nothing was open."""
        rests = self.store.list_rests(thread_id)
        with self._opened(thread_id) as writer:
            if rests and writer.fold.is_idle:
                rest = self.random.choice(rests)
                writer.stage(Rewound(rest.version, rest.view, writer.now()))
                writer.commit()

    def trash(self, thread_id: str) -> None:
        """Put a thread into the trash."""
        self._home.trash.put([thread_id])

    def restore(self) -> None:
        """Take something back from the trash."""
        found = self._home.trash.ids()
        if found:
            self._home.trash.restore([self.random.choice(found)])

    def scrub(self, thread_id: str, number: int) -> None:
        """Take what was said under a number out of a thread."""
        secret, left = SECRET.format(number), f"[REDACTED:gone-{number:06}]"
        scrub(self.store, [thread_id], lambda text: text.replace(secret, left), wants_rest=True)

    def set_private(self, thread_id: str, is_private: bool) -> None:
        """Say whether a thread may leave this machine."""

        def give_up() -> None:
            raise StorageBusyError("it is being sent")

        set_private(self.store, thread_id, is_private, pause=give_up)

    @contextmanager
    def _opened(self, thread_id: str) -> Iterator[ThreadWriter]:
        writer = self.store.open(thread_id)
        try:
            yield writer
        finally:
            if writer.has_staged:
                writer._staged.clear()
            writer.close(wants_snapshot=self.random.random() < 0.5)

    def _say(self, writer: ThreadWriter) -> int:
        """Stage what comes next in a thread; gives its number, 0 if it has none."""
        number = next(self._numbers)
        entry = next_entry(self.random, writer.fold, SECRET.format(number))
        writer.stage(entry)
        return number if SECRET.format(number) in repr(entry) else 0


def looks_private(data: bytes) -> bool:
    """Whether a journal says, in the end, that its thread is private."""
    return data.rfind(b'"is_private":true') > data.rfind(b'"is_private":false')


def next_entry(random: Random, fold: ThreadFold, text: str) -> Entry:
    """What may come next in a conversation; mostly with this text in it."""
    if random.random() < 0.25:
        return random.choice(
            (
                Annotated(text),
                Renamed(text),
                Tagged((text,)),
                InputQueued(Message.user(text)),
            )
        )
    state = fold.state
    if isinstance(state, WaitingForUserInput):
        return UserInput(Message.user(text))
    if isinstance(state, CallingLlm):
        ids = [f"call-{text[4:]}-{place}" for place in range(random.choice((0, 0, 1, 2)))]
        return answer(text, *(call(one, random.choice(("look", "edit"))) for one in ids))
    if isinstance(state, ExecutingTools):
        waits = [
            one for one in state.executions if not isinstance(one, ToolExecutionStatus.Completed)
        ]
        one = random.choice(waits)
        if isinstance(one, ToolExecutionStatus.Pending):
            return ToolStarted(one.call_id, "12:02")
        return ToolCompleted(one.call_id, success(one.call_id, text), "12:03")
    if isinstance(state, PostToolsHook):
        return PostToolsHookCompleted(False)
    return way_out(state)  # type: ignore[arg-type]
