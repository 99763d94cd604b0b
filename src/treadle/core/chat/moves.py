"""What the next state holds: one function per (state, event, next state) of the table.

None of these chooses where to go; that is the table's. They are pure and total for the rows they
stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.answer import as_assistant
from treadle.core.approval import told_as_modified
from treadle.core.chat.approving import decide, questions_about
from treadle.core.chat.compaction import cut_at_end, cut_before_request
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
    ShutdownRequested,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
    UserInput,
)
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message
from treadle.core.retry import retry_delay_s
from treadle.core.tools import (
    CompletedToolInfo,
    Outcome,
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

_Completed = ToolExecutionStatus.Completed
_Running = ToolExecutionStatus.Running

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


def _give_up(_: AgentConfig, state: CallingLlm, __: LlmEvent.Error) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation)


def _open_calls(
    _: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> ExecutingTools:
    return ExecutingTools(state.conversation, _pending(state, event))


def _pending(state: ProcessingLlmResponse, event: LlmEvent.Completed) -> tuple[Status, ...]:
    calls = state.response.tool_calls
    return tuple(ToolExecutionStatus.Pending(call.id, call.tool_name, event.at) for call in calls)


def _ask(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> WaitingForApproval:
    questions = questions_about(config, state, event)
    return WaitingForApproval(state.conversation, _pending(state, event), questions)


def _decide(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> WaitingForApproval:
    after = decide(config, state, event)
    assert after is not None
    return after


def _run_allowed(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> ExecutingTools:
    return ExecutingTools(state.conversation, _decide(config, state, event).executions)


def _run_none(config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided) -> CallingLlm:
    executions = _decide(config, state, event).executions
    return CallingLlm(_with_results(state.conversation, executions))


def _end_turn(
    _: AgentConfig, state: ProcessingLlmResponse, __: LlmEvent.Completed
) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation)


def _update(state: ExecutingTools, call_id: str, new: Status) -> ExecutingTools:
    return ExecutingTools(
        state.conversation,
        tuple(new if status.call_id == call_id else status for status in state.executions),
    )


def _complete(state: ExecutingTools, event: ToolCompleted) -> tuple[Status, ...]:
    done: list[Status] = []
    for status in state.executions:
        if status.call_id == event.call_id:
            started = status.started_at if isinstance(status, _Running) else event.at
            status = _Completed(
                event.call_id,
                status.tool_name,
                started,
                event.at,
                event.outcome,
                status.modified,
            )
        done.append(status)
    return tuple(done)


def _close_one(_: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> ExecutingTools:
    return ExecutingTools(state.conversation, _complete(state, event))


def _close_round(config: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> CallingLlm:
    return CallingLlm(_with_results(state.conversation, _complete(state, event)))


def _close_round_for_hook(
    config: AgentConfig, state: ExecutingTools, event: ToolCompleted
) -> PostToolsHook:
    executions = _complete(state, event)
    conversation = _with_results(state.conversation, executions)
    return PostToolsHook(
        conversation, build_request(config, conversation), tuple(map(_info, executions))
    )


def _with_results(
    conversation: Conversation, executions: tuple[Status, ...], otherwise: str = ""
) -> Conversation:
    """Append one result per call of the last message, in request order.

    `executions` stand in the order of the calls; `otherwise` answers those that are not completed.
    """
    calls = conversation[-1].tool_calls
    for call, status in zip(calls, executions, strict=True):
        text = (
            _text_of(status.outcome)
            if isinstance(status, _Completed)
            else _unfinished(status, otherwise)
        )
        if status.modified is not UNSET:
            text = told_as_modified(status.modified, text)
        conversation = conversation.append(Message.tool(call, text))
    return conversation


def _text_of(outcome: Outcome) -> str:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return f"ERROR: {outcome.error.text}"


def _unfinished(status: Status, reason: str) -> str:
    started = isinstance(status, _Running)
    tail = "it had started and may have had effects" if started else "it had not started"
    return f"ERROR: {ToolError(ToolErrorKind.CANCELLED, f'{reason}; {tail}').text}"


def _info(status: Status) -> CompletedToolInfo:
    outcome = status.outcome if isinstance(status, _Completed) else None
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return CompletedToolInfo(status.tool_name, True, outcome.changed)
    return CompletedToolInfo(status.tool_name, False)


def _call_anew(_: AgentConfig, state: PostToolsHook, __: PostToolsHookCompleted) -> CallingLlm:
    return CallingLlm(state.conversation)


def _retry(_: AgentConfig, state: Error, __: RetryTimeoutFired) -> CallingLlm:
    return CallingLlm(state.conversation, state.retries)


def _shut_down(_: AgentConfig, __: AgentState, ___: ShutdownRequested) -> ShuttingDown:
    return ShuttingDown()


def find_status(state: ExecutingTools, call_id: str) -> Status | None:
    """How the call of this id stands; `None` if the round has none such."""
    for status in state.executions:
        if status.call_id == call_id:
            return status
    return None


def _start(_: AgentConfig, state: ExecutingTools, event: ToolStarted) -> ExecutingTools:
    status = find_status(state, event.call_id)
    assert status is not None
    new = _Running(event.call_id, status.tool_name, event.at, modified=status.modified)
    return _update(state, event.call_id, new)


def _progress(_: AgentConfig, state: ExecutingTools, event: ToolProgressEvent) -> ExecutingTools:
    status = find_status(state, event.call_id)
    assert isinstance(status, _Running)
    new = replace(status, progress=event.progress, last_update_at=event.at)
    return _update(state, event.call_id, new)


def _doubt(_: AgentConfig, state: ExecutingTools, event: ToolUncertain) -> ExecutingTools:
    status = find_status(state, event.call_id)
    assert isinstance(status, _Running)
    return _update(state, event.call_id, replace(status, uncertain=True))


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
    return WaitingForUserInput(_with_results(state.conversation, state.executions, reason))


def _cancel(
    _: AgentConfig, state: PostToolsHook | Error | Compacting, __: CancelRequested
) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation)


def _compact_all(
    _: AgentConfig, state: WaitingForUserInput, event: CompactionRequested
) -> Compacting:
    through = cut_at_end(state.conversation)
    return Compacting(state.conversation, through, CompactionCause.REQUESTED, event.focus)


def _make_room(_: AgentConfig, state: CallingLlm, __: AgentEvent) -> Compacting:
    through = cut_before_request(state.conversation)
    return Compacting(state.conversation, through, CompactionCause.NEAR_LIMIT)


def _shorten(_: AgentConfig, state: CallingLlm, __: LlmEvent.Error) -> Compacting:
    through = cut_before_request(state.conversation)
    return Compacting(state.conversation, through, CompactionCause.TOO_LONG)


def _compacted(state: Compacting, event: Compacted) -> Conversation:
    return state.conversation.compact(Compaction(state.through, event.summary))


def _wait_compacted(_: AgentConfig, state: Compacting, event: Compacted) -> WaitingForUserInput:
    return WaitingForUserInput(_compacted(state, event))


def _call_compacted(_: AgentConfig, state: Compacting, event: Compacted) -> CallingLlm:
    return CallingLlm(_compacted(state, event))


def _call_uncompacted(_: AgentConfig, state: Compacting, __: CompactionFailed) -> CallingLlm:
    """Without the number that led here, so that it is not tried again before the next answer."""
    return CallingLlm(state.conversation.with_tokens(0))


def _leave_uncompacted(
    _: AgentConfig, state: Compacting, __: CompactionFailed
) -> WaitingForUserInput:
    return WaitingForUserInput(state.conversation)


ENTER: Final[Mapping[tuple[type, type | None, type], Enter]] = {
    (WaitingForUserInput, UserInput, CallingLlm): _take_user_input,
    (CallingLlm, LlmEvent.TextDelta, CallingLlm): _stay,
    (CallingLlm, LlmEvent.ThinkingDelta, CallingLlm): _stay,
    (CallingLlm, LlmEvent.ToolCallDelta, CallingLlm): _stay,
    (CallingLlm, LlmEvent.Completed, ProcessingLlmResponse): _take_response,
    (CallingLlm, LlmEvent.Error, Error): _plan_retry,
    (CallingLlm, LlmEvent.Error, WaitingForUserInput): _give_up,
    (ProcessingLlmResponse, None, ExecutingTools): _open_calls,
    (ProcessingLlmResponse, None, WaitingForUserInput): _end_turn,
    (ExecutingTools, ToolCompleted, ExecutingTools): _close_one,
    (ExecutingTools, ToolCompleted, PostToolsHook): _close_round_for_hook,
    (ExecutingTools, ToolCompleted, CallingLlm): _close_round,
    (PostToolsHook, PostToolsHookCompleted, CallingLlm): _call_anew,
    (Error, RetryTimeoutFired, CallingLlm): _retry,
    (ExecutingTools, ToolStarted, ExecutingTools): _start,
    (ExecutingTools, ToolProgressEvent, ExecutingTools): _progress,
    (ExecutingTools, ToolUncertain, ExecutingTools): _doubt,
    (CallingLlm, CancelRequested, WaitingForUserInput): _cancel_call,
    (ExecutingTools, CancelRequested, WaitingForUserInput): _cancel_tools,
    (PostToolsHook, CancelRequested, WaitingForUserInput): _cancel,
    (Error, CancelRequested, WaitingForUserInput): _cancel,
    (WaitingForApproval, CancelRequested, WaitingForUserInput): _cancel_tools,
    (Compacting, CancelRequested, WaitingForUserInput): _cancel,
    (ProcessingLlmResponse, None, WaitingForApproval): _ask,
    (WaitingForApproval, ApprovalDecided, WaitingForApproval): _decide,
    (WaitingForApproval, ApprovalDecided, ExecutingTools): _run_allowed,
    (WaitingForApproval, ApprovalDecided, CallingLlm): _run_none,
    (WaitingForUserInput, CompactionRequested, Compacting): _compact_all,
    (WaitingForUserInput, CompactionRequested, WaitingForUserInput): _stay,
    (CallingLlm, None, Compacting): _make_room,
    (CallingLlm, LlmEvent.Error, Compacting): _shorten,
    (Compacting, Compacted, WaitingForUserInput): _wait_compacted,
    (Compacting, Compacted, CallingLlm): _call_compacted,
    (Compacting, CompactionFailed, CallingLlm): _call_uncompacted,
    (Compacting, CompactionFailed, WaitingForUserInput): _leave_uncompacted,
    **{(state, ShutdownRequested, ShuttingDown): _shut_down for state in STATES},
}
