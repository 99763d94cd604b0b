"""What the next state holds: one function per (state, event, next state) of the table.

None of these chooses where to go; that is the table's. They are pure and total for the rows they
stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from treadle.core.answer import as_assistant
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
from treadle.core.compaction import cut_at_end, cut_before_request
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, Conversation
from treadle.core.events import (
    AgentEvent,
    ApprovalDecided,
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
    after,
    answered,
    decide,
    pending,
    questions_about,
    told_to_hook,
)
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message
from treadle.core.retry import retry_delay_s

_Busy: TypeAlias = CallingLlm | ProcessingLlmResponse | PostToolsHook | Error | Compacting


Enter: TypeAlias = Callable[[AgentConfig, Any, Any], AgentState]
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


def _take_user_input(_: AgentConfig, state: WaitingForUserInput, event: UserInput) -> CallingLlm:
    return CallingLlm(state.conversation.append(event.message))


def _take_steering(_: AgentConfig, state: CallingLlm, event: Steered) -> CallingLlm:
    """The retries that are left stay as many: they are for a model that fails, whatever is said."""
    return CallingLlm(state.conversation.append(event.message), state.retries)


def _stay(_: AgentConfig, state: AgentState, __: AgentEvent) -> AgentState:
    return state


def _take_response(
    config: AgentConfig, state: CallingLlm, event: LlmEvent.Completed
) -> ProcessingLlmResponse:
    """What the model has read is noted only where there is a limit to compare it with."""
    response, usage = event.response, event.response.usage
    message = as_assistant(response.message, state.conversation)
    if message is not response.message:
        response = replace(response, message=message)
    conversation = state.conversation.append(message)
    if usage is not None and config.context_tokens_max:
        conversation = conversation.with_tokens(usage.input_tokens + usage.output_tokens)
    return ProcessingLlmResponse(conversation, response)


def _plan_retry(_: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> Error:
    delay_s = retry_delay_s(event.error, state.retries, event.jitter)
    return Error(state.conversation, event.error, state.retries + 1, ErrorOrigin.LLM, delay_s)


def _wait(_: AgentConfig, state: _Busy, __: AgentEvent) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation)


def _call(_: AgentConfig, state: PostToolsHook, __: PostToolsHookCompleted) -> CallingLlm:
    return CallingLlm(state.conversation)


def _rewind(_: AgentConfig, state: WaitingForUserInput, event: Rewound) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation.rewind(event.view))


def _retry(_: AgentConfig, state: Error, __: RetryTimeoutFired) -> CallingLlm:
    return CallingLlm(state.conversation, state.retries)


def _shut_down(_: AgentConfig, __: AgentState, ___: ShutdownRequested) -> ShuttingDown:
    return ShuttingDown()


# ---- calls -------------------------------------------------------------------------------------


def _pending(state: ProcessingLlmResponse, event: LlmEvent.Completed) -> Executions:
    return tuple(pending(call, event.at) for call in state.response.tool_calls)


def _open_calls(
    _: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> ExecutingTools:
    return ExecutingTools(state.conversation, _pending(state, event))


def _ask(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> WaitingForApproval:
    questions = questions_about(state.response.tool_calls, event, config)
    return WaitingForApproval(state.conversation, _pending(state, event), questions)


def _decide(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> WaitingForApproval:
    decided = decide(state.executions, state.questions, event, config)
    assert decided is not None
    return WaitingForApproval(state.conversation, *decided)


def _run_allowed(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> ExecutingTools:
    return ExecutingTools(state.conversation, _decide(config, state, event).executions)


def _run_none(config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided) -> CallingLlm:
    executions = _decide(config, state, event).executions
    return CallingLlm(answered(state.conversation, executions))


def _go_on(_: AgentConfig, state: ExecutingTools, event: ToolEvent) -> ExecutingTools:
    executions = after(state.executions, event)
    assert executions is not None
    return ExecutingTools(state.conversation, executions)


def _close_round(config: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> CallingLlm:
    return CallingLlm(answered(state.conversation, _go_on(config, state, event).executions))


def _close_round_for_hook(
    config: AgentConfig, state: ExecutingTools, event: ToolCompleted
) -> PostToolsHook:
    executions = _go_on(config, state, event).executions
    conversation = answered(state.conversation, executions)
    return PostToolsHook(
        conversation, build_request(config, conversation), told_to_hook(executions)
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
    return WaitingForUserInput(answered(state.conversation, state.executions, reason))


# ---- compaction --------------------------------------------------------------------------------


def _compact_all(
    _: AgentConfig, state: WaitingForUserInput, event: CompactionRequested
) -> Compacting:
    through = cut_at_end(state.conversation)
    return Compacting(state.conversation, through, CompactionCause.REQUESTED, event.focus)


def _make_room(cause: CompactionCause) -> Enter:
    def enter(_: AgentConfig, state: CallingLlm, __: AgentEvent) -> Compacting:
        return Compacting(state.conversation, cut_before_request(state.conversation), cause)

    return enter


def _compacted(state: Compacting, event: Compacted) -> Conversation:
    return state.conversation.compact(Compaction(state.through, event.summary, event.words))


def _wait_compacted(_: AgentConfig, state: Compacting, event: Compacted) -> WaitingForUserInput:
    return WaitingForUserInput(_compacted(state, event))


def _call_compacted(_: AgentConfig, state: Compacting, event: Compacted) -> CallingLlm:
    return CallingLlm(_compacted(state, event))


def _call_uncompacted(_: AgentConfig, state: Compacting, __: CompactionFailed) -> CallingLlm:
    """Without the number that led here, so that it is not tried again before the next answer."""
    return CallingLlm(state.conversation.with_tokens(0))


ENTER: Final[Mapping[tuple[type, type | None, type], Enter]] = {
    (WaitingForUserInput, UserInput, CallingLlm): _take_user_input,
    (CallingLlm, LlmEvent.TextDelta, CallingLlm): _stay,
    (CallingLlm, LlmEvent.ThinkingDelta, CallingLlm): _stay,
    (CallingLlm, LlmEvent.ToolCallDelta, CallingLlm): _stay,
    (CallingLlm, LlmEvent.Completed, ProcessingLlmResponse): _take_response,
    (CallingLlm, LlmEvent.Error, Error): _plan_retry,
    (CallingLlm, LlmEvent.Error, WaitingForUserInput): _wait,
    (ProcessingLlmResponse, None, ExecutingTools): _open_calls,
    (ProcessingLlmResponse, None, WaitingForUserInput): _wait,
    (ExecutingTools, ToolCompleted, ExecutingTools): _go_on,
    (ExecutingTools, ToolCompleted, PostToolsHook): _close_round_for_hook,
    (ExecutingTools, ToolCompleted, CallingLlm): _close_round,
    (PostToolsHook, PostToolsHookCompleted, CallingLlm): _call,
    (Error, RetryTimeoutFired, CallingLlm): _retry,
    (ExecutingTools, ToolStarted, ExecutingTools): _go_on,
    (ExecutingTools, ToolProgressEvent, ExecutingTools): _go_on,
    (ExecutingTools, ToolUncertain, ExecutingTools): _go_on,
    (CallingLlm, CancelRequested, WaitingForUserInput): _cancel_call,
    (ExecutingTools, CancelRequested, WaitingForUserInput): _cancel_tools,
    (PostToolsHook, CancelRequested, WaitingForUserInput): _wait,
    (Error, CancelRequested, WaitingForUserInput): _wait,
    (WaitingForApproval, CancelRequested, WaitingForUserInput): _cancel_tools,
    (Compacting, CancelRequested, WaitingForUserInput): _wait,
    (ProcessingLlmResponse, None, WaitingForApproval): _ask,
    (WaitingForApproval, ApprovalDecided, WaitingForApproval): _decide,
    (WaitingForApproval, ApprovalDecided, ExecutingTools): _run_allowed,
    (WaitingForApproval, ApprovalDecided, CallingLlm): _run_none,
    (WaitingForUserInput, CompactionRequested, Compacting): _compact_all,
    (WaitingForUserInput, CompactionRequested, WaitingForUserInput): _stay,
    (WaitingForUserInput, Rewound, WaitingForUserInput): _rewind,
    (CallingLlm, None, Compacting): _make_room(CompactionCause.NEAR_LIMIT),
    (CallingLlm, LlmEvent.Error, Compacting): _make_room(CompactionCause.TOO_LONG),
    (Compacting, Compacted, WaitingForUserInput): _wait_compacted,
    (Compacting, Compacted, CallingLlm): _call_compacted,
    (Compacting, CompactionFailed, CallingLlm): _call_uncompacted,
    (Compacting, CompactionFailed, WaitingForUserInput): _wait,
    (CallingLlm, Steered, CallingLlm): _take_steering,
    **{(state, ShutdownRequested, ShuttingDown): _shut_down for state in STATES},
}
