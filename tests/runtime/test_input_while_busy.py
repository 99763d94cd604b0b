"""What a person says while the agent works is kept, in order, and delivered afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Folder, Model, Run, Toolbox, calls, mutate, read
from runtime.disks import full
from treadle import outputs
from treadle.errors import StoreError, UsageError
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.runtime.session import Session

WORK = ({"when": {"user": "^work"}, **calls("work")}, {"when": {"user": "^work"}, "text": "worked"})
"""Replies: to `work` a call and an answer; to anything else an answer."""


class Talker:
    """Says things to a session while its tool runs."""

    def __init__(self, *said: str) -> None:
        self.session: Session | None = None
        self.turns: list[asyncio.Task[TurnFinished]] = []
        self.durable: list[list[str]] = []
        self._said = said

    async def work(self, _: Run) -> str:
        assert self.session is not None
        for text in self._said:
            self.turns.append(asyncio.ensure_future(self.session.turn(text)))
            await tick()
        return "worked"


def asked(session: Session) -> list[str]:
    return [message.content for message in session.conversation if message.role == "user"]


def queued(desk: Desk, session: Session) -> list[str]:
    events = desk.events(session.thread_id)
    return [e["message"]["content"] for e in events if e["type"] == "input_queued"]


async def test_input_while_a_tool_runs_is_durable_at_once_and_delivered_afterwards(
    desk: Desk,
) -> None:
    talker = Talker("more")
    found: list[list[str]] = []

    async def work(run: Run) -> str:
        await talker.work(run)
        found.append(queued(desk, session))
        return "worked"

    session = talker.session = desk.new(Model(*WORK, "answered"), Toolbox(work=mutate(work)))
    finished = await session.turn("work")
    assert found == [["more"]], "on disk while the tool still runs"
    assert finished.answer == "answered", "a turn is over when the agent waits again"
    assert await talker.turns[0] == finished
    assert [m.content for m in session.conversation] == [
        "work",
        "",
        "worked",
        "worked",
        "more",
        "answered",
    ]
    desk.check(session)


async def test_input_while_the_model_streams_is_durable_at_once(desk: Desk) -> None:
    turns: list[asyncio.Task[TurnFinished]] = []

    def talk(output: outputs.Output) -> None:
        if isinstance(output, outputs.TextDelta) and not turns:
            turns.append(asyncio.ensure_future(session.turn("more")))

    desk.heard.on_output = talk
    slow = {"chunks": ["a", "b"], "delay_s": 1, "when": {"user": "go"}}
    session = desk.new(Model(slow, "answered"))
    await session.turn("go")
    events = desk.kinds(session.thread_id)
    assert events.index("input_queued") < events.index("llm_completed")
    assert [m.content for m in session.conversation] == ["go", "ab", "more", "answered"]


async def test_several_inputs_are_delivered_in_order_each_in_a_turn_of_its_own(
    desk: Desk,
) -> None:
    talker = Talker("one", "two", "two", "three")
    model = Model(*WORK, "answered")
    session = talker.session = desk.new(model, Toolbox(work=mutate(talker.work)))
    await session.turn("work")
    assert asked(session) == ["work", "one", "two", "two", "three"]
    assert [told.prompt for told in desk.heard.of(outputs.TurnStarted)] == asked(session)
    assert len(model.requests) == 6
    assert len({finished.version for finished in await asyncio.gather(*talker.turns)}) == 1
    desk.check(session)


async def test_input_that_comes_during_the_first_look_at_the_folder_comes_second(
    desk: Desk,
) -> None:
    folder = Folder()
    session = desk.new(Model("answered"), workspace=folder)
    first = asyncio.ensure_future(session.turn("one"))
    await tick()
    assert folder.looks == 1
    second = asyncio.ensure_future(session.turn("two"))
    await asyncio.gather(first, second)
    assert asked(session) == ["one", "two"]
    desk.check(session)


async def test_input_that_comes_during_the_last_look_at_the_folder_is_delivered(
    desk: Desk,
) -> None:
    folder = Folder()
    turns: list[asyncio.Task[TurnFinished]] = []

    async def talk() -> None:
        if folder.looks == 2:
            turns.append(asyncio.ensure_future(session.turn("two")))
        await tick()

    folder.on_look = talk
    session = desk.new(Model("answered"), workspace=folder)
    await session.turn("one")
    assert (await turns[0]).answer == "answered"
    assert asked(session) == ["one", "two"]
    desk.check(session)


async def test_empty_input_is_refused_and_leaves_nothing(desk: Desk) -> None:
    session = desk.new(Model("answered"))
    for text in ("", "  \n\t"):
        with pytest.raises(UsageError):
            await session.turn(text)
    assert desk.kinds(session.thread_id) == ["thread_created"]


async def test_a_queued_turn_is_not_blamed_for_the_failure_of_the_one_before(desk: Desk) -> None:
    talker = Talker("more")
    failure = {"error": {"kind": "bad_request"}, "times": 0, "when": {"tool": "work"}}
    model = Model(failure, WORK[0], "answered")
    session = talker.session = desk.new(model, Toolbox(work=read(talker.work)))
    await session.turn("work")
    finished = await talker.turns[0]
    assert (finished.outcome, finished.answer, finished.error) == (TurnOutcome.DONE, "answered", "")
    assert len(desk.heard.of(outputs.ErrorShown)) == 1


async def test_a_cancel_leaves_queued_input_for_the_next_turn(desk: Desk) -> None:
    talker = Talker("more")

    async def work(run: Run) -> str:
        await talker.work(run)
        session.cancel()
        return "worked"

    session = talker.session = desk.new(Model(*WORK, "answered"), Toolbox(work=mutate(work)))
    assert (await session.turn("work")).outcome is TurnOutcome.CANCELLED
    assert (await talker.turns[0]).outcome is TurnOutcome.CANCELLED
    assert asked(session) == ["work"]
    await session.turn("last")
    assert asked(session) == ["work", "more", "last"]
    desk.check(session)


async def test_a_cancel_between_two_turns_leaves_queued_input_untouched(desk: Desk) -> None:
    talker = Talker("more")
    failure = {"error": {"kind": "bad_request"}, "times": 0, "when": {"tool": "work"}}
    model = Model(failure, WORK[0], "answered")
    desk.heard.on_output = lambda output: (
        session.cancel() if isinstance(output, outputs.ErrorShown) else None
    )
    session = talker.session = desk.new(model, Toolbox(work=read(talker.work)))
    assert (await session.turn("work")).outcome is TurnOutcome.CANCELLED
    assert asked(session) == ["work"]
    assert (await session.resume()).answer == "answered"
    assert asked(session) == ["work", "more"]
    desk.check(session)


async def test_resume_delivers_what_a_cancel_left_queued(desk: Desk) -> None:
    talker = Talker("more")

    async def work(run: Run) -> str:
        await talker.work(run)
        session.cancel()
        return "worked"

    session = talker.session = desk.new(Model(*WORK, "answered"), Toolbox(work=mutate(work)))
    await session.turn("work")
    assert (await session.resume()).answer == "answered"
    assert asked(session) == ["work", "more"]


async def test_whoever_waits_for_queued_input_may_stop_waiting(desk: Desk) -> None:
    talker = Talker("more")

    async def work(run: Run) -> str:
        await talker.work(run)
        talker.turns[0].cancel()
        return "worked"

    session = talker.session = desk.new(Model(*WORK, "answered"), Toolbox(work=mutate(work)))
    assert (await session.turn("work")).answer == "answered"
    assert talker.turns[0].cancelled()
    assert asked(session) == ["work", "more"]


async def test_resume_while_a_turn_runs_waits_for_it(desk: Desk) -> None:
    others: list[asyncio.Task[TurnFinished]] = []

    async def work(_: Run) -> str:
        others.append(asyncio.ensure_future(session.resume()))
        await tick(3)
        assert not others[0].done()
        return "worked"

    model = Model(*WORK)
    tools = Toolbox(work=mutate(work))
    session = desk.new(model, tools)
    finished = await session.turn("work")
    assert await others[0] == finished
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "worked")
    assert len(tools.runs) == 1
    assert len(model.requests) == 2


async def test_the_result_of_queued_input_is_not_that_of_a_turn_begun_later(desk: Desk) -> None:
    talker = Talker("more")
    late = {"when": {"user": "late"}, "error": {"kind": "bad_request"}, "times": 0}
    model = Model(late, *WORK, "answered")
    session = talker.session = desk.new(model, Toolbox(work=mutate(talker.work)))
    await session.turn("work")
    later = asyncio.ensure_future(session.turn("late"))
    later_too = await talker.turns[0]
    assert (later_too.outcome, later_too.answer) == (TurnOutcome.DONE, "answered")
    assert (await later).outcome is TurnOutcome.FAILED


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_disk_that_fails_is_told_to_whoever_waits(desk: Desk, operation: str) -> None:
    talker = Talker("more")

    async def work(run: Run) -> str:
        await talker.work(run)
        desk.disk.before = refuse
        return "worked"

    def refuse(asked_for: str, *_: Any) -> None:
        if asked_for == operation:
            raise full(operation)

    session = talker.session = desk.new(Model(*WORK, "answered"), Toolbox(work=mutate(work)))
    with pytest.raises(StoreError):
        await session.turn("work")
    with pytest.raises(StoreError):
        await talker.turns[0]
    desk.crash()
    again = desk.reopen(session.thread_id, Model(*WORK, "answered"), Toolbox(work=mutate()))
    await again.resume()
    assert asked(again) == ["work", "more"]


async def test_a_disk_that_refuses_queued_input_ends_the_running_turn_too(desk: Desk) -> None:
    async def work(_: Run) -> str:
        desk.disk.before = refuse
        with pytest.raises(StoreError):
            await session.turn("more")
        await asyncio.Event().wait()
        return "never"

    def refuse(operation: str, *_: Any) -> None:
        if operation == "write":
            raise full()

    tools = Toolbox(work=mutate(work))
    session = desk.new(Model(*WORK), tools)
    with pytest.raises(StoreError):
        await session.turn("work")
    assert tools.ended == ["call-1-0"], "the tool was stopped"


async def test_queued_input_survives_a_crash_in_its_order(desk: Desk) -> None:
    talker = Talker("one", "two")

    async def work(run: Run) -> str:
        await talker.work(run)
        desk.disk.kill()
        return "worked"

    session = talker.session = desk.new(Model(*WORK), Toolbox(work=read(work)))
    with pytest.raises(StoreError):
        await session.turn("work")
    for turn in talker.turns:
        with pytest.raises(StoreError):
            await turn
    desk.crash()
    again = desk.reopen(session.thread_id, Model(*WORK, "answered"), Toolbox(work=read()))
    assert (await again.turn("three")).answer == "answered"
    assert asked(again) == ["work", "one", "two", "three"]
    assert queued(desk, again) == ["one", "two", "three"]
    desk.check(again)


async def test_queued_input_survives_a_crash_after_the_turn_it_waited_for(desk: Desk) -> None:
    talker = Talker("more")

    def die(output: outputs.Output) -> None:
        if isinstance(output, outputs.TurnStarted) and output.prompt == "more":
            raise AssertionError("it must not begin")

    def before(operation: str, *_: Any) -> None:
        if operation == "write" and "llm_completed" in desk.kinds(session.thread_id)[-1:]:
            raise full()

    session = talker.session = desk.new(Model(*WORK), Toolbox(work=read(talker.work)))
    desk.heard.on_output = die
    desk.disk.before = before
    with pytest.raises(StoreError):
        await session.turn("work")
    with pytest.raises(StoreError):
        await talker.turns[0]
    desk.crash()
    again = desk.reopen(session.thread_id, Model(*WORK, "answered"), Toolbox(work=read()))
    assert again.is_waiting
    assert (await again.resume()).answer == "answered"
    assert asked(again) == ["work", "more"]
    desk.check(again)
