"""What each record says of the work in a turn, but for the requests to models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from treadle.core.approval import Modified, Rejected
from treadle.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    PostToolsHookCompleted,
    Steered,
    ToolCompleted,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.messages import ToolCall
from treadle.core.task.events import StateCompleted, StateFailed
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.telemetry.attributes import (
    CALL_ID,
    EXECUTE_TOOL,
    OPERATION,
    OUTCOME,
    SUB_AGENT_THREAD,
    TOOL,
)
from treadle.telemetry.content import ContentFormatter
from treadle.telemetry.spans import AttributeValue, OpenSpan, SpanFailure
from treadle.telemetry.turn_spans import TurnSpans, Work
from treadle.thread.facts import ChildStarted, Recovered, TaskEnded

HOOK: Final[Work] = ("hook", "")
STATE: Final[Work] = ("state", "")

RecordHandler = Callable[[TurnSpans, Any, ToolCall | None, ContentFormatter | None], None]


def make_error(kind: str, message: str, content: ContentFormatter | None) -> SpanFailure:
    """How something failed. The message may quote what was said, so it goes by that."""
    return SpanFailure(kind, "" if content is None else content.text(message))


def name_call(call_id: str) -> Work:
    """A call as work of a turn."""
    return "call", call_id


def _begin_call(turn: TurnSpans, call: ToolCall, content: ContentFormatter | None) -> OpenSpan:
    found: dict[str, AttributeValue] = {
        OPERATION: EXECUTE_TOOL,
        TOOL: call.tool_name,
        CALL_ID: call.id,
        "gen_ai.tool.type": "function",
    }
    if content is not None:
        found["gen_ai.tool.call.arguments"] = content.text(call.arguments_json)
    return turn.begin(name_call(call.id), f"{EXECUTE_TOOL} {call.tool_name}", "internal", found)


def _take_call_start(
    turn: TurnSpans, entry: ToolStarted, call: ToolCall | None, content: ContentFormatter | None
) -> None:
    if turn.is_over or call is None:
        return
    turn.add_event("treadle.started_again", {}, name_call(call.id))
    span = _begin_call(turn, call, content)
    if entry.confined:
        span.attributes["treadle.call.confined"] = entry.confined
    if entry.access is not None:
        span.attributes["treadle.call.access"] = entry.access.value


def _take_call_end(
    turn: TurnSpans, entry: ToolCompleted, call: ToolCall | None, content: ContentFormatter | None
) -> None:
    if call is None:
        return
    _begin_call(turn, call, content)  # one that was refused has not begun
    outcome, found = entry.outcome, dict[str, AttributeValue]()
    if isinstance(outcome, ToolExecutionOutcome.Error):
        kind = outcome.error.kind.name.lower()
        turn.end(name_call(call.id), {}, make_error(kind, outcome.error.message, content))
        return
    if outcome.background:
        found["treadle.call.background"] = True
    if content is not None:
        found["gen_ai.tool.call.result"] = content.text(outcome.output)
    turn.end(name_call(call.id), found)


def _take_uncertainty(
    turn: TurnSpans, entry: ToolUncertain, _: ToolCall | None, __: ContentFormatter | None
) -> None:
    turn.add_event("treadle.uncertain", {}, name_call(entry.call_id))


def _take_child(
    turn: TurnSpans, entry: ChildStarted, _: ToolCall | None, __: ContentFormatter | None
) -> None:
    if (span := turn.find(name_call(entry.call_id))) is not None:
        span.attributes[SUB_AGENT_THREAD] = entry.thread


def _take_questions(
    turn: TurnSpans, entry: ApprovalRequired, _: ToolCall | None, __: ContentFormatter | None
) -> None:
    for question in entry.questions:
        turn.add_event("treadle.approval_required", {CALL_ID: question.call.id})


_DECISIONS: Final[Mapping[type, str]] = {Rejected: "rejected", Modified: "modified"}


def _take_decision(
    turn: TurnSpans,
    entry: ApprovalDecided,
    call: ToolCall | None,
    content: ContentFormatter | None,
) -> None:
    decision = _DECISIONS.get(type(entry.decision), "approved")
    told = {CALL_ID: entry.call_id, "treadle.decision": decision}
    turn.add_event("treadle.approval_decided", told)
    if isinstance(entry.decision, Rejected) and call is not None:
        _begin_call(turn, call, content)
        kind = ToolErrorKind.REJECTED.name.lower()
        turn.end(name_call(call.id), {}, make_error(kind, entry.decision.reason, content))


def _take_hook(
    turn: TurnSpans,
    entry: PostToolsHookCompleted,
    _: ToolCall | None,
    __: ContentFormatter | None,
) -> None:
    if not entry.action_taken and not entry.note:
        turn.drop(HOOK)  # most programs have none: it ran, and there was nothing to run
        return
    found: dict[str, AttributeValue] = {"treadle.hook.action_taken": entry.action_taken}
    if entry.commit:
        found["treadle.commit"] = entry.commit
    turn.end(HOOK, found)


def _take_state(
    turn: TurnSpans, entry: StateCompleted, _: ToolCall | None, __: ContentFormatter | None
) -> None:
    turn.end(STATE, {"treadle.state.event": entry.event})


def _take_failed_state(
    turn: TurnSpans, entry: StateFailed, _: ToolCall | None, content: ContentFormatter | None
) -> None:
    turn.end(STATE, {}, make_error("exception", entry.error, content))


def _take_recovery(
    turn: TurnSpans, entry: Recovered, _: ToolCall | None, __: ContentFormatter | None
) -> None:
    turn.add_event("treadle.recovered", {"treadle.was_stopped": bool(entry.stopped)})


def _take_steering(
    turn: TurnSpans, _: Steered, __: ToolCall | None, ___: ContentFormatter | None
) -> None:
    turn.add_event("treadle.steered", {})


def _take_task_end(
    turn: TurnSpans, entry: TaskEnded, _: ToolCall | None, content: ContentFormatter | None
) -> None:
    """Said behind the event that has ended the task."""
    turn.root.attributes["treadle.task.state"] = entry.state
    if entry.error or entry.exceeded:
        turn.root.attributes[OUTCOME] = "limit" if entry.exceeded else "failed"
        kind = entry.exceeded.replace(" ", "_") or "failed"
        turn.error = make_error(kind, entry.error, content)


RECORD_HANDLERS: Final[Mapping[type, RecordHandler]] = {
    ToolStarted: _take_call_start,
    ToolUncertain: _take_uncertainty,
    ToolCompleted: _take_call_end,
    ChildStarted: _take_child,
    ApprovalRequired: _take_questions,
    ApprovalDecided: _take_decision,
    PostToolsHookCompleted: _take_hook,
    StateCompleted: _take_state,
    StateFailed: _take_failed_state,
    Recovered: _take_recovery,
    Steered: _take_steering,
    TaskEnded: _take_task_end,
}
"""By the kind of record; the turn may be over. Those that are not here say nothing of its work."""
