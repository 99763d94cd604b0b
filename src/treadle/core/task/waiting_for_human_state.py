"""WaitingForHuman: a person decides about calls, one by one, now or much later."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.actions import AgentAction, RequestApproval
from treadle.core.approval import Modified, Question, Rejected
from treadle.core.events import ApprovalDecided, CallAssessed
from treadle.core.executions import NOT_ALLOWED, apply_decision, apply_modification
from treadle.core.messages import ToolCall
from treadle.core.task.calls import (
    assess_call,
    format_observation,
    list_step_calls,
    make_executions,
)
from treadle.core.task.handler import Handler, HandlerContext, StateResult, shorten
from treadle.core.task.memory import AgentMemory, HumanApprovalRequest, ToolResult
from treadle.core.task.table import Event, State
from treadle.core.tools import Status, ToolExecutionStatus

_STATE: Final = State.WAITING_FOR_HUMAN
_Completed = ToolExecutionStatus.Completed


def enter_state(memory: AgentMemory, context: HandlerContext) -> StateResult:
    """Ask about the calls that need a yes."""
    calls, pending = list_step_calls(memory, _STATE), memory.pending_approval
    ids = {call.id for call in calls}
    if pending is None or not all(question.call.id in ids for question in pending.open):
        text = "there is nothing that a person could approve"
        memory = replace(memory, error=text, pending_approval=None)
        return memory.log(_STATE, "FATAL_ERROR", text), Event.FATAL_ERROR
    memory = replace(memory, executions=make_executions(memory, calls))
    for question in pending.open:
        memory = memory.log(_STATE, "APPROVAL_REQUEST", _format_question(question))
    return memory, make_obligation(memory, context)


def make_obligation(memory: AgentMemory, _: HandlerContext) -> AgentAction:
    """The questions that are still open."""
    pending = memory.pending_approval
    return RequestApproval(() if pending is None else pending.open)


def handle_event(memory: AgentMemory, event: Any, context: HandlerContext) -> StateResult:
    """Take a decision; the last one decides where to go."""
    pending = memory.pending_approval
    if isinstance(event, CallAssessed) and pending is not None:
        return memory, assess_call(memory, event, context.settings, _STATE, pending.open)
    if not isinstance(event, ApprovalDecided) or pending is None:
        return memory, None
    decided = apply_decision(memory.executions, pending.open, event, context.settings)
    if decided is None:
        return memory, None
    executions, left = decided
    [status] = (one for one in executions if one.call_id == event.call_id)
    if status.modified is not UNSET:
        # The blacklist is looked at where the call runs.
        calls = list_step_calls(memory, _STATE)
        [changed] = (apply_modification(call, status) for call in calls if call.id == event.call_id)
        memory = _replace_call(memory, changed)
    memory = replace(memory, executions=executions).log(_STATE, *_format_decision(event, status))
    if not left:
        return _finish_decisions(replace(memory, pending_approval=None))
    memory = replace(memory, pending_approval=HumanApprovalRequest(left))
    for question in left:
        if question.call.id == event.call_id:
            memory = memory.log(_STATE, "APPROVAL_REQUEST", _format_question(question))
            return memory, make_obligation(memory, context)
    return memory, None


def _format_question(question: Question) -> str:
    call = question.call
    return shorten(f"{call.tool_name} {call.arguments_json} ({question.risk.name.lower()} risk)")


def _format_decision(event: ApprovalDecided, status: Status) -> tuple[str, str]:
    """What the trace says of a decision."""
    match event.decision:
        case Rejected(reason):
            return "REJECTED", shorten(f"{status.tool_name}: {reason or NOT_ALLOWED}")
        case Modified(arguments_json):
            return "MODIFIED", shorten(f"{status.tool_name} {arguments_json}")
    return "APPROVED", status.tool_name


def _replace_call(memory: AgentMemory, changed: ToolCall) -> AgentMemory:
    current = memory.current_tool_call
    if current is not None and current.id == changed.id:
        return replace(memory, current_tool_call=changed)
    calls = (changed if call.id == changed.id else call for call in memory.pending_tool_calls)
    return replace(memory, pending_tool_calls=tuple(calls))


def _finish_decisions(memory: AgentMemory) -> StateResult:
    """Everything is decided."""
    calls = list_step_calls(memory, _STATE)
    rejected = [one for one in memory.executions if isinstance(one, _Completed)]
    if calls == (memory.current_tool_call,):
        status = memory.executions[0]
        if isinstance(status, _Completed):
            observation = format_observation(status.outcome)
            return replace(memory, last_observation=observation), Event.HUMAN_REJECTED
        is_modified = status.modified is not UNSET
        return memory, Event.HUMAN_MODIFIED if is_modified else Event.HUMAN_APPROVED
    if len(rejected) < len(memory.executions):
        return memory, Event.HUMAN_APPROVED_PARALLEL
    results = tuple(
        ToolResult(call, status.outcome) for call, status in zip(calls, rejected, strict=True)
    )
    return replace(memory, parallel_results=results), Event.HUMAN_REJECTED


WAITING_FOR_HUMAN: Final = Handler(enter_state, handle_event, make_obligation)
