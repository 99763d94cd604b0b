"""The predicate of each guard of the table.

Pure; of the guards of one (state, event) at most one holds, which the tests enumerate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from treadle.core.chat.approving import decide, questions_about
from treadle.core.chat.compaction import cut_at_end, cut_before_request
from treadle.core.chat.moves import find_status
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    CompactionCause,
    ErrorOrigin,
    ExecutingTools,
    WaitingForApproval,
)
from treadle.core.chat.table import Guard
from treadle.core.config import AgentConfig
from treadle.core.events import (
    ApprovalDecided,
    Compacted,
    LlmEvent,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.llm import LlmErrorKind
from treadle.core.retry import is_retryable
from treadle.core.tools import EffectClass, ToolExecutionOutcome, ToolExecutionStatus

_Completed = ToolExecutionStatus.Completed
_Running = ToolExecutionStatus.Running

Test: TypeAlias = Callable[[AgentConfig, Any, Any], bool]
"""(configuration, state, event) -> whether the row applies."""


def _is_last(state: ExecutingTools, event: ToolCompleted) -> bool | None:
    """Whether the event closes the round; `None` if its call is unknown or closed already."""
    others_open = known = False
    for status in state.executions:
        if isinstance(status, _Completed):
            continue
        if status.call_id == event.call_id:
            known = True
        else:
            others_open = True
    return not others_open if known else None


def _mutated(config: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> bool:
    """Whether a tool that can change things succeeded, counting the call that ends now."""
    return any(
        isinstance(outcome, ToolExecutionOutcome.Success)
        and config.effect_of(status.tool_name) is not EffectClass.READ
        for status in state.executions
        for outcome in [
            event.outcome if status.call_id == event.call_id else getattr(status, "outcome", None)
        ]
    )


def _can_retry(config: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> bool:
    return state.retries < config.max_retries and is_retryable(event.error)


def _is_too_long(_: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> bool:
    is_about_length = event.error.kind is LlmErrorKind.CONTEXT_TOO_LONG
    return is_about_length and cut_before_request(state.conversation) > 0


def _is_near_limit(config: AgentConfig, state: CallingLlm, _: object) -> bool:
    conversation = state.conversation
    return config.is_near_limit(conversation) and cut_before_request(conversation) > 0


def _verdict(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> Guard | None:
    """The one guard that holds; `None` if nobody asked about this call."""
    after = decide(config, state, event)
    if after is None:
        return None
    if any(question.call.id == event.call_id for question in after.questions):
        return Guard.ASKED_AGAIN
    if after.questions:
        return Guard.OTHERS_ASKED
    may_run = not all(isinstance(status, _Completed) for status in after.executions)
    return Guard.LAST_MAY_RUN if may_run else Guard.LAST_NONE_RUNS


def _fits(state: Compacting, event: Compacted, *, waits: bool) -> bool:
    was_requested = state.cause is CompactionCause.REQUESTED
    return event.through == state.through and was_requested is waits


def _is_startable(_: AgentConfig, state: ExecutingTools, event: ToolStarted) -> bool:
    status = find_status(state, event.call_id)
    return isinstance(status, ToolExecutionStatus.Pending) or (
        isinstance(status, _Running) and status.uncertain
    )


def _is_by_user(_: AgentConfig, __: AgentState, event: UserInput) -> bool:
    message = event.message
    return message.role == "user" and not message.tool_calls and message.tool_call_id is None


TESTS: Final[Mapping[Guard, Test]] = {
    Guard.BY_USER: _is_by_user,
    Guard.RETRIES_LEFT: _can_retry,
    Guard.GIVE_UP: lambda config, state, event: (
        not (_can_retry(config, state, event) or _is_too_long(config, state, event))
    ),
    Guard.HAS_CALLS: lambda config, state, event: bool(
        state.response.tool_calls and not questions_about(config, state, event)
    ),
    Guard.NO_CALLS: lambda _, state, __: not state.response.tool_calls,
    Guard.OTHERS_OPEN: lambda _, state, event: _is_last(state, event) is False,
    Guard.LAST_CHANGED: lambda config, state, event: bool(
        _is_last(state, event) and _mutated(config, state, event)
    ),
    Guard.LAST_UNCHANGED: lambda config, state, event: bool(
        _is_last(state, event) and not _mutated(config, state, event)
    ),
    Guard.STARTABLE: _is_startable,
    Guard.RUNNING: lambda _, state, event: isinstance(find_status(state, event.call_id), _Running),
    Guard.FROM_LLM: lambda _, state, __: state.origin is ErrorOrigin.LLM,
    Guard.NEEDS_YES: lambda config, state, event: bool(questions_about(config, state, event)),
    Guard.OTHERS_ASKED: lambda *given: _verdict(*given) is Guard.OTHERS_ASKED,
    Guard.ASKED_AGAIN: lambda *given: _verdict(*given) is Guard.ASKED_AGAIN,
    Guard.LAST_MAY_RUN: lambda *given: _verdict(*given) is Guard.LAST_MAY_RUN,
    Guard.LAST_NONE_RUNS: lambda *given: _verdict(*given) is Guard.LAST_NONE_RUNS,
    Guard.COMPACTABLE: lambda _, state, __: cut_at_end(state.conversation) > 0,
    Guard.NOTHING_TO_COMPACT: lambda _, state, __: cut_at_end(state.conversation) == 0,
    Guard.NEAR_LIMIT: _is_near_limit,
    Guard.TOO_LONG: _is_too_long,
    Guard.FITS_AND_WAITS: lambda _, state, event: _fits(state, event, waits=True),
    Guard.FITS_AND_GOES_ON: lambda _, state, event: _fits(state, event, waits=False),
    Guard.CAN_GO_ON: lambda _, state, __: state.cause is CompactionCause.NEAR_LIMIT,
    Guard.CANNOT_GO_ON: lambda _, state, __: state.cause is not CompactionCause.NEAR_LIMIT,
}
