"""The calls of a round: how each stands, what happens to it, what the model reads of it.

The same for both machines. Executions stand in the order in which the calls were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.approval import NO_SCOPE, Modified, Question, Rejected, describe_modified_call
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import (
    ApprovalDecided,
    LlmEvent,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import (
    FAILURE_HEAD,
    CompletedToolInfo,
    EffectClass,
    Outcome,
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
    format_outcome,
)

_Completed = ToolExecutionStatus.Completed
_Pending = ToolExecutionStatus.Pending
_Running = ToolExecutionStatus.Running
_Success = ToolExecutionOutcome.Success

Executions: TypeAlias = tuple[Status, ...]
ToolEvent: TypeAlias = ToolStarted | ToolProgressEvent | ToolUncertain | ToolCompleted

NOT_ALLOWED: Final = "a person did not allow this call"
"""What the model reads of a rejection without a reason."""


def make_pending_status(call: ToolCall, at: str) -> _Pending:
    """A call that has been asked for."""
    return _Pending(call.id, call.tool_name, at)


def list_questions(
    calls: Iterable[ToolCall], event: LlmEvent.Completed, config: AgentConfig
) -> tuple[Question, ...]:
    """What a person must be asked before the calls of this answer may run, in request order."""
    found = (
        config.make_question(call, event.risk_at(at), event.scope_at(at))
        for at, call in enumerate(calls)
    )
    return tuple(question for question in found if question is not None)


def apply_tool_event(executions: Executions, event: ToolEvent) -> Executions | None:
    """How the calls stand after the event; `None` if its call does not stand as it needs it."""
    status = find_execution(executions, event.call_id)
    if status is None or isinstance(status, _Completed):
        return None
    if isinstance(event, ToolCompleted):
        return replace_execution(executions, make_completed_status(status, event.outcome, event.at))
    if isinstance(event, ToolStarted):
        access = UNSET if event.access is None else event.access
        # One that could only read runs again after a crash; if it may write now, its start is
        # recorded once more, so that it is uncertain after the next crash.
        is_known = isinstance(status, _Running) and status.access == access
        if is_known and not getattr(status, "uncertain", False):
            return None
        new = _Running(
            event.call_id,
            status.tool_name,
            event.at,
            modified=status.modified,
            approved=status.approved,
            bound=status.bound,
            access=access,
        )
        return replace_execution(executions, new)
    if isinstance(status, _Pending):
        return None
    if isinstance(event, ToolUncertain):
        return replace_execution(executions, replace(status, uncertain=True))
    new = replace(status, progress=event.progress, last_update_at=event.at)
    return replace_execution(executions, new)


def find_execution(executions: Executions, call_id: str) -> Status | None:
    """How a call stands; `None` if the round has no such call."""
    for status in executions:  # rounds are short: an index would cost more than it saves
        if status.call_id == call_id:
            return status
    return None


def replace_execution(executions: Executions, new: Status) -> Executions:
    """The executions, with `new` in the place of the one of its call."""
    return tuple([new if status.call_id == new.call_id else status for status in executions])


def drop_approvals(executions: Executions) -> Executions:
    """The executions without what a person has allowed: it was for one run, and in one thread."""
    return tuple(
        status if isinstance(status, _Completed) else replace(status, approved=UNSET, bound=UNSET)
        for status in executions
    )


def drop_old_approvals(executions: Executions, questions: Iterable[Question]) -> Executions:
    """The executions without what a person has allowed of calls that they are asked about again."""
    asked = {question.call.id for question in questions}
    return tuple(
        drop_approvals((status,))[0] if status.call_id in asked else status for status in executions
    )


def drop_question_scopes(questions: Iterable[Question]) -> tuple[Question, ...]:
    """The questions without what a yes to them would cover: that was somewhere else.

    What it covers where they are answered is seen there.
    """
    return tuple(replace(question, scope=NO_SCOPE) for question in questions)


def make_completed_status(status: Status, outcome: Outcome, at: str) -> _Completed:
    """The call has ended."""
    started = status.started_at if isinstance(status, _Running) else at
    return _Completed(status.call_id, status.tool_name, started, at, outcome, status.modified)


def make_failed_status(status: Status, kind: ToolErrorKind, message: str, at: str) -> _Completed:
    """The call has ended badly."""
    error = ToolExecutionOutcome.Error(status.call_id, ToolError(kind, message))
    return make_completed_status(status, error, at)


def cancel_open_calls(executions: Executions, reason: str, at: str) -> Executions:
    """All calls have ended, those that were open because of `reason`."""
    return tuple(
        status
        if isinstance(status, _Completed)
        else make_failed_status(
            status, ToolErrorKind.CANCELLED, describe_open_call(status, reason), at
        )
        for status in executions
    )


def are_done(executions: Executions) -> bool:
    """Whether all calls have ended."""
    return all(isinstance(status, _Completed) for status in executions)


def has_successful_mutation(executions: Executions, config: AgentConfig) -> bool:
    """Whether a tool that can change things succeeded."""
    return any(
        has_succeeded(status) and config.effect_of(status.tool_name) is not EffectClass.READ
        for status in executions
    )


def has_succeeded(status: Status) -> bool:
    """Whether the call has ended well."""
    return isinstance(status, _Completed) and isinstance(status.outcome, _Success)


def list_completed_tools(executions: Executions) -> tuple[CompletedToolInfo, ...]:
    """What the post-tools hook is told of them."""
    return tuple(
        CompletedToolInfo(status.tool_name, True, status.outcome.changed)
        if isinstance(status, _Completed) and isinstance(status.outcome, _Success)
        else CompletedToolInfo(status.tool_name, False)
        for status in executions
    )


def apply_decision(
    executions: Executions,
    questions: tuple[Question, ...],
    event: ApprovalDecided,
    config: AgentConfig,
) -> tuple[Executions, tuple[Question, ...]] | None:
    """The calls and what is still asked about them after a person's word about one of them.

    A yes is bound to what the call's scope says. A call that a person changed to something riskier
    than what was asked about, or to something that must be asked about, is asked about again, if
    the configuration wants that: a yes to one thing is none to another.

    Returns:
        `None` if nobody asked about this call, or the question was answered already.
    """
    question = next((one for one in questions if one.call.id == event.call_id), None)
    status = find_execution(executions, event.call_id)
    if question is None or not isinstance(status, _Pending):
        return None
    decision, new, again = event.decision, status, None
    if isinstance(decision, Rejected):
        reason = decision.reason or NOT_ALLOWED
        unchanged = replace(status, modified=UNSET)
        rejected = make_failed_status(unchanged, ToolErrorKind.REJECTED, reason, event.at)
        executions = replace_execution(executions, rejected)
    else:
        scope = question.scope if event.scope is None else event.scope
        if isinstance(decision, Modified):
            scope = NO_SCOPE if event.scope is None else event.scope
            call = replace(question.call, arguments_json=decision.arguments_json)
            again = _repeat_question(question, config.make_question(call, decision.risk, scope))
            new = replace(status, modified=decision.arguments_json)
        yes = replace(new, approved=UNSET, bound=UNSET)
        if again is None:
            yes = replace(new, approved=True, bound=scope.binding)
        executions = replace_execution(executions, yes)
    asked = (again if one is question else one for one in questions)
    return executions, tuple(one for one in asked if one is not None)


def _repeat_question(asked: Question, now: Question | None) -> Question | None:
    """What is to be asked about a changed call; `None` if the answer to it as it was is enough."""
    if now is None or (now.scope.must_ask and not asked.scope.must_ask):
        return now
    return now if now.risk > asked.risk else None


def apply_modification(call: ToolCall, status: Status) -> ToolCall:
    """The call with the arguments it runs with: the model's, or those a person gave it instead."""
    return call if status.modified is UNSET else replace(call, arguments_json=status.modified)


def pair_calls(
    conversation: Conversation, executions: Executions
) -> tuple[tuple[ToolCall, Status], ...]:
    """The calls of the last message, as they are to be run, each with where it stands."""
    pairs = zip(conversation[-1].tool_calls, executions, strict=True)
    return tuple([(apply_modification(call, status), status) for call, status in pairs])


def list_pending_calls(conversation: Conversation) -> tuple[ToolCall, ...]:
    """The calls of the last round that have no result yet.

    Results stand in request order, so that those which are missing are the last ones.
    """
    count = 0
    while count < len(conversation) and conversation[-1 - count].role == "tool":
        count += 1
    return conversation[-1 - count].tool_calls[count:] if count < len(conversation) else ()


def append_results(
    conversation: Conversation, executions: Iterable[Status], reason: str = ""
) -> Conversation:
    """The conversation, with a result for each call of its last round that has none yet.

    Args:
        conversation: what was said so far.
        executions: how the calls stand; one that is not among them has not started.
        reason: why those that are open do not end.
    """
    calls = list_pending_calls(conversation)
    status_of = {status.call_id: status for status in executions} if calls else {}
    for call in calls:
        status = status_of.get(call.id)
        outcome = status.outcome if isinstance(status, _Completed) else None
        shown = outcome.attachments if isinstance(outcome, _Success) else ()
        result = Message.tool(call, _format_result(status, reason), shown)
        conversation = conversation.append(result)
    return conversation


def _format_result(status: Status | None, reason: str) -> str:
    """What the model reads of a call."""
    if isinstance(status, _Completed):
        text = format_outcome(status.outcome)
    else:
        why = describe_open_call(status, reason)
        text = f"{FAILURE_HEAD} {ToolError(ToolErrorKind.CANCELLED, why).text}"
    if status is None or status.modified is UNSET:
        return text
    return describe_modified_call(status.modified, text)


def describe_open_call(status: Status | None, reason: str = "") -> str:
    """Why a call has no result, and whether it may have done something."""
    has_started = isinstance(status, _Running)
    tail = "it had started and may have had effects" if has_started else "it had not started"
    return f"{reason}; {tail}" if reason else tail
