"""Calls that need a person's yes: what is asked, and what a person's word makes of a call."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.approval import Modified, Question, Rejected
from treadle.core.chat.states import ProcessingLlmResponse, WaitingForApproval
from treadle.core.config import AgentConfig
from treadle.core.events import ApprovalDecided, LlmEvent
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

NOT_ALLOWED: Final = "a person did not allow this call"
"""What the model reads of a rejection without a reason."""


def questions_about(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> tuple[Question, ...]:
    """What a person must be asked before the calls of this answer may run, in request order."""
    calls = enumerate(state.response.tool_calls)
    found = (config.question_about(call, event.risk_at(place)) for place, call in calls)
    return tuple(question for question in found if question is not None)


def decide(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> WaitingForApproval | None:
    """The state with this question answered; `None` if nobody asked it, or it was answered.

    A call that a person changed to something riskier than what was asked about is asked about
    again, if the configuration wants that: a yes to one thing is none to another.
    """
    asked = next((one for one in state.questions if one.call.id == event.call_id), None)
    if asked is None:
        return None
    decision, again = event.decision, None
    if isinstance(decision, Modified):
        call = replace(asked.call, arguments_json=decision.arguments_json)
        again = config.question_about(call, decision.risk)
        if again is not None and again.risk <= asked.risk:
            again = None
    questions = (again if question is asked else question for question in state.questions)
    return WaitingForApproval(
        state.conversation,
        tuple(
            _told(status, event) if status.call_id == event.call_id else status
            for status in state.executions
        ),
        tuple(question for question in questions if question is not None),
    )


def _told(status: Status, event: ApprovalDecided) -> Status:
    decision = event.decision
    if isinstance(decision, Modified):
        return replace(status, modified=decision.arguments_json)
    if isinstance(decision, Rejected):
        error = ToolError(ToolErrorKind.REJECTED, decision.reason or NOT_ALLOWED)
        outcome = ToolExecutionOutcome.Error(status.call_id, error)
        return ToolExecutionStatus.Completed(
            status.call_id, status.tool_name, event.at, event.at, outcome
        )
    return status


def as_run(call: ToolCall, status: Status) -> ToolCall:
    """The call with the arguments it runs with: the model's, or those a person gave it instead."""
    return call if status.modified is UNSET else replace(call, arguments_json=status.modified)
