"""Which guard of the table holds, for each (state, event) that has guards.

Pure; one function for each pair, so that of its guards at most one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from treadle.core.chat.states import (
    CallingLlm,
    Compacting,
    CompactionCause,
    Error,
    ErrorOrigin,
    ExecutingTools,
    ProcessingLlmResponse,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.chat.table import Guard
from treadle.core.compaction import cut_at_end, cut_before_request
from treadle.core.config import AgentConfig
from treadle.core.events import (
    ApprovalDecided,
    Compacted,
    CompactionFailed,
    CompactionRequested,
    LlmEvent,
    RetryTimeoutFired,
    Rewound,
    Steered,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)
from treadle.core.executions import (
    ToolEvent,
    after,
    are_done,
    decide,
    have_changed,
    questions_about,
)
from treadle.core.llm import LlmErrorKind
from treadle.core.retry import is_retryable

Judge: TypeAlias = Callable[[AgentConfig, Any, Any], Guard | None]
"""(configuration, state, event) -> the guard that holds, if any."""


def _judge_input(
    _: AgentConfig, __: WaitingForUserInput | CallingLlm, event: UserInput | Steered
) -> Guard | None:
    message = event.message
    is_plain = not message.tool_calls and message.tool_call_id is None
    return Guard.BY_USER if message.role == "user" and is_plain else None


def _judge_failure(config: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> Guard:
    if state.retries < config.max_retries and is_retryable(event.error):
        return Guard.RETRIES_LEFT
    is_about_length = event.error.kind is LlmErrorKind.CONTEXT_TOO_LONG
    is_too_long = is_about_length and cut_before_request(state.conversation) > 0
    return Guard.TOO_LONG if is_too_long else Guard.GIVE_UP


def _judge_response(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> Guard:
    if not state.response.tool_calls:
        return Guard.NO_CALLS
    return (
        Guard.NEEDS_YES
        if questions_about(state.response.tool_calls, event, config)
        else Guard.HAS_CALLS
    )


def _judge_result(config: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> Guard | None:
    executions = after(state.executions, event)
    if executions is None:
        return None
    if not are_done(executions):
        return Guard.OTHERS_OPEN
    return Guard.LAST_CHANGED if have_changed(executions, config) else Guard.LAST_UNCHANGED


def _if_it_fits(guard: Guard) -> Judge:
    def judge(_: AgentConfig, state: ExecutingTools, event: ToolEvent) -> Guard | None:
        return None if after(state.executions, event) is None else guard

    return judge


def _judge_decision(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> Guard | None:
    decided = decide(state.executions, state.questions, event, config)
    if decided is None:
        return None
    executions, questions = decided
    if any(question.call.id == event.call_id for question in questions):
        return Guard.ASKED_AGAIN
    if questions:
        return Guard.OTHERS_ASKED
    return Guard.LAST_NONE_RUNS if are_done(executions) else Guard.LAST_MAY_RUN


def _judge_view(_: AgentConfig, state: WaitingForUserInput, event: Rewound) -> Guard | None:
    return Guard.IN_THE_PAST if state.conversation.can_show(event.view) else None


def _judge_room(config: AgentConfig, state: CallingLlm, _: object) -> Guard | None:
    conversation = state.conversation
    is_near_limit = config.is_near_limit(conversation) and cut_before_request(conversation) > 0
    return Guard.NEAR_LIMIT if is_near_limit else None


def _judge_summary(_: AgentConfig, state: Compacting, event: Compacted) -> Guard | None:
    if event.through != state.through:
        return None
    was_requested = state.cause is CompactionCause.REQUESTED
    return Guard.FITS_AND_WAITS if was_requested else Guard.FITS_AND_GOES_ON


JUDGES: Final[Mapping[tuple[type, type | None], Judge]] = MappingProxyType(
    {
        (WaitingForUserInput, UserInput): _judge_input,
        (WaitingForUserInput, CompactionRequested): lambda _, state, __: (
            Guard.COMPACTABLE if cut_at_end(state.conversation) else Guard.NOTHING_TO_COMPACT
        ),
        (WaitingForUserInput, Rewound): _judge_view,
        (CallingLlm, None): _judge_room,
        (CallingLlm, Steered): _judge_input,
        (CallingLlm, LlmEvent.Error): _judge_failure,
        (ProcessingLlmResponse, None): _judge_response,
        (ExecutingTools, ToolStarted): _if_it_fits(Guard.STARTABLE),
        (ExecutingTools, ToolProgressEvent): _if_it_fits(Guard.RUNNING),
        (ExecutingTools, ToolUncertain): _if_it_fits(Guard.RUNNING),
        (ExecutingTools, ToolCompleted): _judge_result,
        (Error, RetryTimeoutFired): lambda _, state, __: (
            Guard.FROM_LLM if state.origin is ErrorOrigin.LLM else None
        ),
        (WaitingForApproval, ApprovalDecided): _judge_decision,
        (Compacting, Compacted): _judge_summary,
        (Compacting, CompactionFailed): lambda _, state, __: (
            Guard.CAN_GO_ON if state.cause is CompactionCause.NEAR_LIMIT else Guard.CANNOT_GO_ON
        ),
    }
)
