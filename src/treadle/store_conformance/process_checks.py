"""Checks of a store that take several processes: locks that death frees, races, readers beside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from treadle.agent.agent import Agent
from treadle.errors import StaleWriterError, ThreadBusyError, UnknownThreadError
from treadle.models.scripted.provider import ScriptedModel
from treadle.store.port import HeldJournal, Store
from treadle.store_conformance.demands import (
    Chain,
    Check,
    OpenStore,
    begin,
    demand,
    demand_equal,
    demand_raised,
    make_id,
    read_all,
)
from treadle.store_conformance.workers import (
    Desk,
    choose_lines,
    hold_when_free,
    meet,
    start_worker,
)
from treadle.thread.record import JournalCondition, scan_journal
from treadle.tools.function_tool import tool

KILLS: Final = 4
"""At so many lines a process is killed, one after the other."""

MEETINGS: Final = 40
"""At so many lines a process is stopped while another one does the same."""


# ---- what workers do -----------------------------------------------------------------------------


def _begin(desk: Desk, thread_id: str, data: bytes, key: str = "") -> bool:
    held = desk.store.begin(thread_id, data, key)
    if held is not None:
        desk.held[thread_id] = held
    return held is not None


def _begin_new(desk: Desk, key: str) -> str:
    """The thread that was begun; empty if another one has the key."""
    thread_id = make_id()
    return thread_id if _begin(desk, thread_id, b"{}\n", key) else ""


def _hold(desk: Desk, thread_id: str) -> bool:
    try:
        desk.held[thread_id] = desk.store.hold(thread_id)
    except ThreadBusyError:
        return False
    return True


def _append(desk: Desk, thread_id: str, data: bytes, size: int) -> bool:
    try:
        desk.held[thread_id].append(data, size)
    except StaleWriterError:
        return False
    return True


def _close(desk: Desk, thread_id: str) -> None:
    desk.held[thread_id].close()


def _find(desk: Desk, key: str) -> str | None:
    return desk.store.find_key(key)


def _read(desk: Desk, thread_id: str) -> bytes:
    return read_all(desk.store, thread_id)


# ---- deaths --------------------------------------------------------------------------------------


def _hold_after_death(store: Store, thread_id: str) -> HeldJournal:
    try:
        return hold_when_free(store, thread_id)
    except ThreadBusyError as error:
        demand(False, "a thread is free when the process that held it was killed")
        raise AssertionError from error


def loses_nothing_when_killed(open_store: OpenStore) -> None:
    """Of a process that is killed in the middle of an append all earlier ones are there."""
    line_count = 1
    for nth in range(KILLS):
        thread_id, chain = make_id(), Chain()
        known, size = chain.make_batch("begun"), chain.head.size
        with start_worker(open_store) as worker:
            worker.do(_begin, thread_id, known)
            data = chain.make_batch(*("🧵" * n for n in range(1, 30)))
            worker.do(_append, thread_id, data, size)
            line_count = worker.line_count or line_count
            known, size = known + data, chain.head.size
            data = chain.make_batch("of this", "a beginning", "is left")
            lines = choose_lines(line_count, KILLS)
            worker.begin(_append, thread_id, data, size, line=lines[min(nth, len(lines) - 1)])
            if not worker.is_stopped():  # it has taken fewer lines than the one before
                known, data = known + data, b""
            worker.kill()
        store = open_store()
        held = _hold_after_death(store, thread_id)
        whole = read_all(store, thread_id)
        demand(whole.startswith(known), "what an append has acknowledged is there after a kill -9")
        demand((known + data).startswith(whole), "of a cut append a beginning is left")
        found = scan_journal(whole)
        if found.condition is JournalCondition.TORN:
            held.cut(found.head.size)
        held.append(b"more\n", found.head.size)
        held.close()
        left = read_all(open_store(), thread_id)[found.head.size :]
        demand_equal(left, b"more\n", "after a kill -9 a journal is gone on with")


def gives_no_key_to_a_half(open_store: OpenStore) -> None:
    """Of a process that is killed in a begin a whole thread with its key is left, or no key."""
    line_count, data = 0, b'{"first":1}\n{"second":2}\n'
    for nth in range(KILLS):
        thread_id, key = make_id(), f"key {nth}"
        with start_worker(open_store) as worker:
            if not nth:
                worker.do(_begin, make_id(), data, "another key")
                line_count = worker.line_count
            lines = choose_lines(line_count, KILLS)
            line = lines[min(nth, len(lines) - 1)]
            worker.begin(_begin, thread_id, data, key, line=line)
            worker.is_stopped()
            worker.kill()
        store = open_store()
        if store.find_key(key) is None:
            with suppress(UnknownThreadError):
                demand(data.startswith(read_all(store, thread_id)), "a cut begin leaves its own")
            thread_id = begin(store, data, key)
        demand_equal(open_store().find_key(key), thread_id, "who is cut in a begin holds up no key")
        demand_equal(
            read_all(store, thread_id), data, "a key finds a whole thread, after a kill too"
        )
        _hold_after_death(store, thread_id).close()


def frees_what_the_dead_have_held(open_store: OpenStore) -> None:
    """A journal is held against other processes as long as its holder lives, and no longer."""
    store = open_store()
    thread_id = begin(store, b"{}\n")
    with start_worker(open_store) as other:
        demand(other.do(_hold, thread_id), "a thread that is free is held")
        for one in (store, open_store()):
            with demand_raised(ThreadBusyError, "a thread that another process holds is busy"):
                one.hold(thread_id)
        demand_equal(read_all(store, thread_id), b"{}\n", "a thread that is held can be read")
        other.kill()
        for one in (store, open_store()):
            _hold_after_death(one, thread_id).close()


def refuses_who_has_slept(open_store: OpenStore) -> None:
    """Who was stopped until its thread was given to another one appends nothing, and frees nothing.

    Where a stopped process keeps what it holds, nobody gets the thread meanwhile.
    """
    store = open_store()
    thread_id = make_id()
    with start_worker(open_store) as sleeper:
        sleeper.do(_begin, thread_id, b"one\n")
        sleeper.pause()
        try:
            held = hold_when_free(store, thread_id)
        except ThreadBusyError:
            sleeper.wake()
            demand(sleeper.do(_append, thread_id, b"two\n", 4), "who still holds a thread appends")
            demand_equal(read_all(store, thread_id), b"one\ntwo\n", "what it has appended is there")
            return
        sleeper.wake()
        refused = "who has slept does not append beside the present holder"
        demand(not sleeper.do(_append, thread_id, b"no\n", 4), refused)
        held.append(b"two\n", 4)
        demand(not sleeper.do(_append, thread_id, b"no\n", 8), refused)
        sleeper.do(_close, thread_id)
        with demand_raised(ThreadBusyError, "who has slept frees nothing of the present holder"):
            open_store().hold(thread_id)
        held.append(b"three\n", 8)
        held.close()
        demand_equal(
            read_all(store, thread_id), b"one\ntwo\nthree\n", "who has slept changes nothing"
        )
        hold_when_free(store, thread_id).close()


# ---- meetings ------------------------------------------------------------------------------------


def gives_keys_once_in_a_race(open_store: OpenStore) -> None:
    """Of processes that begin one key at the same moment one has it; all find that one."""
    with start_worker(open_store) as first, start_worker(open_store) as second:
        won = [first.do(_begin_new, "alone"), second.do(_begin_new, "alone too")]
        for line in choose_lines(first.line_count, MEETINGS):
            key = f"key {line}"
            winners = [*filter(None, meet(first, second, _begin_new, [key], line))]
            demand_equal(len(winners), 1, f"{len(winners)} of two processes got one key")
            found = {first.do(_find, key), second.do(_find, key), open_store().find_key(key)}
            demand_equal(found, {*winners}, "all find the thread that has the key")
            won += winners
    demand_equal(sorted(open_store().ids()), sorted(won), "of who loses a key nothing is left")


def holds_for_one_in_a_race(open_store: OpenStore) -> None:
    """Of processes that want a thread at the same moment one has it, and appends to it."""
    store = open_store()
    with start_worker(open_store) as first, start_worker(open_store) as second:
        for worker in (first, second):
            thread_id = begin(store)
            demand(worker.do(_hold, thread_id), "a thread that is free is held")
            line_count = worker.line_count
        for line in choose_lines(line_count, MEETINGS):
            thread_id = begin(store)  # a longer one may take other lines
            told = meet(first, second, _hold, [thread_id], line)
            demand_equal(sum(told), 1, f"{sum(told)} of two processes hold a thread")
            winner = first if told[0] else second
            demand(winner.do(_append, thread_id, b"{}\n", 3), "who holds a thread appends to it")
            winner.do(_close, thread_id)
            demand_equal(read_all(store, thread_id), b"{}\n{}\n", "what a holder appends is there")


def shows_readers_no_damage(open_store: OpenStore) -> None:
    """Who reads while another process appends sees a beginning of the journal, never a gap."""
    thread_id, chain = make_id(), Chain()
    whole = chain.make_batch("begun")

    def check(found: bytes, known: bytes, data: bytes) -> None:
        demand(found.startswith(known), "what a reader has seen stays")
        demand((known + data).startswith(found), "a reader sees a beginning, and no damage")

    with start_worker(open_store) as writer, start_worker(open_store) as reader:
        writer.do(_begin, thread_id, whole)
        lines: Sequence[int] = [0]
        while lines:
            size, nth = len(whole), chain.head.seq
            data = chain.make_batch(*(f"{nth} {n} " + "🧵" * 500 for n in range(40)))
            writer.begin(_append, thread_id, data, size, line=lines[0])
            is_stopped = bool(lines[0]) and writer.is_stopped()
            if is_stopped:
                reader.begin(_read, thread_id)
                reader.is_done(reader.patience_s)
                writer.go_on()
                check(reader.hear(), whole, data)
            demand(writer.hear(), "who holds a thread appends to it")
            lines = lines[1:] if lines[0] else choose_lines(writer.line_count, MEETINGS)
            whole += data
            check(reader.do(_read, thread_id), whole, b"")


# ---- agents --------------------------------------------------------------------------------------


def _make_agent(store: Store, on_call: Callable[[], None]) -> Agent[None, str]:
    @tool
    def pay() -> str:
        """Pay."""
        on_call()
        return "paid"

    model = ScriptedModel.of(
        {"when": {"step": 0}, "calls": [{"tool": "pay"}]}, {"text": "I have seen to it."}
    )
    return Agent("payer", model=model, tools=[pay], store=store)


def _pay(desk: Desk) -> None:
    async def talk() -> None:
        async with _make_agent(desk.store, desk.stop).thread("bill 7") as thread:
            await thread.send("Pay it.")

    asyncio.run(talk())


def an_agent_survives_a_kill(open_store: OpenStore) -> None:
    """An agent that is killed in a call is gone on with by its key; the call is not made twice."""
    calls: list[str] = []

    async def go_on() -> None:
        agent = _make_agent(open_store(), lambda: calls.append("again"))
        async with agent.thread("bill 7") as thread:
            answer = (await thread.resume()).output
            said = " ".join(one.content for one in thread.messages)
        demand_equal(answer, "I have seen to it.", "a killed agent is gone on with")
        demand("Pay it." in said and "not run again" in said, "it knows what was said and done")

    with start_worker(open_store) as worker:
        worker.begin(_pay)
        demand(worker.is_stopped(), "an agent calls a tool")
        worker.kill()
    store = open_store()
    _hold_after_death(store, store.find_key("bill 7") or "").close()
    asyncio.run(go_on())
    demand_equal(calls, [], "a call that may have been made is not made again")
    demand_equal(len(store.ids()), 1, "a key leads to the thread that was begun with it")


CHECKS: Final[Sequence[Check]] = (
    loses_nothing_when_killed,
    gives_no_key_to_a_half,
    frees_what_the_dead_have_held,
    refuses_who_has_slept,
    gives_keys_once_in_a_race,
    holds_for_one_in_a_race,
    shows_readers_no_damage,
    an_agent_survives_a_kill,
)
