"""No call begins that needs a person's yes and has none, by whatever way it came there."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.desk import (
    CONFIG,
    Desk,
    Model,
    Run,
    Toolbox,
    calls,
    calls_of,
    for_ever,
    mutate,
    read,
)
from runtime.task.agents import DONE, agent, close
from treadle import outputs
from treadle.answers import Answer, Resolution, Verdict
from treadle.core.approval import AlwaysAsk, Approved, AskAbove, Question
from treadle.core.messages import ToolCall
from treadle.core.task.events import TaskConfig
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import Event, State
from treadle.core.tools import RiskLevel
from treadle.errors import ApprovalNeeded
from treadle.outputs import TurnOutcome
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry

ONE_BY_ONE: Final = replace(CONFIG, parallel_max=1)
CAREFUL: Final = replace(ONE_BY_ONE, approval=AlwaysAsk())


async def died(desk: Desk, tools: Toolbox, *replies: Any) -> str:
    """A thread whose first call runs for ever, and whose process is dead."""
    session = desk.new(Model(*replies), tools, ONE_BY_ONE)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    return session.thread_id


async def test_calls_that_nobody_had_to_ask_about_do_not_run_under_a_stricter_policy(
    desk: Desk,
) -> None:
    """Neither the one that is to run again, nor the one whose turn had not come."""
    replies = (calls("look", "cut"), "done")
    thread_id = await died(desk, Toolbox(look=read(for_ever), cut=mutate()), *replies)
    tools = Toolbox(look=read(), cut=mutate())
    session = desk.reopen(thread_id, Model(*replies), tools, CAREFUL)
    assert (await session.resume()).answer == "done"
    assert tools.ran == []
    told = calls_of(session.conversation)
    for name in ("look", "cut"):
        assert "needs a person's yes and has none: every call needs approval" in told[name]
    assert desk.kinds(thread_id).count("tool_started") == 1, "that of the process that died"
    assert len(desk.heard.of(outputs.ToolFinished)) == 2
    desk.check(session)


async def test_a_call_that_was_turned_away_runs_when_it_is_asked_for_again(desk: Desk) -> None:
    async def approve(_: Question) -> Verdict:
        return Verdict(Approved())

    replies = (calls("look"), calls("look"), "done")
    thread_id = await died(desk, Toolbox(look=read(for_ever)), *replies)
    tools = Toolbox(look=read())
    session = desk.reopen(thread_id, Model(*replies), tools, CAREFUL, approve=approve)
    assert (await session.resume()).answer == "done"
    assert tools.ran == ["look"]
    desk.check(session)


async def test_the_yes_of_a_dead_process_is_still_a_yes(desk: Desk) -> None:
    async def approve(_: Question) -> Verdict:
        return Verdict(Approved())

    replies = (calls("look", "cut"), "done")
    tools = Toolbox(look=read(for_ever), cut=mutate())
    session = desk.new(Model(*replies), tools, CAREFUL, approve=approve)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    tools = Toolbox(look=read(), cut=mutate())
    session = desk.reopen(session.thread_id, Model(*replies), tools)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert tools.ran == ["look", "cut"]
    desk.check(session)


async def test_who_says_that_a_doubtful_call_is_to_run_again_has_said_yes(desk: Desk) -> None:
    async def ask(_: Question) -> Answer:
        return Answer(Resolution.RUN_AGAIN)

    replies = (calls("cut"), "done")
    thread_id = await died(desk, Toolbox(cut=mutate(for_ever)), *replies)
    tools = Toolbox(cut=mutate())
    session = desk.reopen(thread_id, Model(*replies), tools, CAREFUL, ask=ask)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert tools.ran == ["cut"]
    desk.check(session)


class Box(Toolbox):
    """Tools of which a call can be riskier than its tool."""

    def risk_of(self, call: ToolCall) -> RiskLevel | None:  # type: ignore[override]
        return RiskLevel.CRITICAL if "all" in call.arguments_json else None


async def test_a_call_that_a_custom_planning_makes_does_not_run_if_its_arguments_are_risky(
    desk: Desk,
) -> None:
    def plan(memory: AgentMemory) -> tuple[AgentMemory, str]:
        if not memory.history:
            call = ToolCall("c", "cut", '{"at":"all"}')
            return replace(memory, current_tool_call=call), Event.LLM_TOOL_CALL
        return replace(memory, final_answer=memory.history[0].observation), Event.LLM_FINAL_ANSWER

    tools = Box(cut=mutate())
    owns = ("current_tool_call", "final_answer")
    engine = (
        agent(desk, DONE, tools=tools, approval=AskAbove(RiskLevel.HIGH))
        .state(State.PLANNING, plan, owns)
        .build()
    )
    with pytest.raises(ApprovalNeeded):
        await engine.run()
    assert tools.ran == []
    assert "tool_started" not in desk.kinds(engine.thread_id)
    assert desk.kinds(engine.thread_id)[-1] == "approval_required"
    (question,) = engine.questions
    finished = await engine.decide({question.call.id: Approved()})
    assert (finished.outcome, tools.ran) == (TurnOutcome.DONE, ["cut"])
    await close(desk, engine)


async def test_a_sub_agent_does_not_begin_without_the_yes_it_needs(desk: Desk) -> None:
    spin = {"tool": "spinner", "arguments": {"task": "spin"}}
    replies = ({"calls": [{"tool": "look"}, spin]}, "done")
    sub_agents = (
        agent(desk, DONE).sub_agent("spinner", "spins", agent(desk, DONE)).make_sub_agents()
    )
    tools = Toolbox(look=read(for_ever))
    session = desk.new(Model(*replies), tools, ONE_BY_ONE, sub_agents=sub_agents)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    session = desk.reopen(
        session.thread_id, Model(*replies), Toolbox(look=read()), CAREFUL, sub_agents=sub_agents
    )
    assert (await session.resume()).answer == "done"
    assert "needs a person's yes" in calls_of(session.conversation)["spinner"]
    assert desk.store.ids() == [session.thread_id]
    desk.check(session)


async def test_the_risk_of_a_call_is_seen_through_the_confidence_that_stands_in_it(
    desk: Desk,
) -> None:
    ran: list[str] = []

    def risk_of(arguments: Any) -> RiskLevel:
        return RiskLevel.CRITICAL if arguments["what"] == "all" else RiskLevel.LOW

    @tool(risk=RiskLevel.LOW, risk_of=risk_of)
    def burn(what: str) -> str:
        """Burn it."""
        ran.append(what)
        return "burnt"

    asked: list[RiskLevel] = []

    def decide(question: Question) -> Approved:
        asked.append(question.risk)
        return Approved()

    reply = {"calls": [{"tool": "burn", "arguments": {"what": "all", "confidence": 0.9}}]}
    builder = agent(desk, reply, DONE, approval=AskAbove(RiskLevel.HIGH), on_approval=decide)
    builder.config(TaskConfig(self_reported_confidence=True)).tools(Registry([burn]))
    engine = builder.build()
    assert await engine.run() == DONE
    assert (asked, ran) == ([RiskLevel.CRITICAL], ["all"])
    await close(desk, engine)


async def test_what_was_granted_for_a_low_risk_is_asked_about_when_it_is_riskier(
    desk: Desk,
) -> None:
    async def keep(run: Run) -> str:
        return run.call.arguments_json

    asked: list[tuple[str, RiskLevel]] = []

    async def approve(question: Question) -> Verdict:
        asked.append((question.call.arguments_json, question.risk))
        return Verdict(Approved(), always=True)

    batch = {"calls": [{"tool": "cut", "arguments": {"at": at}} for at in ("1", "all", "2")]}
    later = {"calls": [{"tool": "cut", "arguments": {"at": at}} for at in ("3", "all")]}
    session = desk.new(Model(batch, later, "done"), Box(cut=mutate(keep)), CAREFUL, approve=approve)
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert asked == [('{"at":"1"}', RiskLevel.MEDIUM), ('{"at":"all"}', RiskLevel.CRITICAL)]
    assert session.driver.journal.writer.fold.machine.config.granted == {"cut": RiskLevel.CRITICAL}
    desk.check(session)
