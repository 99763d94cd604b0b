"""What the next state holds: one function per (state, event, next state) of the table.

None of these chooses where to go; that is the table's. They are pure and total for the rows they
stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from treadle.core.assistant_message import normalize_assistant_message
from treadle.core.chat.states import (
    STATES,
    AgentState,
    CallingLlm,
    Compacting,
    CompactionCause,
    Error,
    ErrorOrigin,
    ExecutingTools,
    PostToolsHook,
    ProcessingLlmResponse,
    ShuttingDown,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.compaction import find_cut_at_end, find_cut_before_request
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, Conversation
from treadle.core.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequired,
    CallAssessed,
    CancelRequested,
    Compacted,
    CompactionFailed,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    Rewound,
    ShutdownRequested,
    Steered,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)
from treadle.core.executions import (
    Executions,
    ToolEvent,
    append_results,
    apply_decision,
    apply_tool_event,
    drop_old_approvals,
    list_completed_tools,
    list_questions,
    make_pending_status,
)
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message
from treadle.core.retry import retry_delay_s

_BusyState: TypeAlias = CallingLlm | ProcessingLlmResponse | PostToolsHook | Error | Compacting


StateFunction: TypeAlias = Callable[[AgentConfig, Any, Any], AgentState]
"""(configuration, state left, event) -> state entered."""


def build_request(config: AgentConfig, conversation: Conversation) -> LlmRequest:
    """The request of a configuration and a conversation; the same bytes whenever it is built."""
    return LlmRequest(
        config.model_name,
        conversation.in_view,
        config.tools,
        config.system_prompt,
        config.max_tokens,
        config.temperature,
        config.reasoning,
    )


def _append_user_input(_: AgentConfig, state: WaitingForUserInput, event: UserInput) -> CallingLlm:
    return CallingLlm(state.conversation.append(event.message))


def _append_steering(_: AgentConfig, state: CallingLlm, event: Steered) -> CallingLlm:
    """The retries that are left stay as many: they are for a model that fails, whatever is said."""
    return CallingLlm(state.conversation.append(event.message), state.retries)


def _keep_state(_: AgentConfig, state: AgentState, __: AgentEvent) -> AgentState:
    return state


def _append_response(
    config: AgentConfig, state: CallingLlm, event: LlmEvent.Completed
) -> ProcessingLlmResponse:
    """What the model has read is noted only where there is a limit to compare it with."""
    response, usage = event.response, event.response.usage
    message = normalize_assistant_message(response.message, state.conversation)
    if message is not response.message:
        response = replace(response, message=message)
    conversation = state.conversation.append(message)
    if usage is not None and config.context_tokens_max:
        conversation = conversation.with_tokens(usage.input_tokens + usage.output_tokens)
    return ProcessingLlmResponse(conversation, response)


def _plan_retry(_: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> Error:
    delay_s = retry_delay_s(event.error, state.retries, event.jitter)
    return Error(state.conversation, event.error, state.retries + 1, ErrorOrigin.LLM, delay_s)


def _wait_for_input(_: AgentConfig, state: _BusyState, __: AgentEvent) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation)


def _call_model(_: AgentConfig, state: PostToolsHook, __: PostToolsHookCompleted) -> CallingLlm:
    return CallingLlm(state.conversation)


def _rewind(_: AgentConfig, state: WaitingForUserInput, event: Rewound) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation.rewind(event.view))


def _retry_request(_: AgentConfig, state: Error, __: RetryTimeoutFired) -> CallingLlm:
    return CallingLlm(state.conversation, state.retries)


def _shut_down(_: AgentConfig, __: AgentState, ___: ShutdownRequested) -> ShuttingDown:
    return ShuttingDown()


# ---- calls -------------------------------------------------------------------------------------


def _make_pending_executions(state: ProcessingLlmResponse, event: LlmEvent.Completed) -> Executions:
    return tuple(make_pending_status(call, event.at) for call in state.response.tool_calls)


def _start_round(
    _: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> ExecutingTools:
    return ExecutingTools(state.conversation, _make_pending_executions(state, event))


def _request_approval(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> WaitingForApproval:
    questions = list_questions(state.response.tool_calls, event, config)
    return WaitingForApproval(state.conversation, _make_pending_executions(state, event), questions)


def _apply_decision(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> WaitingForApproval:
    decided = apply_decision(state.executions, state.questions, event, config)
    assert decided is not None
    return WaitingForApproval(state.conversation, *decided)


def _run_approved_calls(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> ExecutingTools:
    return ExecutingTools(state.conversation, _apply_decision(config, state, event).executions)


def _run_none(config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided) -> CallingLlm:
    executions = _apply_decision(config, state, event).executions
    return CallingLlm(append_results(state.conversation, executions))


def _ask_after_all(
    _: AgentConfig, state: ExecutingTools, event: ApprovalRequired
) -> WaitingForApproval:
    executions = drop_old_approvals(state.executions, event.questions)
    return WaitingForApproval(state.conversation, executions, event.questions)


def _apply_event(_: AgentConfig, state: ExecutingTools, event: ToolEvent) -> ExecutingTools:
    executions = apply_tool_event(state.executions, event)
    assert executions is not None
    return ExecutingTools(state.conversation, executions)


def _close_round(config: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> CallingLlm:
    executions = _apply_event(config, state, event).executions
    return CallingLlm(append_results(state.conversation, executions))


def _close_round_for_hook(
    config: AgentConfig, state: ExecutingTools, event: ToolCompleted
) -> PostToolsHook:
    executions = _apply_event(config, state, event).executions
    conversation = append_results(state.conversation, executions)
    return PostToolsHook(
        conversation, build_request(config, conversation), list_completed_tools(executions)
    )


def _cancel_call(_: AgentConfig, state: CallingLlm, event: CancelRequested) -> WaitingForUserInput:
    conversation = state.conversation
    if event.partial_text:
        message = Message("assistant", event.partial_text, interrupted=True)
        conversation = conversation.append(message)
    return WaitingForUserInput(conversation)


def _cancel_tools(
    _: AgentConfig, state: ExecutingTools | WaitingForApproval, event: CancelRequested
) -> WaitingForUserInput:
    reason = event.reason or "the turn was cancelled"
    return WaitingForUserInput(append_results(state.conversation, state.executions, reason))


# ---- compaction --------------------------------------------------------------------------------


def _compact_all(
    _: AgentConfig, state: WaitingForUserInput, event: CompactionRequested
) -> Compacting:
    through = find_cut_at_end(state.conversation)
    return Compacting(state.conversation, through, CompactionCause.REQUESTED, event.focus)


def _make_compaction_function(cause: CompactionCause) -> StateFunction:
    def enter(_: AgentConfig, state: CallingLlm, __: AgentEvent) -> Compacting:
        return Compacting(state.conversation, find_cut_before_request(state.conversation), cause)

    return enter


def _compact_conversation(state: Compacting, event: Compacted) -> Conversation:
    return state.conversation.compact(Compaction(state.through, event.summary, event.words))


def _wait_compacted(_: AgentConfig, state: Compacting, event: Compacted) -> WaitingForUserInput:
    return WaitingForUserInput(_compact_conversation(state, event))


def _call_after_compaction(_: AgentConfig, state: Compacting, event: Compacted) -> CallingLlm:
    return CallingLlm(_compact_conversation(state, event))


def _call_without_compaction(_: AgentConfig, state: Compacting, __: CompactionFailed) -> CallingLlm:
    """Without the number that led here, so that it is not tried again before the next answer."""
    return CallingLlm(state.conversation.with_tokens(0))


STATE_FUNCTIONS: Final[Mapping[tuple[type, type | None, type], StateFunction]] = {
    (WaitingForUserInput, UserInput, CallingLlm): _append_user_input,
    (CallingLlm, LlmEvent.TextDelta, CallingLlm): _keep_state,
    (CallingLlm, LlmEvent.ThinkingDelta, CallingLlm): _keep_state,
    (CallingLlm, LlmEvent.ToolCallDelta, CallingLlm): _keep_state,
    (CallingLlm, LlmEvent.Completed, ProcessingLlmResponse): _append_response,
    (CallingLlm, LlmEvent.Error, Error): _plan_retry,
    (CallingLlm, LlmEvent.Error, WaitingForUserInput): _wait_for_input,
    (ProcessingLlmResponse, None, ExecutingTools): _start_round,
    (ProcessingLlmResponse, None, WaitingForUserInput): _wait_for_input,
    (ExecutingTools, ToolCompleted, ExecutingTools): _apply_event,
    (ExecutingTools, ToolCompleted, PostToolsHook): _close_round_for_hook,
    (ExecutingTools, ToolCompleted, CallingLlm): _close_round,
    (PostToolsHook, PostToolsHookCompleted, CallingLlm): _call_model,
    (Error, RetryTimeoutFired, CallingLlm): _retry_request,
    (ExecutingTools, ToolStarted, ExecutingTools): _apply_event,
    (ExecutingTools, ToolProgressEvent, ExecutingTools): _apply_event,
    (ExecutingTools, ToolUncertain, ExecutingTools): _apply_event,
    (CallingLlm, CancelRequested, WaitingForUserInput): _cancel_call,
    (ExecutingTools, CancelRequested, WaitingForUserInput): _cancel_tools,
    (PostToolsHook, CancelRequested, WaitingForUserInput): _wait_for_input,
    (Error, CancelRequested, WaitingForUserInput): _wait_for_input,
    (WaitingForApproval, CancelRequested, WaitingForUserInput): _cancel_tools,
    (Compacting, CancelRequested, WaitingForUserInput): _wait_for_input,
    (ProcessingLlmResponse, None, WaitingForApproval): _request_approval,
    (ExecutingTools, CallAssessed, ExecutingTools): _keep_state,
    (WaitingForApproval, CallAssessed, WaitingForApproval): _keep_state,
    (ExecutingTools, ApprovalRequired, WaitingForApproval): _ask_after_all,
    (WaitingForApproval, ApprovalDecided, WaitingForApproval): _apply_decision,
    (WaitingForApproval, ApprovalDecided, ExecutingTools): _run_approved_calls,
    (WaitingForApproval, ApprovalDecided, CallingLlm): _run_none,
    (WaitingForUserInput, CompactionRequested, Compacting): _compact_all,
    (WaitingForUserInput, CompactionRequested, WaitingForUserInput): _keep_state,
    (WaitingForUserInput, Rewound, WaitingForUserInput): _rewind,
    (CallingLlm, None, Compacting): _make_compaction_function(CompactionCause.NEAR_LIMIT),
    (CallingLlm, LlmEvent.Error, Compacting): _make_compaction_function(CompactionCause.TOO_LONG),
    (Compacting, Compacted, WaitingForUserInput): _wait_compacted,
    (Compacting, Compacted, CallingLlm): _call_after_compaction,
    (Compacting, CompactionFailed, CallingLlm): _call_without_compaction,
    (Compacting, CompactionFailed, WaitingForUserInput): _wait_for_input,
    (CallingLlm, Steered, CallingLlm): _append_steering,
    **{(state, ShutdownRequested, ShuttingDown): _shut_down for state in STATES},
}
