"""Which guard of the table holds, for each (state, event) that has guards.

Pure; one function for each pair, so that of its guards at most one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from treadle.core.call_decision import Ruling, are_unstarted, decide_call
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
from treadle.core.compaction import find_cut_at_end, find_cut_before_request
from treadle.core.config import AgentConfig
from treadle.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    CallAssessed,
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
    apply_decision,
    apply_tool_event,
    are_done,
    has_successful_mutation,
    list_questions,
    pair_calls,
)
from treadle.core.llm import LlmErrorKind
from treadle.core.retry import is_retryable

GuardFunction: TypeAlias = Callable[[AgentConfig, Any, Any], Guard | None]
"""(configuration, state, event) -> the guard that holds, if any."""


def _find_input_guard(
    _: AgentConfig, __: WaitingForUserInput | CallingLlm, event: UserInput | Steered
) -> Guard | None:
    message = event.message
    is_plain = not message.tool_calls and message.tool_call_id is None
    return Guard.BY_USER if message.role == "user" and is_plain else None


def _find_failure_guard(config: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> Guard:
    if state.retries < config.max_retries and is_retryable(event.error):
        return Guard.RETRIES_LEFT
    is_about_length = event.error.kind is LlmErrorKind.CONTEXT_TOO_LONG
    is_too_long = is_about_length and find_cut_before_request(state.conversation) > 0
    return Guard.TOO_LONG if is_too_long else Guard.GIVE_UP


def _find_response_guard(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> Guard:
    if not state.response.tool_calls:
        return Guard.NO_CALLS
    return (
        Guard.NEEDS_YES
        if list_questions(state.response.tool_calls, event, config)
        else Guard.HAS_CALLS
    )


def _find_result_guard(
    config: AgentConfig, state: ExecutingTools, event: ToolCompleted
) -> Guard | None:
    executions = apply_tool_event(state.executions, event)
    if executions is None:
        return None
    if not are_done(executions):
        return Guard.OTHERS_OPEN
    return (
        Guard.LAST_CHANGED if has_successful_mutation(executions, config) else Guard.LAST_UNCHANGED
    )


def _make_call_guard(guard: Guard) -> GuardFunction:
    def judge(_: AgentConfig, state: ExecutingTools, event: ToolEvent) -> Guard | None:
        return None if apply_tool_event(state.executions, event) is None else guard

    return judge


def _find_decision_guard(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> Guard | None:
    decided = apply_decision(state.executions, state.questions, event, config)
    if decided is None:
        return None
    executions, questions = decided
    if any(question.call.id == event.call_id for question in questions):
        return Guard.ASKED_AGAIN
    if questions:
        return Guard.OTHERS_ASKED
    return Guard.LAST_NONE_RUNS if are_done(executions) else Guard.LAST_MAY_RUN


def _find_assessment_guard(
    config: AgentConfig, state: ExecutingTools | WaitingForApproval, event: CallAssessed
) -> Guard | None:
    questions = state.questions if isinstance(state, WaitingForApproval) else ()
    round_ = pair_calls(state.conversation, state.executions)
    decision = decide_call(config, round_, questions, event)
    return None if decision is None else _GUARD_OF_RULING.get(decision.ruling, Guard.MUST_NOT_RUN)


_GUARD_OF_RULING: Final = {Ruling.RUN: Guard.MAY_RUN, Ruling.ASK: Guard.ASKS_NOW}


def _find_requirement_guard(
    _: AgentConfig, state: ExecutingTools, event: ApprovalRequired
) -> Guard | None:
    is_open = are_unstarted(state.executions, event.questions)
    return Guard.NONE_BEGAN if is_open else None


def _find_rewind_guard(_: AgentConfig, state: WaitingForUserInput, event: Rewound) -> Guard | None:
    return Guard.IN_THE_PAST if state.conversation.can_show(event.view) else None


def _find_context_guard(config: AgentConfig, state: CallingLlm, _: object) -> Guard | None:
    conversation = state.conversation
    is_near_limit = config.is_near_limit(conversation) and find_cut_before_request(conversation) > 0
    return Guard.NEAR_LIMIT if is_near_limit else None


def _find_summary_guard(_: AgentConfig, state: Compacting, event: Compacted) -> Guard | None:
    if event.through != state.through:
        return None
    was_requested = state.cause is CompactionCause.REQUESTED
    return Guard.FITS_AND_WAITS if was_requested else Guard.FITS_AND_GOES_ON


GUARD_FUNCTIONS: Final[Mapping[tuple[type, type | None], GuardFunction]] = MappingProxyType(
    {
        (WaitingForUserInput, UserInput): _find_input_guard,
        (WaitingForUserInput, CompactionRequested): lambda _, state, __: (
            Guard.COMPACTABLE if find_cut_at_end(state.conversation) else Guard.NOTHING_TO_COMPACT
        ),
        (WaitingForUserInput, Rewound): _find_rewind_guard,
        (CallingLlm, None): _find_context_guard,
        (CallingLlm, Steered): _find_input_guard,
        (CallingLlm, LlmEvent.Error): _find_failure_guard,
        (ProcessingLlmResponse, None): _find_response_guard,
        (ExecutingTools, ToolStarted): _make_call_guard(Guard.STARTABLE),
        (ExecutingTools, ToolProgressEvent): _make_call_guard(Guard.RUNNING),
        (ExecutingTools, ToolUncertain): _make_call_guard(Guard.RUNNING),
        (ExecutingTools, ToolCompleted): _find_result_guard,
        (Error, RetryTimeoutFired): lambda _, state, __: (
            Guard.FROM_LLM if state.origin is ErrorOrigin.LLM else None
        ),
        (WaitingForApproval, ApprovalDecided): _find_decision_guard,
        (ExecutingTools, CallAssessed): _find_assessment_guard,
        (WaitingForApproval, CallAssessed): _find_assessment_guard,
        (ExecutingTools, ApprovalRequired): _find_requirement_guard,
        (Compacting, Compacted): _find_summary_guard,
        (Compacting, CompactionFailed): lambda _, state, __: (
            Guard.CAN_GO_ON if state.cause is CompactionCause.NEAR_LIMIT else Guard.CANNOT_GO_ON
        ),
    }
)
