"""A person is asked about a call as things stand then, and what they say holds for just that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import Desk, Model, Toolbox, calls, calls_of, for_ever, mutate, tick
from runtime.test_binding import ASKING, SCOPE, Scoped, burning
from treadle import outputs
from treadle.answers import Answer, Resolution, Verdict
from treadle.core.approval import Approved, NeverAsk, OnlyRead, Question, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.errors import StoreError
from treadle.outputs import TurnOutcome

AGAIN = Answer(Resolution.RUN_AGAIN)
ELSEWHERE = replace(SCOPE, ground="there", reasons=("it is hot",), confined="nothing at all")
CHANGED = "the folder, the environment or the sandbox has changed since "


async def yes(_: Question) -> Verdict:
    return Verdict(Approved())


async def died_burning(desk: Desk, **rest: Any) -> str:
    """A thread whose process died while a call ran that a person had allowed."""
    tools = Scoped()
    tools.tools["burn"] = mutate(for_ever)
    session = desk.new(burning(), tools, ASKING, approve=yes, **rest)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    await tick(2)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    return session.thread_id


async def test_who_is_asked_to_run_a_call_again_sees_what_that_means_now(desk: Desk) -> None:
    thread_id = await died_burning(desk)
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return AGAIN

    tools = Scoped(ELSEWHERE)
    session = desk.reopen(thread_id, Model("done"), tools, ask=ask)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    ((question,), ran) = asked, tools.ran
    assert question.reasons[0] == CHANGED + "a person allowed this"
    assert question.reasons[1] == "it is hot"
    assert (question.scope.confined, question.risk) == ("nothing at all", RiskLevel.MEDIUM)
    assert ran == ["burn"], "they have seen it, and said so"
    desk.check(session)


async def test_nothing_is_said_of_a_change_where_there_was_none(desk: Desk) -> None:
    thread_id = await died_burning(desk)
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Resolution.FAILED)

    session = desk.reopen(thread_id, Model("done"), Scoped(), ask=ask)
    await session.resume()
    assert [one.scope for one in asked] == [SCOPE]


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (ELSEWHERE, "the folder, the environment or the sandbox has changed since"),
        (replace(SCOPE, refused="the box is broken"), "it was not run again: the box is broken"),
        (None, "the folder, the environment or the sandbox has changed since"),
    ],
    ids=["elsewhere", "refused", "unknown"],
)
async def test_a_call_that_has_become_another_while_it_was_asked_about_is_not_run_again(
    desk: Desk, now: Any, told: str
) -> None:
    thread_id = await died_burning(desk)
    tools = Scoped()

    async def ask(_: Question) -> Answer:
        tools.scope = now
        return AGAIN

    session = desk.reopen(thread_id, Model("done"), tools, ask=ask)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert tools.ran == []
    assert told in calls_of(session.conversation)["burn"]
    (ended,) = desk.heard.of(outputs.ToolFinished)
    assert ended.call is not None
    assert ended.call.tool_name == "burn"
    desk.check(session)


async def test_a_call_whose_tool_is_not_offered_any_more_is_not_run_again(desk: Desk) -> None:
    thread_id = await died_burning(desk)
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return AGAIN

    class Watched(Toolbox):
        async def execute(self, *call: Any, **rest: Any) -> Any:
            raise AssertionError("it was run")

    session = desk.reopen(thread_id, Model("done"), Watched(look=mutate()), ask=ask)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert "it was not run" in calls_of(session.conversation)["burn"]
    assert "it would not run: burn is not offered now" in asked[0].reasons
    desk.check(session)


async def test_each_answer_about_an_uncertain_call_is_durable_before_the_next_is_asked_for(
    desk: Desk,
) -> None:
    started = asyncio.Semaphore(0)

    async def work(run: Any) -> Any:
        started.release()
        return await for_ever(run)

    session = desk.new(Model(calls("one", "two")), Toolbox(one=mutate(work), two=mutate(work)))
    turn = asyncio.ensure_future(session.turn("go"))
    await started.acquire()
    await started.acquire()
    desk.crash()
    turn.cancel()
    with pytest.raises((StoreError, asyncio.CancelledError)):
        await turn
    asked: list[str] = []

    async def ask_and_die(question: Question) -> Answer:
        asked.append(question.call.tool_name)
        if question.call.tool_name == "two":
            desk.crash()
            raise EOFError
        return Answer(Resolution.RESULT, "one is done")

    async def ask(question: Question) -> Answer:
        asked.append(question.call.tool_name)
        return Answer(Resolution.FAILED)

    box = Toolbox(one=mutate(), two=mutate())
    broken = desk.reopen(session.thread_id, Model("done"), box, ask=ask_and_die)
    with pytest.raises(EOFError):
        await broken.resume()
    again = desk.reopen(session.thread_id, Model("done"), box, ask=ask)
    assert (await again.resume()).outcome is TurnOutcome.DONE
    assert asked == ["one", "two", "two"]
    assert calls_of(again.conversation)["one"] == "one is done"
    assert box.ran == []
    desk.check(again)


async def left_open(desk: Desk) -> str:
    """A thread of which a dead process had asked a question."""
    session = desk.new(burning(), Scoped(), ASKING)
    assert (await session.turn("go")).outcome is TurnOutcome.APPROVAL
    desk.crash()
    return session.thread_id


async def test_a_question_that_is_asked_again_elsewhere_says_so_and_a_yes_is_for_there(
    desk: Desk,
) -> None:
    thread_id = await left_open(desk)
    asked: list[Question] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question)
        return Verdict(Approved(), always=True, kinds=question.scope.kinds)

    tools = Scoped(ELSEWHERE)
    session = desk.reopen(thread_id, Model("done"), tools, approve=approve)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    (question,) = asked
    assert question.scope.reasons == (CHANGED + "the agent asked for this", "it is hot")
    assert question.scope.confined == "nothing at all"
    assert tools.ran == ["burn"]
    assert [grant.ground for grant in session.driver.grants] == ["there"]
    desk.check(session)


async def test_a_question_that_is_asked_again_where_it_was_is_the_same(desk: Desk) -> None:
    thread_id = await left_open(desk)
    asked: list[Question] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question)
        return Verdict(Approved())

    tools = Scoped()
    session = desk.reopen(thread_id, Model("done"), tools, approve=approve)
    before = session.questions
    await session.resume()
    assert (tuple(asked), tools.ran) == (before, ["burn"])


async def test_a_yes_to_what_was_shown_is_none_to_what_it_has_become_meanwhile(desk: Desk) -> None:
    thread_id = await left_open(desk)
    tools = Scoped(ELSEWHERE)

    asked: list[Question] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question)
        assert tools.ran == []
        tools.scope = SCOPE  # as it was recorded, but they have seen something else
        return Verdict(Approved())

    session = desk.reopen(thread_id, Model("done"), tools, approve=approve)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert [one.scope.ground for one in asked] == [ELSEWHERE.ground, SCOPE.ground]
    assert "has changed since a person allowed this" in " ".join(asked[1].reasons)
    assert tools.ran == ["burn"]
    desk.check(session)


async def test_what_changes_at_each_look_is_not_asked_about_for_ever(desk: Desk) -> None:
    class Restless(Scoped):
        count = 0

        def scope_of(self, call: ToolCall) -> Scope:
            self.count += 1
            return replace(SCOPE, content=str(self.count))

    tools = Restless()

    async def approve(_: Question) -> Verdict:
        return Verdict(Approved())

    session = desk.new(burning(), tools, ASKING, approve=approve)
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert tools.ran == []
    assert "has changed since" in calls_of(session.conversation)["burn"]
    desk.check(session)


async def test_an_open_question_that_cannot_run_any_more_says_so(desk: Desk) -> None:
    thread_id = await left_open(desk)
    asked: list[Question] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question)
        return Verdict(Approved())

    tools = Scoped(replace(SCOPE, refused="the box is broken"))
    session = desk.reopen(thread_id, Model("done"), tools, approve=approve)
    await session.resume()
    assert asked[0].scope.reasons == ("it would not run: the box is broken",)


async def test_of_a_call_that_never_began_people_are_told_which_it_was(desk: Desk) -> None:
    tools = Scoped()

    async def approve(_: Question) -> Verdict:
        tools.scope = ELSEWHERE
        session.driver.configure(
            replace(session.driver.journal.machine.config, approval=OnlyRead())
        )
        return Verdict(Approved())

    session = desk.new(burning(), tools, ASKING, approve=approve)
    await session.turn("go")
    (ended,) = desk.heard.of(outputs.ToolFinished)
    assert ended.call is not None
    assert ended.call.tool_name == "burn"

    desk.heard.outputs.clear()
    session.driver.configure(replace(ASKING, approval=NeverAsk()))
    await session.turn("again")
    (ended,) = desk.heard.of(outputs.ToolFinished)
    assert ended.call is None, "they were told when it began"
