"""WaitingForHuman: a person decides about calls, one by one, now or much later."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.actions import AgentAction, RequestApproval
from treadle.core.approval import Approved, Question, Rejected
from treadle.core.events import ApprovalDecided
from treadle.core.messages import ToolCall
from treadle.core.task.calls import calls_of, failed, observation_of, opened, updated
from treadle.core.task.handler import Context, Result, short
from treadle.core.task.memory import AgentMemory, HumanApprovalRequest, ToolResult
from treadle.core.task.table import Event, State
from treadle.core.tools import Status, ToolErrorKind, ToolExecutionStatus

_HERE: Final = State.WAITING_FOR_HUMAN
_Completed = ToolExecutionStatus.Completed


def enter(memory: AgentMemory, context: Context) -> Result:
    """Ask about the calls that need a yes."""
    calls, pending = calls_of(memory, _HERE), memory.pending_approval
    ids = {call.id for call in calls}
    if pending is None or not all(question.call.id in ids for question in pending.open):
        text = "there is nothing that a person could approve"
        memory = replace(memory, error=text, pending_approval=None)
        return memory.log(_HERE, "FATAL_ERROR", text), Event.FATAL_ERROR
    memory = replace(memory, executions=opened(memory, calls))
    for question in pending.open:
        memory = memory.log(_HERE, "APPROVAL_REQUEST", _line(question))
    return memory, owed(memory, context)


def owed(memory: AgentMemory, _: Context) -> AgentAction:
    """The questions that are still open."""
    pending = memory.pending_approval
    return RequestApproval(() if pending is None else pending.open)


def on(memory: AgentMemory, event: Any, context: Context) -> Result:
    """Take a decision; the last one decides where to go."""
    pending = memory.pending_approval
    if not isinstance(event, ApprovalDecided) or pending is None:
        return memory, None
    question = next((one for one in pending.open if one.call.id == event.call_id), None)
    if question is None:
        return memory, None
    memory, again = _decide(memory, event, question, context)
    if again is not None:
        asked = tuple(again if one is question else one for one in pending.open)
        memory = replace(memory, pending_approval=replace(pending, open=asked))
        return memory.log(_HERE, "APPROVAL_REQUEST", _line(again)), owed(memory, context)
    left = tuple(one for one in pending.open if one is not question)
    if left:
        decided = (*pending.decided, event.call_id)
        return replace(memory, pending_approval=HumanApprovalRequest(left, decided)), None
    return _finish(replace(memory, pending_approval=None))


def _line(question: Question) -> str:
    call = question.call
    return short(f"{call.tool_name} {call.arguments_json} ({question.risk.name.lower()} risk)")


def _decide(
    memory: AgentMemory, event: ApprovalDecided, question: Question, context: Context
) -> tuple[AgentMemory, Question | None]:
    """What a decision makes of its call; and the question anew, if a changed call raises one."""
    decision, call = event.decision, question.call
    status = next(one for one in memory.executions if one.call_id == call.id)
    if isinstance(decision, Approved):
        return memory.log(_HERE, "APPROVED", call.tool_name), None
    if isinstance(decision, Rejected):
        reason = decision.reason or "a person did not allow this call"
        memory = _with_status(memory, failed(status, ToolErrorKind.REJECTED, reason, event.at))
        return memory.log(_HERE, "REJECTED", short(f"{call.tool_name}: {reason}")), None
    changed = replace(call, arguments_json=decision.arguments_json)
    memory = _with_call(memory, changed)
    memory = _with_status(memory, replace(status, modified=changed.arguments_json))
    memory = memory.log(_HERE, "MODIFIED", short(f"{call.tool_name} {changed.arguments_json}"))
    # A yes to one thing is none to a riskier one. The blacklist is looked at where the call runs.
    again = context.settings.question_about(changed, decision.risk)
    return memory, again if again is not None and again.risk > question.risk else None


def _with_status(memory: AgentMemory, new: Status) -> AgentMemory:
    return replace(memory, executions=updated(memory.executions, new))


def _with_call(memory: AgentMemory, changed: ToolCall) -> AgentMemory:
    if memory.current_tool_call is not None:
        return replace(memory, current_tool_call=changed)
    calls = (changed if call.id == changed.id else call for call in memory.pending_tool_calls)
    return replace(memory, pending_tool_calls=tuple(calls))


def _finish(memory: AgentMemory) -> Result:
    """Everything is decided."""
    rejected = [one for one in memory.executions if isinstance(one, _Completed)]
    if memory.current_tool_call is not None:
        status = memory.executions[0]
        if isinstance(status, _Completed):
            observation = observation_of(status.outcome)
            return replace(memory, last_observation=observation), Event.HUMAN_REJECTED
        is_modified = status.modified is not UNSET
        return memory, Event.HUMAN_MODIFIED if is_modified else Event.HUMAN_APPROVED
    if len(rejected) < len(memory.executions):
        return memory, Event.HUMAN_APPROVED_PARALLEL
    results = tuple(
        ToolResult(call, status.outcome)
        for call, status in zip(memory.pending_tool_calls, rejected, strict=True)
    )
    return replace(memory, parallel_results=results), Event.HUMAN_REJECTED
