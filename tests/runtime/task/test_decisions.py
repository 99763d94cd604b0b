"""Calls that need a person's yes: asked now or much later, answered one by one, never twice."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from runtime.desk import Desk, Model, Toolbox, calls, mutate, read
from runtime.task.agents import DONE, agent, close, events
from treadle import outputs
from treadle.answers import Verdict
from treadle.core.approval import (
    AlwaysAsk,
    Approved,
    AskAbove,
    Decision,
    Modified,
    Question,
    Rejected,
    ToolBased,
)
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.errors import ApprovalNeeded, UsageError
from treadle.outputs import TurnOutcome
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine

BATCH: Final = {
    "calls": [
        {"tool": "cut", "id": "a", "arguments": {"at": 1}},
        {"tool": "look", "id": "b"},
        {"tool": "burn", "id": "c"},
        {"tool": "cut", "id": "d", "arguments": {"at": 2}},
    ]
}


class Box(Toolbox):
    """Tools of which a call can be riskier than its tool."""

    def __init__(self) -> None:
        super().__init__(cut=mutate(), look=read("seen"), burn=mutate())

    def risk_of(self, call: ToolCall) -> RiskLevel | None:  # type: ignore[override]
        return RiskLevel.CRITICAL if "all" in call.arguments_json else None


def asking(desk: Desk, *replies: Any, tools: Toolbox | None = None, **options: Any) -> AgentBuilder:
    """An agent that asks about everything but looking."""
    replies = replies or ({"calls": [{"tool": "cut", "arguments": {"at": 1}}]}, DONE)
    policy = options.pop("approval", ToolBased(dict.fromkeys(("cut", "burn"), RiskLevel.HIGH)))
    return agent(desk, *replies, tools=tools or Box(), approval=policy, **options)


def told(engine: AgentEngine) -> list[str]:
    """The results as the model reads them."""
    return [m.content for m in engine.memory.transcript if m.role == "tool"]


async def stopped(desk: Desk, builder: AgentBuilder) -> str:
    """The id of a thread that waits for a person, whose process has died."""
    engine = builder.build()
    with pytest.raises(ApprovalNeeded):
        await engine.run()
    desk.crash()
    return engine.thread_id


async def test_a_yes_in_another_process_lets_the_call_run(desk: Desk) -> None:
    thread_id = await stopped(desk, asking(desk))
    tools = Box()
    engine = asking(desk, tools=tools).resume(thread_id)
    assert engine.state == "WaitingForHuman"
    (question,) = engine.questions
    finished = await engine.decide({question.call.id: Approved()})
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, DONE)
    assert [run.call.arguments_json for run in tools.runs] == ['{"at":1}']
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_the_model_reads_why_a_call_was_refused(desk: Desk) -> None:
    thread_id = await stopped(desk, asking(desk))
    tools = Box()
    engine = asking(desk, tools=tools).resume(thread_id)
    await engine.decide({engine.questions[0].call.id: Rejected("it is too short")})
    assert tools.ran == []
    assert told(engine) == ["ERROR: Rejected: it is too short"]
    assert [entry.observation for entry in engine.memory.history] == ["REJECTED: it is too short"]
    assert "HUMAN" not in events(engine)
    await close(desk, engine)


async def test_a_changed_call_runs_with_the_new_arguments_and_the_model_is_told(
    desk: Desk,
) -> None:
    thread_id = await stopped(desk, asking(desk))
    tools = Box()
    engine = asking(desk, tools=tools).resume(thread_id)
    await engine.decide({engine.questions[0].call.id: Modified('{"at":7}')})
    assert [run.call.arguments_json for run in tools.runs] == ['{"at":7}']
    assert told(engine) == ['[a person changed the arguments to {"at":7}]\nfine']
    (call,) = engine.memory.transcript[1].tool_calls
    assert call.arguments_json == '{"at":1}', "what the model said stays as it said it"
    await close(desk, engine)


async def test_a_call_that_was_changed_to_a_riskier_one_is_asked_about_again(desk: Desk) -> None:
    thread_id = await stopped(desk, asking(desk))
    tools = Box()
    engine = asking(desk, tools=tools).resume(thread_id)
    call_id = engine.questions[0].call.id
    finished = await engine.decide({call_id: Modified('{"at":"all"}')})
    assert finished.outcome is TurnOutcome.APPROVAL
    assert tools.ran == []
    (again,) = engine.questions
    assert (again.risk, again.call.arguments_json) == (RiskLevel.CRITICAL, '{"at":"all"}')
    assert (await engine.decide({call_id: Approved()})).outcome is TurnOutcome.DONE
    assert [run.call.arguments_json for run in tools.runs] == ['{"at":"all"}']
    await close(desk, engine)


async def test_each_call_of_a_batch_is_decided_by_itself(desk: Desk) -> None:
    thread_id = await stopped(desk, asking(desk, BATCH, DONE))
    tools = Box()
    engine = asking(desk, BATCH, DONE, tools=tools).resume(thread_id)
    assert [question.call.id for question in engine.questions] == ["a", "c", "d"]
    finished = await engine.decide({"d": Modified('{"at":9}')})
    assert finished.outcome is TurnOutcome.APPROVAL
    assert tools.ran == []
    desk.crash()

    tools = Box()
    engine = asking(desk, BATCH, DONE, tools=tools).resume(thread_id)
    assert [question.call.id for question in engine.questions] == ["a", "c"]
    assert (
        await engine.decide({"a": Approved(), "c": Rejected("fire!")})
    ).outcome is TurnOutcome.DONE
    assert [(run.call.id, run.call.arguments_json) for run in tools.runs] == [
        ("a", '{"at":1}'),
        ("b", "{}"),
        ("d", '{"at":9}'),
    ]
    assert told(engine) == [
        "fine",
        "seen",
        "ERROR: Rejected: fire!",
        '[a person changed the arguments to {"at":9}]\nfine',
    ]
    await close(desk, engine)


async def test_a_batch_that_is_refused_as_a_whole_runs_nothing(desk: Desk) -> None:
    batch = calls("cut", "burn")
    tools = Box()
    engine = asking(desk, batch, DONE, tools=tools).on_approval(lambda _: Rejected("no")).build()
    assert await engine.run() == DONE
    assert tools.ran == []
    assert told(engine) == ["ERROR: Rejected: no"] * 2
    await close(desk, engine)


@pytest.mark.parametrize("is_async", [False, True])
async def test_whoever_is_asked_sees_the_call_and_its_risk(desk: Desk, is_async: bool) -> None:
    asked: list[Question] = []

    def decide(question: Question) -> Decision:
        asked.append(question)
        return Approved()

    async def decide_later(question: Question) -> Decision:
        await asyncio.sleep(0)
        return decide(question)

    builder = asking(desk, BATCH, DONE, approval=AskAbove(RiskLevel.MEDIUM))
    engine = builder.on_approval(decide_later if is_async else decide).build()
    assert await engine.run() == DONE
    assert [(one.call.id, one.call.tool_name) for one in asked] == [
        ("a", "cut"),
        ("b", "look"),
        ("c", "burn"),
        ("d", "cut"),
    ]
    assert {one.risk for one in asked} == {RiskLevel.MEDIUM}
    await close(desk, engine)


async def test_a_tool_that_is_granted_is_not_asked_about_again(desk: Desk) -> None:
    asked: list[str] = []

    def decide(question: Question) -> Verdict:
        asked.append(question.call.tool_name)
        return Verdict(Approved(), always=question.call.tool_name == "cut")

    replies = (BATCH, calls("cut", "burn"), DONE)
    engine = asking(desk, *replies).on_approval(decide).build()
    assert await engine.run() == DONE
    assert asked == ["cut", "burn", "burn"], "not even in the batch in which it was granted"
    await close(desk, engine)


async def test_a_grant_survives_the_process(desk: Desk) -> None:
    thread_id = await stopped(
        desk,
        asking(desk, BATCH, calls("cut"), DONE).on_approval(_GrantingOnce()),
    )
    tools = Box()
    engine = asking(desk, BATCH, calls("cut"), DONE, tools=tools).resume(thread_id)
    finished = await engine.decide({"c": Approved(), "d": Approved()})
    assert finished.outcome is TurnOutcome.DONE
    assert tools.ran == ["cut", "look", "burn", "cut", "cut"]
    await close(desk, engine)


class _GrantingOnce:
    """Grants the first call, then is gone: the process dies while it is asked."""

    def __init__(self) -> None:
        self.is_gone = False

    def __call__(self, question: Question) -> Verdict:
        if self.is_gone:
            raise ApprovalNeeded("T-x", [])
        self.is_gone = True
        return Verdict(Approved(), always=True)


async def test_a_grant_answers_the_open_questions_about_its_tool_too(desk: Desk) -> None:
    thread_id = await stopped(desk, asking(desk, BATCH, DONE))
    tools = Box()
    engine = asking(desk, BATCH, DONE, tools=tools).resume(thread_id)
    finished = await engine.decide({"a": Approved()}, grant=["cut"])
    assert finished.outcome is TurnOutcome.APPROVAL
    assert [question.call.id for question in engine.questions] == ["c"]
    desk.crash()
    engine = asking(desk, BATCH, DONE, tools=tools).resume(thread_id)
    assert [question.call.id for question in engine.questions] == ["c"]
    assert (await engine.decide({"c": Approved()})).outcome is TurnOutcome.DONE
    assert tools.ran == ["cut", "look", "burn", "cut"]
    await close(desk, engine)


async def test_a_grant_holds_up_to_the_risk_of_what_was_allowed(desk: Desk) -> None:
    batch = {"calls": [{"tool": "cut", "id": at, "arguments": {"at": at}} for at in ("1", "all")]}
    risks = {"approval": AskAbove(RiskLevel.MEDIUM)}
    thread_id = await stopped(desk, asking(desk, batch, calls("cut"), DONE, **risks))
    tools = Box()
    engine = asking(desk, batch, calls("cut"), DONE, tools=tools, **risks).resume(thread_id)
    finished = await engine.decide({"1": Approved()}, grant=["cut"])
    assert finished.outcome is TurnOutcome.APPROVAL
    assert [(one.call.id, one.risk) for one in engine.questions] == [("all", RiskLevel.CRITICAL)]
    assert (await engine.decide({"all": Rejected("no")})).outcome is TurnOutcome.DONE
    assert tools.ran == ["cut", "cut"], "the second one is of the next answer"
    (granted,) = [e for e in desk.events(thread_id) if e["type"] == "granted"]
    assert granted == {"type": "granted", "tool_name": "cut", "risk": RiskLevel.MEDIUM}
    await close(desk, engine)


@pytest.mark.parametrize("decision", [Rejected("no"), None])
async def test_a_tool_is_granted_only_with_a_yes_to_one_of_its_calls(
    desk: Desk, decision: Decision | None
) -> None:
    engine = asking(desk, BATCH, DONE).build()
    with pytest.raises(ApprovalNeeded):
        await engine.run()
    before = desk.kinds(engine.thread_id)
    decisions: dict[str, Decision] = {"c": Approved()}
    if decision is not None:
        decisions["a"] = decision
    with pytest.raises(UsageError, match="no call of cut is allowed here"):
        await engine.decide(decisions, grant=["cut"])
    assert desk.kinds(engine.thread_id) == before
    await close(desk, engine)


async def test_a_no_for_always_grants_nothing(desk: Desk) -> None:
    asked: list[str] = []

    def decide(question: Question) -> Verdict:
        asked.append(question.call.id)
        return Verdict(Rejected("no"), always=True)

    tools = Box()
    engine = asking(desk, BATCH, DONE, tools=tools).on_approval(decide).build()
    assert await engine.run() == DONE
    assert asked == ["a", "c", "d"]
    assert tools.ran == ["look"]
    await close(desk, engine)


async def test_a_yes_to_something_else_than_was_asked_grants_nothing(desk: Desk) -> None:
    def decide(_: Question) -> Verdict:
        return Verdict(Modified('{"n":"less"}'), always=True)

    engine = asking(desk, BATCH, DONE, tools=Box()).on_approval(decide).build()
    assert await engine.run() == DONE
    assert "granted" not in desk.kinds(engine.thread_id)
    await close(desk, engine)


async def test_what_a_person_said_is_not_asked_again_after_a_crash(desk: Desk) -> None:
    asked: list[str] = []

    def decide(question: Question) -> Decision:
        asked.append(question.call.id)
        if len(asked) == 2:
            raise ApprovalNeeded("T-x", [])
        return Rejected("no")

    thread_id = await stopped(desk, asking(desk, BATCH, DONE).on_approval(decide))
    engine = asking(desk, BATCH, DONE).resume(thread_id)
    assert asked == ["a", "c"]
    assert [question.call.id for question in engine.questions] == ["c", "d"]
    await close(desk, engine)


async def test_a_wrong_call_id_changes_and_records_nothing(desk: Desk) -> None:
    engine = asking(desk).build()
    with pytest.raises(ApprovalNeeded):
        await engine.run()
    call_id = engine.questions[0].call.id
    before = desk.kinds(engine.thread_id)
    with pytest.raises(UsageError, match="no call 'x' waits for approval") as caught:
        await engine.decide({call_id: Approved(), "x": Approved()})
    assert call_id in caught.value.hint
    assert desk.kinds(engine.thread_id) == before
    assert len(engine.questions) == 1
    assert (await engine.decide({call_id: Approved()})).outcome is TurnOutcome.DONE
    with pytest.raises(UsageError, match="waits for approval"):
        await engine.decide({call_id: Approved()})
    await close(desk, engine)


async def test_what_is_no_decision_is_refused_and_the_call_waits_on(desk: Desk) -> None:
    tools = Box()
    engine = asking(desk, tools=tools).on_approval(lambda _: True).build()  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="on_approval said True"):
        await engine.run()
    assert engine.state == "WaitingForHuman"
    assert tools.ran == []
    await engine.close()
    engine = asking(desk, tools=tools).on_approval(lambda _: Approved()).resume(engine.thread_id)
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_the_question_is_on_disk_before_anybody_is_asked(desk: Desk) -> None:
    seen: list[str] = []

    def decide(question: Question) -> Decision:
        assert isinstance(engine, AgentEngine)
        loaded = desk.store.load(engine.thread_id).fold
        seen.extend(one.call.id for one in loaded.machine.questions)
        assert desk.heard.of(outputs.ApprovalRequested)
        return Approved()

    engine = asking(desk).on_approval(decide).build()
    await engine.run()
    assert len(seen) == 1
    await close(desk, engine)


async def test_cancelling_while_a_person_is_asked_leaves_the_question(desk: Desk) -> None:
    never = asyncio.Event()

    async def decide(_: Question) -> Decision:
        engine.cancel()
        await never.wait()
        return Approved()

    engine = asking(desk).on_approval(decide).build()
    finished = await engine.resume()
    assert finished.outcome is TurnOutcome.CANCELLED
    assert len(engine.questions) == 1
    await close(desk, engine)
    engine = asking(desk).resume(engine.thread_id)
    assert (await engine.decide({engine.questions[0].call.id: Approved()})).answer == DONE
    await close(desk, engine)


async def test_deciding_while_somebody_is_being_asked_is_refused(desk: Desk) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def decide(_: Question) -> Decision:
        begun.set()
        await go.wait()
        return Approved()

    tools = Box()
    engine = asking(desk, tools=tools).on_approval(decide).build()
    running = asyncio.ensure_future(engine.run())
    await begun.wait()
    with pytest.raises(UsageError, match="is being asked already"):
        await engine.decide({engine.questions[0].call.id: Rejected("late")})
    go.set()
    assert await running == DONE
    assert tools.ran == ["cut"]
    await close(desk, engine)


async def test_a_blacklisted_tool_is_not_asked_about(desk: Desk) -> None:
    engine = asking(desk, calls("burn"), DONE, blacklist=["burn"], approval=AlwaysAsk()).build()
    assert await engine.run() == DONE
    assert "blacklisted" in told(engine)[0]
    model = desk.providers[-1]
    assert isinstance(model, Model)
    assert model.refused == []
    await close(desk, engine)
