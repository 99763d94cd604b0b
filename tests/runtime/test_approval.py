"""Calls of a conversation that need a person's yes: asked on the spot, or answered much later."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.desk import (
    CONFIG,
    Desk,
    Model,
    Toolbox,
    calls,
    calls_of,
    imbalance,
    mutate,
    read,
    texts,
)
from treadle import outputs
from treadle.answers import Verdict
from treadle.core.approval import (
    Approved,
    Decision,
    Modified,
    Question,
    Rejected,
    ToolBased,
)
from treadle.core.tools import RiskLevel
from treadle.errors import UsageError
from treadle.outputs import TurnOutcome

ASKING: Final = replace(CONFIG, approval=ToolBased({"burn": RiskLevel.HIGH}))
TURN: Final[tuple[Any, ...]] = (calls("burn", text="I burn it"), "done")


def box() -> Toolbox:
    return Toolbox(burn=mutate("burnt"), look=read("seen"))


def says(verdict: Verdict) -> Any:
    async def approve(_: Question) -> Verdict:
        return verdict

    return approve


async def test_a_yes_on_the_spot_lets_the_call_run(desk: Desk) -> None:
    tools = box()
    session = desk.new(Model(*TURN), tools, ASKING, approve=says(Verdict(Approved())))
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    assert tools.ran == ["burn"]
    (asked,) = desk.heard.of(outputs.ApprovalRequested)
    assert [question.call.tool_name for question in asked.questions] == ["burn"]
    desk.check(session)


async def test_a_no_is_what_the_model_reads(desk: Desk) -> None:
    tools = box()
    session = desk.new(Model(*TURN), tools, ASKING, approve=says(Verdict(Rejected("no fire"))))
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert tools.ran == []
    assert calls_of(session.conversation) == {"burn": "ERROR: Rejected: no fire"}
    desk.check(session)


async def test_a_changed_call_runs_as_changed(desk: Desk) -> None:
    tools = box()
    decision = Modified('{"what":"paper"}')
    session = desk.new(Model(*TURN), tools, ASKING, approve=says(Verdict(decision)))
    await session.turn("go")
    assert [run.call.arguments_json for run in tools.runs] == ['{"what":"paper"}']
    assert 'changed the arguments to {"what":"paper"}' in calls_of(session.conversation)["burn"]
    desk.check(session)


async def test_without_anybody_to_ask_the_turn_ends_and_the_call_waits(desk: Desk) -> None:
    tools = box()
    session = desk.new(Model(*TURN), tools, ASKING)
    finished = await session.turn("go")
    assert finished.outcome is TurnOutcome.APPROVAL
    assert finished.error == "waiting for approval of: burn"
    assert not session.is_waiting, "there is something that is not finished"
    assert tools.ran == []
    desk.check(session)


@pytest.mark.parametrize("ending", ["closed", "crashed"])
async def test_a_call_that_waits_is_decided_in_another_session(desk: Desk, ending: str) -> None:
    session = desk.new(Model(*TURN), box(), ASKING)
    await session.turn("go")
    if ending == "closed":
        await session.close()
    else:
        desk.crash()
    tools = box()
    session = desk.reopen(session.thread_id, Model(*TURN), tools)
    (question,) = session.questions
    finished = await session.decide({question.call.id: Approved()})
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    assert tools.ran == ["burn"]
    assert imbalance(session.conversation) == ""
    desk.check(session)


async def test_what_is_said_while_a_call_waits_comes_after_it(desk: Desk) -> None:
    replies = ({"when": {"user": "stop"}, "text": "stopped"}, *TURN)
    session = desk.new(Model(*replies), box(), ASKING)
    await session.turn("go")
    assert (await session.turn("stop")).outcome is TurnOutcome.APPROVAL
    finished = await session.decide({session.questions[0].call.id: Rejected("")})
    assert finished.answer == "stopped"
    said = texts([m for m in session.conversation if m.role == "user"])
    assert said == ["go", "stop"]
    assert imbalance(session.conversation) == ""
    desk.check(session)


async def test_a_cancel_answers_a_call_that_waits(desk: Desk) -> None:
    async def approve(_: Question) -> Verdict:
        session.cancel()
        await asyncio.Event().wait()
        raise AssertionError

    session = desk.new(Model(*TURN), box(), ASKING, approve=approve)
    assert (await session.turn("go")).outcome is TurnOutcome.CANCELLED
    assert "it had not started" in calls_of(session.conversation)["burn"]
    assert session.is_waiting
    desk.check(session)


async def test_a_tool_that_is_granted_is_not_asked_about_in_this_thread_again(desk: Desk) -> None:
    asked: list[str] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question.call.id)
        return Verdict(Approved(), always=True)

    replies = (
        {"when": {"user": "^again$", "step": 0}, **calls("burn")},
        calls("burn", "burn", "look"),
        "done",
    )
    tools = box()
    session = desk.new(Model(*replies), tools, ASKING, approve=approve)
    await session.turn("go")
    assert len(asked) == 1
    await session.turn("again")
    desk.check(session)
    await session.close()
    session = desk.reopen(session.thread_id, Model(*replies), tools, ASKING)
    assert (await session.turn("again")).outcome is TurnOutcome.DONE
    assert len(asked) == 1
    assert tools.ran == ["burn", "burn", "look", "burn", "burn"]
    desk.check(session)


async def test_each_word_of_a_person_is_durable_before_the_next_question(desk: Desk) -> None:
    asked: list[str] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question.call.id)
        decided = desk.kinds(session.thread_id).count("approval_decided")
        assert decided == len(asked) - 1
        return Verdict(Approved())

    session = desk.new(Model(calls("burn", "burn", "burn"), "done"), box(), ASKING, approve=approve)
    await session.turn("go")
    assert len(asked) == 3
    desk.check(session)


async def test_a_wrong_call_id_is_refused_and_nothing_is_recorded(desk: Desk) -> None:
    session = desk.new(Model(*TURN), box(), ASKING)
    await session.turn("go")
    before = desk.kinds(session.thread_id)
    with pytest.raises(UsageError, match="no call 'x' waits"):
        await session.decide({"x": Approved()})
    assert desk.kinds(session.thread_id) == before
    desk.check(session)


DYING: Final = """
import asyncio, os, signal, sys
from pathlib import Path
from runtime.crashing import make_store
from runtime.desk import Model
from runtime.test_approval import ASKING, TURN, box
from treadle import outputs
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session

def on_output(output):
    if isinstance(output, outputs.ApprovalRequested):
        os.kill(os.getpid(), signal.SIGKILL)

writer = make_store(Path(sys.argv[1])).create("test")
options = DriverOptions(on_output=on_output)
asyncio.run(Session(writer, Model(*TURN), box(), ASKING, options).turn("go"))
"""


@pytest.mark.parametrize("decision", [Approved(), Rejected("no fire")], ids=["yes", "no"])
async def test_a_question_outlives_the_process_that_asked_it(
    desk: Desk, decision: Decision
) -> None:
    died = subprocess.run(  # noqa: ASYNC221  nothing else runs here
        [sys.executable, "-c", DYING, str(desk.folder)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    (thread_id,) = desk.store.ids()
    tools = box()
    session = desk.reopen(thread_id, Model(*TURN), tools)
    assert (await session.resume()).outcome is TurnOutcome.APPROVAL
    finished = await session.decide({session.questions[0].call.id: decision})
    assert finished.outcome is TurnOutcome.DONE
    assert tools.ran == (["burn"] if isinstance(decision, Approved) else [])
    desk.check(session)
