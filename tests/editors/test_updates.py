"""What an editor is told of outputs, questions and prompts: plain functions, case by case."""

from __future__ import annotations

import asyncio
import json
import typing
from pathlib import Path
from typing import Any, Final

import pytest
from acp.schema import (
    AudioContentBlock,
    ImageContentBlock,
    RequestPermissionResponse,
)

from treadle import outputs
from treadle.acp.agent import make_block
from treadle.acp.protocol_updates import fence
from treadle.acp.session_client import SessionClient
from treadle.app.editors import session_updates
from treadle.app.editors.live_updates import LiveUpdates
from treadle.app.editors.person_questions import list_verdict_options, make_verdict
from treadle.app.editors.prompt_blocks import name_linked_file
from treadle.app.editors.session_updates import (
    CallBegun,
    CallChanged,
    CommandPrinted,
    MessageText,
    PlanTold,
    SessionUpdate,
)
from treadle.app.threads.call_changes import make_file_reader
from treadle.core.approval import Approved, Question, Rejected, Scope
from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    RiskLevel,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.errors import UsageError

RUN: Final = ToolCall("c", "bash", json.dumps({"command": "ls"}))
PLAN: Final = ToolCall("p", "plan", json.dumps({"steps": [{"step": "look"}]}))
DONE: Final = ToolExecutionOutcome.Success("c", "a\n[exit code 0]")
FAILED: Final = ToolExecutionOutcome.Error("p", ToolError(ToolErrorKind.INVALID_ARGUMENTS, "no"))

TOLD: Final[tuple[tuple[outputs.Output, tuple[type, ...]], ...]] = (
    (outputs.TurnStarted("T", "hi"), ()),  # the editor has sent it
    (outputs.InputDelivered("hi"), ()),
    (outputs.SubAgentOutput("c", ("helper",), outputs.TextDelta("hi")), ()),
    (outputs.TextDelta("hi"), (MessageText,)),
    (outputs.ThinkingDelta(""), ()),
    (outputs.ThinkingDelta("hm"), (MessageText,)),
    (outputs.ToolStarted(RUN), (CallBegun,)),
    (outputs.ToolProgressed("c", ToolProgress(message="a\n")), (CommandPrinted,)),
    (outputs.ToolFinished("c", "bash", DONE), (CallChanged,)),
    (outputs.ToolFinished("c", "bash", DONE, RUN), (CallBegun, CallChanged)),
    (outputs.ToolStarted(PLAN), ()),
    (outputs.ToolFinished("p", "plan", ToolExecutionOutcome.Success("p", "ok")), (PlanTold,)),
    (outputs.ToolStarted(PLAN), ()),
    (outputs.ToolFinished("p", "plan", FAILED), (CallBegun, CallChanged)),
    (outputs.ApprovalRequested("T", ()), ()),  # it is asked
    (outputs.StateStarted("Planning"), ()),  # of tasks alone
    (outputs.FinalAnswer("done"), ()),
    (outputs.HookFinished(True, "committed"), (MessageText,)),
    (outputs.HookFinished(False, ""), ()),
    (outputs.Retrying(LlmError(LlmErrorKind.OVERLOADED, "busy"), 2.0), (MessageText,)),
    (outputs.Notice("told"), (MessageText,)),
    (outputs.ErrorShown("broken"), (MessageText,)),
    (outputs.TurnFinished("T", outputs.TurnOutcome.DONE, "", 1, Usage(), Usage()), ()),
)


def test_of_every_output_an_editor_is_told_what_it_can_show(tmp_path: Path) -> None:
    shown: list[SessionUpdate] = []
    updates = LiveUpdates(str(tmp_path), make_file_reader(tmp_path), shown.append)
    missed = []
    for output, kinds in TOLD:
        shown.clear()
        updates.show_output(output)
        if tuple(type(one) for one in shown) != kinds:
            missed.append((output, shown[:]))
    assert missed == []
    assert {type(output) for output, _ in TOLD} == {*typing.get_args(outputs.Output)}


def test_a_second_call_of_one_id_is_another_call_for_the_editor(tmp_path: Path) -> None:
    shown: list[SessionUpdate] = []
    updates = LiveUpdates(str(tmp_path), make_file_reader(tmp_path), shown.append)
    for _ in range(2):
        updates.show_output(outputs.ToolStarted(RUN))
        updates.show_output(outputs.ToolFinished("c", "bash", DONE))
    updates.show_question(RUN)
    updates.close_open_calls()
    ids = [one.call_id for one in shown if isinstance(one, CallBegun | CallChanged)]
    assert ids == ["c", "c", "c#2", "c#2", "c#3", "c#3"]
    assert [one.exit_code for one in shown if isinstance(one, CallChanged)] == [0, 0, None]


def test_a_yes_is_for_exactly_what_it_says() -> None:
    named = Scope(kinds=("git status",), ground="g")
    cases: dict[str, tuple[Scope, str, list[str]]] = {
        "with a kind": (named, "{}", ["once", "always", "no"]),
        "without one": (Scope(ground="g"), "{}", ["once", "no"]),
        "not all shown": (named, json.dumps({"command": "x" * 9000}), ["once", "no"]),
    }
    missed = []
    for name, (scope, arguments, wanted) in cases.items():
        question = Question(ToolCall("c", "bash", arguments), RiskLevel.MEDIUM, "why", scope)
        offered = [one.id for one in list_verdict_options(question)]
        always = make_verdict(question, "always")
        is_always = always.always and always.kinds == scope.kinds
        if offered != wanted or is_always != ("always" in wanted):
            missed.append((name, offered, always))
        assert make_verdict(question, "once").decision == Approved()
        assert isinstance(make_verdict(question, "no").decision, Rejected)
        assert isinstance(make_verdict(question, "never heard of").decision, Rejected)
    assert missed == []


def test_a_file_is_named_as_the_agent_knows_it() -> None:
    cases = {
        "file:///w/src/app.py": "src/app.py",
        "file:///w/src/app.py#L10:20": "src/app.py:10-20",
        "file:///w/src/app.py#L7": "src/app.py:7",
        "file:///w/two%20words.md": "two words.md",
        "file://localhost/w/a": "a",
        "file:///w/../etc/passwd": "/etc/passwd",
        "file://elsewhere/w/a": "file://elsewhere/w/a",
        "https://example.org/w/a": "https://example.org/w/a",
        "zed:///agent/thread/1": "zed:///agent/thread/1",
    }
    assert {uri: name_linked_file(uri, "/w") for uri in cases} == cases


def test_no_text_ends_the_block_that_it_stands_in() -> None:
    for text in ("", "a", "```", "x\n````\ny", "`", "\n"):
        marks, *inside, end = fence(text).split("\n")
        assert marks == end
        assert not any(line.startswith(marks) for line in inside)


def test_what_was_not_offered_in_a_prompt_is_refused() -> None:
    for block in (
        AudioContentBlock(type="audio", data="", mime_type="audio/wav"),
        ImageContentBlock(type="image", data="no base64!", mime_type="image/png"),
        object(),
    ):
        with pytest.raises(UsageError):
            make_block(block)


class Slow:
    """An editor that reads nothing before it is let."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.reads = asyncio.Event()

    async def session_update(self, session_id: str, update: Any) -> None:
        await self.reads.wait()
        self.sent.append(update)

    async def request_permission(self, *_: Any) -> RequestPermissionResponse:
        raise ConnectionError

    async def read_text_file(self, *_: Any) -> Any:
        raise ConnectionError

    async def write_text_file(self, *_: Any) -> None:
        raise ConnectionError


class NamedSession:
    """What a client needs of a session."""

    thread_id = "T"


async def test_what_waits_for_an_editor_that_does_not_read_is_joined() -> None:
    slow = Slow()
    client = SessionClient(slow, reads_files=True, writes_files=True)
    client.session = NamedSession()  # type: ignore[assignment]
    for number in range(1000):
        client.show(MessageText("agent", f"{number} "))
    for number in range(1000):
        client.show(CommandPrinted("c", "x" * 1000, str(number)))
    assert slow.sent == [], "nothing is sent before the session is known"
    client.release()
    slow.reads.set()
    await client.flush()
    assert len(slow.sent) == 2
    assert slow.sent[0].content.text == "".join(f"{number} " for number in range(1000))
    assert await client.read_text("/w/a") is None
    assert await client.write_text("/w/a", "") is False
    assert set(typing.get_args(session_updates.SessionUpdate)) > {MessageText, CommandPrinted}
