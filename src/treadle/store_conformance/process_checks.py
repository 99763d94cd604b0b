"""Checks of a store that take several processes: locks that death frees, races, readers beside."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

from treadle.agent.agent import Agent
from treadle.errors import ThreadBusyError
from treadle.models.scripted.provider import ScriptedModel
from treadle.store_conformance.demands import (
    Chain,
    Check,
    OpenStore,
    begin,
    demand,
    demand_begun,
    demand_raised,
    make_id,
    read_all,
)
from treadle.thread.record import JournalCondition, scan_journal
from treadle.tools.function_tool import tool

KILLS: Final = 4
"""So often a process is killed while it appends."""

RACERS: Final = 3
RACES: Final = 15
LINES: Final = 40
"""What each of two writers appends who take turns."""

BATCHES: Final = 60
"""What is appended beside a reader."""

ANSWER_S_MAX: Final = 60.0
"""Seconds after which another process counts as stuck."""

Work = Callable[..., None]


class Other:
    """Another process that has opened the store and works on it."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self._process = process
        self.connection = connection

    def hear(self) -> Any:
        """The next that it says; a `ConformanceError` if it has died or is stuck."""
        try:
            demand(self.connection.poll(ANSWER_S_MAX), "another process is not kept waiting")
            said = self.connection.recv()
        except EOFError:
            said = RuntimeError("it has ended")
        demand(not isinstance(said, Exception), f"another process can use the store: {said!r}")
        return said

    def kill(self) -> None:
        """End it, as `kill -9` does."""
        self._process.kill()
        self._process.join()


@contextmanager
def _start(work: Work, open_store: OpenStore, *arguments: object) -> Iterator[Other]:
    """Another process that does this; it is killed at the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(work, open_store, theirs, arguments), daemon=True)
    process.start()
    theirs.close()
    other = Other(process, ours)
    try:
        yield other
    finally:
        other.kill()
        ours.close()


def _run(work: Work, open_store: OpenStore, to: Connection, arguments: Sequence[object]) -> None:
    try:
        work(open_store, to, *arguments)
    except Exception as error:  # noqa: BLE001  it is told in the process that asked
        to.send(RuntimeError(f"{type(error).__name__}: {error}"))


# ---- deaths --------------------------------------------------------------------------------------


def _append_without_end(open_store: OpenStore, to: Connection, thread_id: str) -> None:
    store, chain = open_store(), Chain()
    data = chain.make_batch("begun")
    held = demand_begun(store.begin(thread_id, data))
    to.send(data)
    while True:
        size = chain.head.size
        data = chain.make_batch(*("🧵" * n for n in range(1, 30)))
        held.append(data, size)
        to.send(data)


def loses_nothing_when_killed(open_store: OpenStore) -> None:
    """Of a process that is killed in the middle of an append all earlier ones are there."""
    for nth in range(KILLS):
        thread_id = make_id()
        with _start(_append_without_end, open_store, thread_id) as other:
            known = b"".join(other.hear() for _ in range(1 + 3 * nth))
            other.kill()
            try:
                while other.connection.poll():
                    known += other.connection.recv()
            except EOFError:
                pass
        store = open_store()
        held = store.hold(thread_id)
        found = scan_journal(read_all(store, thread_id))
        demand(
            read_all(store, thread_id).startswith(known) and found.head.size >= len(known),
            "what an append has acknowledged is there after a kill -9",
        )
        torn = (JournalCondition.CLEAN, JournalCondition.TORN)
        demand(found.condition in torn, f"of a cut append a beginning is left: {found.reason}")
        if found.condition is JournalCondition.TORN:
            held.cut(found.head.size)
        held.append(b"more\n", found.head.size)
        held.close()
        whole = read_all(open_store(), thread_id)
        demand(whole[found.head.size :] == b"more\n", "after a kill -9 a journal is gone on with")


def _hold(open_store: OpenStore, to: Connection, thread_id: str) -> None:
    held = open_store().hold(thread_id)
    to.send("held")
    to.recv()
    held.close()


def frees_what_the_dead_have_held(open_store: OpenStore) -> None:
    """A journal is held against other processes as long as its holder lives, and no longer."""
    store = open_store()
    thread_id = begin(store, b"{}\n")
    with _start(_hold, open_store, thread_id) as other:
        other.hear()
        for one in (store, open_store()):
            with demand_raised(ThreadBusyError, "a thread that another process holds is busy"):
                one.hold(thread_id)
        demand(read_all(store, thread_id) == b"{}\n", "a thread that is held can be read")
        other.kill()
        for one in (store, open_store()):
            try:
                one.hold(thread_id).close()
            except ThreadBusyError:
                demand(False, "a thread is free when the process that held it was killed")


# ---- races ---------------------------------------------------------------------------------------


def _race_for_keys(open_store: OpenStore, to: Connection) -> None:
    store = open_store()
    for nth in range(RACES):
        to.send("ready")
        to.recv()
        thread_id = make_id()
        held = store.begin(thread_id, b"{}\n", f"key {nth}")
        found = store.find_key(f"key {nth}")
        to.send((held is not None, thread_id, found))
        if held is not None:
            held.close()


def gives_keys_once_in_a_race(open_store: OpenStore) -> None:
    """Of processes that begin one key at the same moment one has it; all find that one."""
    with (
        _start(_race_for_keys, open_store) as first,
        _start(_race_for_keys, open_store) as second,
        _start(_race_for_keys, open_store) as third,
    ):
        others = (first, second, third)
        won: list[str] = []
        for _ in range(RACES):
            for one in others:
                one.hear()
            for one in others:
                one.connection.send("go")
            told = [one.hear() for one in others]
            winners = [thread_id for has_won, thread_id, _ in told if has_won]
            demand(len(winners) == 1, f"{len(winners)} of {RACERS} processes got one key")
            found = {found for *_, found in told}
            demand(found == {*winners}, "all find the thread that has the key")
            won += winners
    demand(sorted(open_store().ids()) == sorted(won), "of who loses a key nothing is left")


def _take_turns(open_store: OpenStore, to: Connection, thread_id: str, name: bytes) -> None:
    store = open_store()
    for nth in range(LINES):
        while True:
            try:
                held = store.hold(thread_id)
                break
            except ThreadBusyError:
                continue
        size = len(read_all(store, thread_id))
        held.append(b"%b %d\n" % (name, nth), size)
        held.close()
    to.send("done")


def mixes_no_writers(open_store: OpenStore) -> None:
    """Of two processes that take turns nothing is lost, and nothing stands there twice."""
    thread_id = begin(open_store(), b"{}\n")
    with (
        _start(_take_turns, open_store, thread_id, b"a") as first,
        _start(_take_turns, open_store, thread_id, b"b") as second,
    ):
        first.hear(), second.hear()
    lines = read_all(open_store(), thread_id).splitlines()[1:]
    for name in (b"a", b"b"):
        of_one = [line for line in lines if line.startswith(name)]
        wanted = [b"%b %d" % (name, nth) for nth in range(LINES)]
        demand(of_one == wanted, "two who take turns lose nothing and double nothing")


def _append_much(open_store: OpenStore, to: Connection, thread_id: str) -> None:
    store, chain = open_store(), Chain()
    held = demand_begun(store.begin(thread_id, chain.make_batch("begun")))
    to.send("begun")
    for nth in range(BATCHES):
        size = chain.head.size
        held.append(chain.make_batch(*(f"{nth} {n} " + "🧵" * 500 for n in range(40))), size)
    held.close()
    to.send(chain.head)


def shows_readers_no_damage(open_store: OpenStore) -> None:
    """Who reads while another process appends sees a beginning of the journal, never a gap."""
    thread_id = make_id()
    with _start(_append_much, open_store, thread_id) as other:
        other.hear()
        store, seen = open_store(), 0
        while not other.connection.poll():
            found = scan_journal(read_all(store, thread_id))
            is_sound = found.condition is not JournalCondition.CORRUPT
            demand(is_sound, f"a reader sees no damage: {found.reason}")
            demand(found.head.seq >= seen, "what a reader has seen stays")
            seen = found.head.seq
        demand(
            scan_journal(read_all(store, thread_id)).head == other.hear(),
            "a reader sees all in the end",
        )


# ---- agents --------------------------------------------------------------------------------------


def _make_agent(open_store: OpenStore, on_call: Callable[[], None]) -> Agent[None, str]:
    @tool
    def pay() -> str:
        """Pay."""
        on_call()
        return "paid"

    model = ScriptedModel.of(
        {"when": {"step": 0}, "calls": [{"tool": "pay"}]}, {"text": "I have seen to it."}
    )
    return Agent("payer", model=model, tools=[pay], store=open_store())


def _pay(open_store: OpenStore, to: Connection) -> None:
    def stop() -> None:
        to.send("paying")
        to.recv()

    async def talk() -> None:
        async with _make_agent(open_store, stop).thread("bill 7") as thread:
            await thread.send("Pay it.")

    asyncio.run(talk())


def an_agent_survives_a_kill(open_store: OpenStore) -> None:
    """An agent that is killed in a call is gone on with by its key; the call is not made twice."""
    calls: list[str] = []

    async def go_on() -> None:
        agent = _make_agent(open_store, lambda: calls.append("again"))
        async with agent.thread("bill 7") as thread:
            answer = (await thread.resume()).output
            said = " ".join(one.content for one in thread.messages)
        demand(answer == "I have seen to it.", "a killed agent is gone on with")
        demand("Pay it." in said and "not run again" in said, "it knows what was said and done")

    with _start(_pay, open_store) as other:
        other.hear()
        other.kill()
        asyncio.run(go_on())
    demand(calls == [], "a call that may have been made is not made again")
    demand(len(open_store().ids()) == 1, "a key leads to the thread that was begun with it")


CHECKS: Final[Sequence[Check]] = (
    loses_nothing_when_killed,
    frees_what_the_dead_have_held,
    gives_keys_once_in_a_race,
    mixes_no_writers,
    shows_readers_no_damage,
    an_agent_survives_a_kill,
)
