"""Machines that share their threads through a server over a bad network: a seed is a run.

One step after the other is thrown: somebody works on a machine, a sync begins, a request in flight
arrives, gets lost, arrives twice or much later; a process dies at any call, even in the middle of
a write; the power goes; the server dies around a commit. In the end the faults stop, all machines
sync in turn, and everything that was acknowledged has to be everywhere, once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from lab.script import small_snapshots
from lab.simulation_processes import Crash, Process, names_of_drafts, silence
from server.databases import Templates
from sync import checker, engines
from sync.checker import Violation
from sync.simulated_machine import NUMBER, Machine, looks_private
from sync.simulated_network import Killed, Request, Wire, Work, lost, stranger
from sync.simulated_server import Death, SimulatedServer
from treadle.errors import RemoteError, StoreError, TreadleError, UnknownThreadError

STEP_COUNT: Final = 400
"""Steps of a run before the faults stop. What scrubs, forks and merges do to each other is hardly
ever seen in 140 of them."""

NAMES: Final = "abc"
THREAD_COUNT_MAX: Final = 7
ROUND_COUNT_MAX: Final = 8
"""Rounds of syncs in which all must have come together when nothing fails any more."""

LATE_COUNT_MAX: Final = 6


class Client:
    """A machine, and its sync when it is at work."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.work: Work | None = None
        self.process: Process | None = None
        self.hidden: set[str] = set()
        """Threads that are private there now: nothing of them may leave it."""


class Simulation:
    """One run.

    Args:
        seed: of everything that happens.
        templates: where the server's empty database comes from.
        folder: where its file goes; best in memory.
        on_conflict: `merge` or `fork`.
        step_count: how long it goes on before the faults stop.
    """

    def __init__(
        self,
        seed: int,
        templates: Templates,
        folder: Path,
        on_conflict: str = "merge",
        step_count: int = STEP_COUNT,
    ) -> None:
        self.seed = seed
        self.on_conflict = on_conflict
        self.random = Random(seed)
        numbers, ids = count(1), count(1)
        self.clients = [
            Client(Machine(name, Random(f"{seed}-{name}"), numbers, ids)) for name in NAMES
        ]
        self.server = SimulatedServer(templates, folder)
        self.step = 0
        self.done = dict.fromkeys(ACTIONS, 0)
        self.log = sha256()
        self.scrubbed: set[int] = set()
        self.odd: set[str] = set()
        """Threads that were made private when a server may have had them."""
        self.never_public: set[str] = set()
        """Threads that have been private from their beginning."""
        self.secret_numbers: set[int] = set()
        """What was said in private, and may not leave."""
        self.sent_count = self.fault_count = self.kill_count = 0
        self._late: list[Request] = []
        self._cut_off: set[str] = set()
        self._step_count = step_count
        self._has_faults = True

    # ---- running -------------------------------------------------------------------------------

    def run(self) -> Simulation:
        """To the end.

        Raises:
            Violation: something does not hold.
        """
        with ExitStack() as stack:
            stack.callback(self.server.close)
            stack.callback(self._end_all)
            stack.enter_context(silence())
            stack.enter_context(names_of_drafts(Random(self.seed)))
            stack.enter_context(small_snapshots(3_000))
            try:
                while self.step < self._step_count:
                    self.take_step()
                self._come_together()
            except Violation as violation:
                raise Violation(f"{violation} {self}") from violation
            except (AssertionError, Exception) as error:
                raise Violation(f"broken: {type(error).__name__}: {error} {self}") from error
        return self

    def __str__(self) -> str:
        """How to have the same run again."""
        return f"(seed {self.seed}, {self.on_conflict}, step {self.step})"

    def take_step(self) -> None:
        """Throw an action and do it."""
        self.step += 1
        [name] = self.random.choices(_NAMES, _WEIGHTS)
        client = self.random.choice(self.clients)
        self.done[name] += 1
        self._do(client, lambda: ACTIONS[name][1](self, client))
        self.log.update(
            f"{name} {client.machine.name} {client.machine.disk.change_count};".encode()
        )

    def _do(self, client: Client, action: Callable[[], object]) -> None:
        machine = client.machine
        try:
            action()
        except Crash:
            self._crashed(client)
        except (StoreError, UnknownThreadError):
            pass  # busy, in the trash, begun and never finished: all of it may be
        finally:
            self._reap(client)
        assert machine.disk.handle_count < 100

    def _crashed(self, client: Client) -> None:
        machine = client.machine
        self.kill_count += 1
        if machine.is_power:
            machine.is_power = False
            self._kill_sync(client)
            machine.cut_power()
        else:
            machine.die()

    # ---- syncs ---------------------------------------------------------------------------------

    def watch(self, client: Client, request: Request) -> None:
        """A request leaves a machine: nothing private may be in it."""
        self.sent_count += 1
        if request.thread in client.hidden and request.name != "purge":
            raise Violation(f"private: {request.name} of {request.thread} leaves")
        found = {int(one) for one in NUMBER.findall(request.body)} & self.secret_numbers
        if found:
            raise Violation(f"private: {sorted(found)} leaves with {request.name}")
        for thread in client.hidden:
            if thread.encode() in request.body:
                raise Violation(f"private: the id {thread} leaves with {request.name}")

    def begin_sync(self, client: Client, kind: Any = None) -> None:
        """Let a machine sync, until its first request."""
        if client.work is not None:
            return
        machine = client.machine
        wire = Wire(lambda request: self.watch(client, request))
        client.process = machine.new_process()
        make = kind or engines.simulated
        store, host = client.process.store, f"host-{machine.name}"
        client.work = wire.work = Work(make(store, wire, machine.random, host, self.on_conflict))
        client.work.begin()
        self._reap(client)

    def _reap(self, client: Client) -> None:
        """See to a sync that has ended."""
        work, process = client.work, client.process
        if work is None or process is None or not work.is_over:
            return
        client.work = client.process = None
        if isinstance(work.error, Crash):
            self.kill_count += 1
            process.disk.die()
            if client.machine.is_power:
                client.machine.is_power = False
                client.machine.cut_power()
            else:
                client.machine.crash_count += 1
        elif isinstance(work.error, Violation):
            raise work.error
        elif isinstance(work.error, StoreError | RemoteError):
            pass
        elif isinstance(work.error, TreadleError):
            raise Violation(f"refused: {type(work.error).__name__}: {work.error}") from work.error
        elif work.error is not None and not isinstance(work.error, Killed):
            raise work.error
        if not process.disk.is_dead and process.disk._handles:
            raise Violation(f"leak: a sync has left {len(process.disk._handles)} files open")

    def _kill_sync(self, client: Client) -> None:
        work, process = client.work, client.process
        if work is None or process is None:
            return
        process.disk.die()
        if not work.is_over:
            work.fail(Killed())
        assert work.is_over
        client.work = client.process = None

    def _end_all(self) -> None:
        for client in self.clients:
            self._kill_sync(client)

    def deliver(self, client: Client) -> None:
        """What a machine waits for arrives, or something happens to it."""
        work = client.work
        if work is None or work.request is None:
            return None
        request = work.request
        if client.machine.name in self._cut_off:
            return self._fail(client, lost(self.random))
        happens = self.random.choices(_HAPPENS, _HAPPENS_WEIGHTS)[0] if self._has_faults else ""
        if happens:
            self.fault_count += 1
        if happens == "lost before":
            return self._fail(client, lost(self.random))
        if happens == "stranger":
            return self._fail(client, stranger())
        if happens == "comes late":
            self._late = [*self._late, request][-LATE_COUNT_MAX:]
            return self._fail(client, lost(self.random))
        if happens == "twice":
            self._quietly(request)
        death = _DEATHS.get(happens, Death.NOT)
        try:
            answer = self.server.handle(request, death)
        except RemoteError as error:
            return self._fail(client, error)
        if happens == "answer lost":
            return self._fail(client, lost(self.random))
        work.answer(answer)
        return self._reap(client)

    def _fail(self, client: Client, error: Exception) -> None:
        assert client.work is not None
        client.work.fail(error)
        self._reap(client)

    def _quietly(self, request: Request) -> None:
        """A request reaches the server, and nobody hears the answer."""
        with suppress(RemoteError):
            self.server.handle(request)

    # ---- actions -------------------------------------------------------------------------------

    def _any(self, client: Client) -> str | None:
        ids = client.machine.ids()
        return self.random.choice(ids) if ids else None

    def _all_ids(self) -> set[str]:
        return {one.thread for client in self.clients for one in client.machine.said}

    def begin(self, client: Client) -> None:
        if len(self._all_ids()) >= THREAD_COUNT_MAX:
            return self.talk(client)
        is_private = self.random.random() < 0.2
        thread_id = client.machine.begin(is_private=is_private)
        if is_private:
            client.hidden.add(thread_id)
            self.never_public.add(thread_id)
            self.secret_numbers.add(client.machine.said[-1].number)
        return None

    def talk(self, client: Client) -> None:
        thread_id = self._any(client)
        if thread_id is None:
            return
        before = len(client.machine.said)
        try:
            client.machine.talk(thread_id)
        finally:
            if thread_id in client.hidden:
                self.secret_numbers.update(one.number for one in client.machine.said[before:])

    def rewind(self, client: Client) -> None:
        if (thread_id := self._any(client)) is not None:
            client.machine.rewind(thread_id)

    def fork(self, client: Client) -> None:
        thread_id = self._any(client)
        if thread_id is None or len(self._all_ids()) >= 2 * THREAD_COUNT_MAX:
            return
        if thread_id not in client.hidden:
            client.machine.fork(thread_id)

    def trash(self, client: Client) -> None:
        if (thread_id := self._any(client)) is not None:
            client.machine.trash(thread_id)

    def restore(self, client: Client) -> None:
        client.machine.restore()

    def scrub(self, client: Client) -> None:
        here = set(client.machine.ids())
        said = [one for one in client.machine.said if one.thread in here]
        if said:
            one = self.random.choice(said)
            client.machine.scrub(one.thread, one.number)
            self.scrubbed.add(one.number)

    def make_private(self, client: Client) -> None:
        thread_id = self._any(client)
        if thread_id is None or thread_id in client.hidden:
            return
        self.odd.add(thread_id)
        client.machine.set_private(thread_id, True)
        client.hidden |= self._with_forks(client, thread_id)

    def _with_forks(self, client: Client, thread_id: str) -> set[str]:
        """A thread and those on a machine that go on from it, at any depth."""
        store = client.machine.store
        bases = {one: store.load(one).fold.header.base for one in client.machine.all_ids()}
        found = {thread_id}
        while (
            more := {
                one for one, base in bases.items() if base is not None and base.thread in found
            }
            - found
        ):
            found |= more
        return found

    def make_public(self, client: Client) -> None:
        machine = client.machine
        found = [one for one in machine.ids() if one in client.hidden]
        found = [one for one in found if machine.store.load(one).fold.is_private]
        if not found:
            return
        thread_id = self.random.choice(found)
        before = set(client.hidden), set(self.secret_numbers), set(self.never_public)
        freed = self._with_forks(client, thread_id)
        client.hidden -= freed
        self.never_public.discard(thread_id)
        self.secret_numbers -= {one.number for one in machine.said if one.thread in freed}
        try:
            machine.set_private(thread_id, False)
        except (StoreError, Crash):
            if machine.looks_private(thread_id):
                client.hidden, self.secret_numbers, self.never_public = before
            raise

    def apart(self) -> set[str]:
        """Threads that need not be the same everywhere: private ones, and all that follow them."""
        found = self.odd | self.never_public | {one for two in self.clients for one in two.hidden}
        journals = [one for two in self.clients for one in checker.journals_of(two.machine).items()]
        # A process may have died after it was private and before it was told so.
        found |= {thread for thread, data in journals if looks_private(data)}
        bases = {thread: checker.base_of(data) for thread, data in journals}
        while (
            more := {
                thread
                for thread, base in bases.items()
                if base is not None and base.thread in found
            }
            - found
        ):
            found |= more
        return found

    def arm(self, client: Client) -> None:
        client.machine.fuse = self.random.randrange(1, 60)
        client.machine.is_power = self.random.random() < 0.3

    def kill_sync(self, client: Client) -> None:
        if client.work is not None:
            self.kill_count += 1
        self._kill_sync(client)

    def jump(self, client: Client) -> None:
        client.machine.jump()

    def cut_off(self, client: Client) -> None:
        self._cut_off ^= {client.machine.name}

    def late(self, client: Client) -> None:
        if self._late:
            self._quietly(self._late.pop(self.random.randrange(len(self._late))))

    def restart_server(self, client: Client) -> None:
        self.server.start_again()

    # ---- the end -------------------------------------------------------------------------------

    def _come_together(self) -> None:
        """Nothing fails any more: in a few rounds all are the same."""
        self._has_faults = False
        self._cut_off.clear()
        for client in self.clients:
            client.machine.fuse = 0
            self._kill_sync(client)
            client.machine.die()
            client.machine.settle()
        states: list[object] = []
        for _ in range(ROUND_COUNT_MAX):
            for client in self.clients:
                self._sync_whole(client)
            states.append(checker.state_of(self))
            if len(states) > 2 and states[-1] == states[-2] == states[-3]:
                break
        else:
            raise Violation("restless: the machines never come together")
        checker.check(self)

    def _sync_whole(self, client: Client) -> None:
        client.machine.jump_ahead()
        self.begin_sync(client, engines.whole)
        for _ in range(1_000):
            if client.work is None:
                return
            self.deliver(client)
        raise Violation(f"restless: a sync of {client.machine.name} does not end")


ACTIONS: Final[dict[str, tuple[int, Callable[[Simulation, Client], Any]]]] = {
    "begin": (6, Simulation.begin),
    "talk": (24, Simulation.talk),
    "rewind": (2, Simulation.rewind),
    "fork": (2, Simulation.fork),
    "trash": (1, Simulation.trash),
    "restore": (2, Simulation.restore),
    "scrub": (2, Simulation.scrub),
    "make private": (1, Simulation.make_private),
    "make public": (1, Simulation.make_public),
    "sync": (30, Simulation.begin_sync),
    "deliver": (120, Simulation.deliver),
    "arm": (5, Simulation.arm),
    "kill a sync": (2, Simulation.kill_sync),
    "jump": (2, Simulation.jump),
    "cut off": (3, Simulation.cut_off),
    "late": (3, Simulation.late),
    "restart the server": (1, Simulation.restart_server),
}
"""What can happen next, and how often it does."""

_NAMES: Final = list(ACTIONS)
_WEIGHTS: Final = [weight for weight, _ in ACTIONS.values()]
_HAPPENS: Final = (
    "",
    "lost before",
    "answer lost",
    "comes late",
    "twice",
    "stranger",
    "dies before",
    "dies after",
)
_HAPPENS_WEIGHTS: Final = (70, 5, 6, 5, 6, 1, 3, 4)
_DEATHS: Final = {"dies before": Death.BEFORE, "dies after": Death.AFTER}
