"""A round of calls whose process died: every standing, every effect class, with and without ask."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import (
    CONFIG,
    Desk,
    Folder,
    Model,
    Run,
    Tool,
    Toolbox,
    calls,
    calls_of,
    for_ever,
    idempotent,
    imbalance,
    mutate,
    read,
    roles,
)
from treadle import outputs
from treadle.answers import Answer, Resolution
from treadle.core.approval import Question
from treadle.core.events import LlmEvent, ToolCompleted, ToolStarted, ToolUncertain, UserInput
from treadle.core.llm import LlmResponse
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import EffectClass, ToolExecutionOutcome
from treadle.errors import StoreError
from treadle.outputs import TurnOutcome
from treadle.runtime.recovery import UNCERTAIN_TEXT
from treadle.runtime.session import Session
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured

STANDINGS = ("not started", "started", "uncertain", "completed")
TOOLS = {"look": EffectClass.READ, "put": EffectClass.IDEMPOTENT, "edit": EffectClass.MUTATE}
ANSWERS = {
    "nobody": None,
    "again": Answer(Resolution.RUN_AGAIN),
    "failed": Answer(Resolution.FAILED),
    "result": Answer(Resolution.RESULT, "the person saw it"),
}


def toolbox() -> Toolbox:
    return Toolbox(**{name: Tool(effect, f"{name} ran") for name, effect in TOOLS.items()})


class Left(Struct, frozen=True):
    """A call that a dead process left."""

    tool: str
    standing: str

    @property
    def is_doubtful(self) -> bool:
        """Whether nobody knows if it happened, and it matters."""
        if self.standing == "started":
            return self.tool == "edit"
        return self.standing == "uncertain"

    def runs(self, answer: str) -> bool:
        """Whether it is to be run, now."""
        if self.is_doubtful:
            return answer == "again"
        return self.standing in ("not started", "started")

    def result(self, answer: str) -> str:
        """What the model reads in the end."""
        if self.standing == "completed":
            return "it was done"
        if self.runs(answer):
            return f"{self.tool} ran"
        return {
            "nobody": f"ERROR: Uncertain: {UNCERTAIN_TEXT}",
            "failed": "ERROR: Failed: the person says that it did not succeed",
            "result": "the person saw it",
        }[answer]


def leave(desk: Desk, *left: Left) -> tuple[str, list[ToolCall]]:
    """A thread as a process leaves it that dies in the middle of a round."""
    asked = [ToolCall(f"c{place}", one.tool) for place, one in enumerate(left)]
    config = replace(CONFIG, tools=tuple(toolbox().definitions()))
    entries: list[Entry] = [
        Configured(config, "scripted"),
        UserInput(Message.user("go")),
        LlmEvent.Completed(LlmResponse(Message.assistant("", tuple(asked)))),
    ]
    for call, one in zip(asked, left, strict=True):
        if one.standing != "not started":
            entries.append(ToolStarted(call.id))
        if one.standing == "uncertain":
            entries.append(ToolUncertain(call.id))
        if one.standing == "completed":
            done = ToolExecutionOutcome.Success(call.id, "it was done")
            entries.append(ToolCompleted(call.id, done))
    writer = desk.store.create("test")
    for entry in entries:
        writer.stage(entry)
    writer.commit()
    desk.crash()
    return writer.thread_id, asked


async def take_up(desk: Desk, answer: str, *left: Left) -> None:
    """Open what was left; everything about how it is taken up must be right."""
    thread_id, asked = leave(desk, *left)
    questions: list[str] = []

    async def ask(question: Question) -> Answer:
        kinds = desk.events(thread_id)
        assert {"type": "tool_uncertain", "call_id": question.call.id} in kinds, (
            "on disk before it is asked"
        )
        questions.append(question.call.id)
        await tick()
        given = ANSWERS[answer]
        assert given is not None
        return given

    tools = toolbox()
    model = Model("done")
    session = desk.reopen(thread_id, model, tools, ask=None if answer == "nobody" else ask)
    finished = await session.resume()
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")

    doubtful = [c.id for c, one in zip(asked, left, strict=True) if one.is_doubtful]
    to_run = [c for c, one in zip(asked, left, strict=True) if one.runs(answer)]
    assert questions == ([] if answer == "nobody" else doubtful)
    ran = sorted(tools.runs, key=lambda run: asked.index(run.call))
    assert [run.call for run in ran] == to_run
    assert [run.key for run in ran] == [f"{thread_id}:{call.id}" for call in to_run]
    results = [m.content for m in session.conversation if m.role == "tool"]
    assert results == [one.result(answer) for one in left]
    assert imbalance(session.conversation) == ""

    events = desk.events(thread_id)
    for call, one in zip(asked, left, strict=True):
        kinds = [e["type"] for e in events if e.get("call_id") == call.id]
        before = ["tool_started"] if one.standing != "not started" else []
        doubt = ["tool_uncertain"] if one.is_doubtful else []
        again = ["tool_started"] if one.runs(answer) and (doubt or not before) else []
        assert kinds == [*before, *doubt, *again, "tool_completed"]
    assert len(desk.heard.of(outputs.Notice)) == 1
    assert [event["type"] for event in events].count("recovered") == 1
    desk.check(session)
    await session.close()


LEFT = [Left(tool, standing) for tool, standing in itertools.product(TOOLS, STANDINGS)]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("one", LEFT, ids=lambda one: f"{one.tool}-{one.standing}")
async def test_every_pair_of_calls_is_taken_up_by_the_table(
    desk: Desk, one: Left, answer: str
) -> None:
    for other in LEFT:
        if one.standing == other.standing == "completed":
            continue  # such a round is over
        await take_up(desk, answer, one, other)


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_large_round_is_taken_up_call_by_call(desk: Desk, answer: str) -> None:
    await take_up(desk, answer, *LEFT)


async def test_a_tool_that_is_no_more_counts_as_the_worst(desk: Desk) -> None:
    thread_id, _ = leave(desk, Left("look", "started"), Left("put", "not started"))
    tools = Toolbox()
    session = desk.reopen(thread_id, Model("done"), tools)
    await session.resume()
    assert calls_of(session.conversation) == {
        "look": f"ERROR: Uncertain: {UNCERTAIN_TEXT}",
        "put": "ERROR: Tool not found: put",
    }


async def test_a_prompt_to_a_thread_that_was_left_busy_comes_after_what_was_left(
    desk: Desk,
) -> None:
    thread_id, _ = leave(desk, Left("look", "started"))
    model = Model({"when": {"user": "more"}, "text": "more done"}, "done")
    session = desk.reopen(thread_id, model, toolbox())
    finished = await session.turn("more")
    assert finished.answer == "more done"
    assert " ".join(roles(session.conversation)) == "user assistant tool assistant user assistant"
    desk.check(session)


async def died_in(desk: Desk, tool: Any) -> tuple[str, Run]:
    """A process that died while `tool` ran, for real; the run that was under way."""
    tools = Toolbox(work=tool(for_ever))
    session = desk.new(Model(calls("work")), tools)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    await tick(2)
    desk.crash()
    turn.cancel()
    with pytest.raises((StoreError, asyncio.CancelledError)):
        await turn
    return session.thread_id, tools.runs[0]


@pytest.mark.parametrize("tool", [read, idempotent])
async def test_what_may_be_repeated_is_run_again_with_the_same_key(desk: Desk, tool: Any) -> None:
    thread_id, run = await died_in(desk, tool)
    tools = Toolbox(work=tool("ran"))
    session = desk.reopen(thread_id, Model(calls("work"), "done"), tools)
    assert (await session.resume()).answer == "done"
    (again,) = tools.runs
    assert (again.call, again.key) == (run.call, run.key)
    assert desk.kinds(thread_id).count("tool_started") == 1


async def test_what_may_not_be_repeated_is_run_again_with_the_same_key_if_a_person_says_so(
    desk: Desk,
) -> None:
    thread_id, run = await died_in(desk, mutate)
    tools = Toolbox(work=mutate("ran"))
    model = Model(calls("work"), "done")
    session = desk.reopen(thread_id, model, tools, ask=says(ANSWERS["again"]))
    assert (await session.resume()).answer == "done"
    assert [(again.call, again.key) for again in tools.runs] == [(run.call, run.key)]


def says(answer: Answer | None) -> Any:
    async def ask(_: Question) -> Answer | None:
        return answer

    return ask


async def test_a_crash_during_a_call_that_was_run_again_is_a_new_doubt(desk: Desk) -> None:
    thread_id, _ = await died_in(desk, mutate)
    tools = Toolbox(work=mutate(for_ever))
    session = desk.reopen(thread_id, Model("done"), tools, ask=says(ANSWERS["again"]))
    turn = asyncio.ensure_future(session.resume())
    await desk.heard.until(outputs.ToolStarted)
    await tick(2)
    assert len(tools.runs) == 1
    desk.crash()
    turn.cancel()
    await asyncio.wait({turn})
    tools = Toolbox(work=mutate("ran"))
    again = desk.reopen(thread_id, Model(calls("work"), "done"), tools)
    assert (await again.resume()).answer == "done"
    assert tools.ran == []
    assert desk.kinds(thread_id).count("tool_uncertain") == 2
    desk.check(again)


async def waits_for_an_answer(desk: Desk, **rest: Any) -> tuple[Session, asyncio.Task[Any]]:
    """A session whose person has not answered yet; and its turn."""
    thread_id, _ = await died_in(desk, mutate)
    asked = asyncio.Event()

    async def ask(_: Question) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    session = desk.reopen(
        thread_id, Model(calls("work"), "done"), Toolbox(work=mutate()), ask=ask, **rest
    )
    turn = asyncio.ensure_future(session.turn("more"))
    await asked.wait()
    return session, turn


async def asked_again(desk: Desk, thread_id: str) -> Session:
    """The next process asks, and the thread then goes on."""
    questions: list[str] = []

    async def ask(question: Question) -> Answer:
        questions.append(question.call.id)
        return Answer(Resolution.RESULT, "it is done")

    tools = Toolbox(work=mutate())
    model = Model({"when": {"user": "more"}, "text": "more done"}, calls("work"), "done")
    session = desk.reopen(thread_id, model, tools, ask=ask)
    await session.resume()
    assert (questions, tools.ran) == (["call-1-0"], [])
    assert calls_of(session.conversation) == {"work": "it is done"}
    assert desk.kinds(thread_id).count("tool_uncertain") == 1
    desk.check(session)
    return session


async def test_a_crash_during_the_question_asks_again_and_loses_no_prompt(desk: Desk) -> None:
    session, turn = await waits_for_an_answer(desk)
    desk.crash()
    turn.cancel()
    await asyncio.wait({turn})
    again = await asked_again(desk, session.thread_id)
    assert [m.content for m in again.conversation if m.role == "user"] == ["go", "more"]
    assert again.conversation[-1].content == "more done"


async def test_closing_during_the_question_does_not_wait_for_the_answer(desk: Desk) -> None:
    session, turn = await waits_for_an_answer(desk)
    await session.close()
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    assert desk.disk.open_count == 0
    await asked_again(desk, session.thread_id)


async def test_a_cancel_during_the_question_answers_the_call_and_ends_the_turn(desk: Desk) -> None:
    session, turn = await waits_for_an_answer(desk)
    session.cancel("never mind")
    assert (await turn).outcome is TurnOutcome.CANCELLED
    assert calls_of(session.conversation) == {
        "work": "ERROR: Cancelled: never mind; it had started and may have had effects"
    }
    assert session.is_waiting
    desk.check(session)


async def test_cancelling_whoever_awaits_the_answer_ends_the_turn(desk: Desk) -> None:
    session, turn = await waits_for_an_answer(desk)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert session.is_waiting
    assert imbalance(session.conversation) == ""
    desk.check(session)


async def test_input_during_the_question_is_durable_at_once_and_comes_after_the_first(
    desk: Desk,
) -> None:
    session, turn = await waits_for_an_answer(desk)
    other = asyncio.ensure_future(session.turn("even more"))
    await tick(2)
    queued = [e for e in desk.events(session.thread_id) if e["type"] == "input_queued"]
    assert [event["message"]["content"] for event in queued] == ["more", "even more"]
    session.cancel()
    await asyncio.gather(turn, other)


async def test_a_question_that_fails_leaves_the_thread_as_it_was(desk: Desk) -> None:
    thread_id, _ = await died_in(desk, mutate)

    async def ask(_: Question) -> Answer:
        raise EOFError("the terminal is gone")

    session = desk.reopen(thread_id, Model("done"), Toolbox(work=mutate()), ask=ask)
    with pytest.raises(EOFError):
        await session.resume()
    with pytest.raises(EOFError):
        await session.resume()
    await session.close()
    await asked_again(desk, thread_id)


async def test_a_result_that_a_person_enters_is_cut_like_any_other(desk: Desk) -> None:
    thread_id, _ = await died_in(desk, mutate)
    answer = Answer(Resolution.RESULT, "x" * 100_000)
    session = desk.reopen(
        thread_id, Model(calls("work"), "done"), Toolbox(work=mutate()), ask=says(answer)
    )
    await session.resume()
    assert "[... 67232 characters left out ...]" in calls_of(session.conversation)["work"]


@pytest.mark.parametrize("standing", ["not started", "started", "completed"])
async def test_the_hook_is_told_whether_this_process_saw_the_whole_round(
    desk: Desk, standing: str
) -> None:
    thread_id, _ = leave(desk, Left("put", standing), Left("put", "not started"))
    folder = Folder()
    model = Model({"when": {"last": "put ran"}, "text": "done"}, calls("put"))
    session = desk.reopen(thread_id, model, toolbox(), workspace=folder)
    await session.resume()
    assert [told.is_whole for told in folder.rounds] == [standing == "not started"]
    model = Model({"when": {"step": 1}, "text": "done"}, calls("put"))
    session.driver.performer.provider = model
    await session.turn("again")
    assert folder.rounds[-1].is_whole, "the next round is seen from its beginning"
