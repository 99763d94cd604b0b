"""What happens in each state on each event: which guard holds, and what the next state holds.

One function for each pair of a state and an event that the table has; no event stands for the
internal rows. They are pure. Where a guard leads, and which action is asked for, is the table's to
say: a state of another kind than that of its row is refused by the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.actions import AgentAction
from treadle.core.assistant_message import normalize_assistant_message
from treadle.core.call_decision import Ruling, are_unstarted, decide_call
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
from treadle.core.chat.table import Guard
from treadle.core.compaction import (
    find_cut_at_end,
    find_cut_before_request,
    find_mask_end,
)
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
    ResultsMasked,
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
    append_results,
    apply_decision,
    apply_tool_event,
    are_done,
    drop_old_approvals,
    has_successful_mutation,
    list_completed_tools,
    list_questions,
    make_pending_status,
    pair_calls,
)
from treadle.core.llm import LlmErrorKind, LlmRequest
from treadle.core.messages import Message
from treadle.core.retry import is_retryable, retry_delay_s


class Move(Struct, frozen=True):
    """The guard that holds, and the state that is entered; both as the table has them in one row.

    `action` is set where it comes out of the same thought; else it is made of the state.
    """

    guard: Guard | None
    state: AgentState
    action: AgentAction | None = None


ChatHandler: TypeAlias = Callable[[AgentConfig, Any, Any], Move | None]
"""(configuration, state left, event) -> what comes of it; `None` if no guard holds."""


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
        config.web_search,
        native_schema=config.native_schema,
    )


def _keep_state(_: AgentConfig, state: AgentState, __: AgentEvent) -> Move:
    return Move(None, state)


def _shut_down(_: AgentConfig, __: AgentState, ___: ShutdownRequested) -> Move:
    return Move(None, ShuttingDown())


# ---- what people say ---------------------------------------------------------------------------


def _append_input(
    _: AgentConfig, state: WaitingForUserInput | CallingLlm, event: UserInput | Steered
) -> Move | None:
    """The retries that are left stay as many: they are for a model that fails, whatever is said."""
    message = event.message
    if message.role != "user" or message.tool_calls or message.tool_call_id is not None:
        return None
    retries = state.retries if isinstance(state, CallingLlm) else 0
    return Move(Guard.BY_USER, CallingLlm(state.conversation.append(message), retries))


def _rewind(_: AgentConfig, state: WaitingForUserInput, event: Rewound) -> Move | None:
    if not state.conversation.can_show(event.view):
        return None
    return Move(Guard.IN_THE_PAST, WaitingForUserInput(state.conversation.rewind(event.view)))


def _cancel_request(_: AgentConfig, state: CallingLlm, event: CancelRequested) -> Move:
    conversation = state.conversation
    if event.partial_text:
        message = Message("assistant", event.partial_text, interrupted=True)
        conversation = conversation.append(message)
    return Move(None, WaitingForUserInput(conversation))


def _cancel_calls(
    _: AgentConfig, state: ExecutingTools | WaitingForApproval, event: CancelRequested
) -> Move:
    reason = event.reason or "the turn was cancelled"
    conversation = append_results(state.conversation, state.executions, reason)
    return Move(None, WaitingForUserInput(conversation))


def _cancel_other_work(
    _: AgentConfig, state: PostToolsHook | Error | Compacting, __: CancelRequested
) -> Move:
    return Move(None, WaitingForUserInput(state.conversation))


# ---- the model ---------------------------------------------------------------------------------


def _append_response(config: AgentConfig, state: CallingLlm, event: LlmEvent.Completed) -> Move:
    """What the model has read is noted only where there is a limit to compare it with."""
    response, usage = event.response, event.response.usage
    message = normalize_assistant_message(response.message, state.conversation)
    if message is not response.message:
        response = replace(response, message=message)
    conversation = state.conversation.append(message)
    if usage is not None and config.counts_context:
        conversation = conversation.with_tokens(usage.input_tokens + usage.output_tokens)
    return Move(None, ProcessingLlmResponse(conversation, response))


def _judge_response(
    config: AgentConfig, state: ProcessingLlmResponse, event: LlmEvent.Completed
) -> Move:
    conversation, calls = state.conversation, state.response.tool_calls
    if not calls:
        return Move(Guard.NO_CALLS, WaitingForUserInput(conversation))
    executions = tuple(make_pending_status(call, event.at) for call in calls)
    questions = list_questions(calls, event, config)
    if questions:
        return Move(Guard.NEEDS_YES, WaitingForApproval(conversation, executions, questions))
    return Move(Guard.HAS_CALLS, ExecutingTools(conversation, executions))


def _handle_llm_error(config: AgentConfig, state: CallingLlm, event: LlmEvent.Error) -> Move:
    conversation, error, retries = state.conversation, event.error, state.retries
    if retries < config.max_retries and is_retryable(error):
        delay_s = retry_delay_s(error, retries, event.jitter)
        failure = Error(conversation, error, retries + 1, ErrorOrigin.LLM, delay_s)
        return Move(Guard.RETRIES_LEFT, failure)
    is_too_long = error.kind is LlmErrorKind.CONTEXT_TOO_LONG
    if is_too_long and (through := find_cut_before_request(conversation)) > 0:
        guard = Guard.TOO_LONG_BY_RESULTS if find_mask_end(conversation) else Guard.TOO_LONG
        return Move(guard, Compacting(conversation, through, CompactionCause.TOO_LONG))
    return Move(Guard.GIVE_UP, WaitingForUserInput(conversation))


def _retry_request(_: AgentConfig, state: Error, __: RetryTimeoutFired) -> Move | None:
    if state.origin is not ErrorOrigin.LLM:
        return None
    return Move(Guard.FROM_LLM, CallingLlm(state.conversation, state.retries))


# ---- calls -------------------------------------------------------------------------------------


def _apply_tool_event(
    _: AgentConfig, state: ExecutingTools, event: ToolStarted | ToolProgressEvent | ToolUncertain
) -> Move | None:
    executions = apply_tool_event(state.executions, event)
    if executions is None:
        return None
    guard = Guard.STARTABLE if isinstance(event, ToolStarted) else Guard.RUNNING
    return Move(guard, ExecutingTools(state.conversation, executions))


def _complete_call(config: AgentConfig, state: ExecutingTools, event: ToolCompleted) -> Move | None:
    executions = apply_tool_event(state.executions, event)
    if executions is None:
        return None
    if not are_done(executions):
        return Move(Guard.OTHERS_OPEN, ExecutingTools(state.conversation, executions))
    conversation = append_results(state.conversation, executions)
    if not has_successful_mutation(executions, config):
        return Move(Guard.LAST_UNCHANGED, CallingLlm(conversation))
    request, completed = build_request(config, conversation), list_completed_tools(executions)
    return Move(Guard.LAST_CHANGED, PostToolsHook(conversation, request, completed))


def _call_model(_: AgentConfig, state: PostToolsHook, __: PostToolsHookCompleted) -> Move:
    return Move(None, CallingLlm(state.conversation))


def _assess_call(
    config: AgentConfig, state: ExecutingTools | WaitingForApproval, event: CallAssessed
) -> Move | None:
    questions = state.questions if isinstance(state, WaitingForApproval) else ()
    round_ = pair_calls(state.conversation, state.executions)
    decision = decide_call(config, round_, questions, event)
    if decision is None:
        return None
    guard = _GUARD_OF_RULING.get(decision.ruling, Guard.MUST_NOT_RUN)
    return Move(guard, state, decision.make_action(event.call_id))


_GUARD_OF_RULING: Final = {Ruling.RUN: Guard.MAY_RUN, Ruling.ASK: Guard.ASKS_NOW}


def _require_approval(
    _: AgentConfig, state: ExecutingTools, event: ApprovalRequired
) -> Move | None:
    if not are_unstarted(state.executions, event.questions):
        return None
    executions = drop_old_approvals(state.executions, event.questions)
    waiting = WaitingForApproval(state.conversation, executions, event.questions)
    return Move(Guard.NONE_BEGAN, waiting)


def _apply_decision(
    config: AgentConfig, state: WaitingForApproval, event: ApprovalDecided
) -> Move | None:
    decided = apply_decision(state.executions, state.questions, event, config)
    if decided is None:
        return None
    conversation, (executions, questions) = state.conversation, decided
    if questions:
        is_asked_again = any(question.call.id == event.call_id for question in questions)
        guard = Guard.ASKED_AGAIN if is_asked_again else Guard.OTHERS_ASKED
        return Move(guard, WaitingForApproval(conversation, executions, questions))
    if are_done(executions):
        return Move(Guard.LAST_NONE_RUNS, CallingLlm(append_results(conversation, executions)))
    return Move(Guard.LAST_MAY_RUN, ExecutingTools(conversation, executions))


# ---- compaction --------------------------------------------------------------------------------


def _begin_compaction(
    _: AgentConfig, state: WaitingForUserInput, event: CompactionRequested
) -> Move:
    through = find_cut_at_end(state.conversation)
    if not through:
        return Move(Guard.NOTHING_TO_COMPACT, state)
    compacting = Compacting(state.conversation, through, CompactionCause.REQUESTED, event.focus)
    return Move(Guard.COMPACTABLE, compacting)


def _make_room(config: AgentConfig, state: CallingLlm, _: AgentEvent) -> Move | None:
    conversation = state.conversation
    if not config.is_near_limit(conversation):
        return None
    through = find_cut_before_request(conversation)
    if through <= 0:
        return None
    guard = Guard.NEAR_LIMIT_BY_RESULTS if find_mask_end(conversation) else Guard.NEAR_LIMIT
    return Move(guard, Compacting(conversation, through, CompactionCause.NEAR_LIMIT))


def _compact(_: AgentConfig, state: Compacting, event: Compacted) -> Move | None:
    if event.through != state.through:
        return None
    compaction = Compaction(state.through, event.summary, event.words)
    conversation = state.conversation.compact(compaction)
    if state.cause is CompactionCause.REQUESTED:
        return Move(Guard.FITS_AND_WAITS, WaitingForUserInput(conversation))
    return Move(Guard.FITS_AND_GOES_ON, CallingLlm(conversation))


def _mask_results(_: AgentConfig, state: Compacting, event: ResultsMasked) -> Move | None:
    """The last round stays: the model has not read it. A person who asks wants a summary."""
    is_asked = state.cause is CompactionCause.REQUESTED
    if is_asked or not 0 < event.masking.through <= state.through:
        return None
    return Move(Guard.BEFORE_CUT, CallingLlm(state.conversation.mask(event.masking)))


def _give_up_compaction(_: AgentConfig, state: Compacting, __: CompactionFailed) -> Move:
    """Without the number that led here, so that it is not tried again before the next answer."""
    if state.cause is CompactionCause.NEAR_LIMIT:
        return Move(Guard.CAN_GO_ON, CallingLlm(state.conversation.with_tokens(0)))
    return Move(Guard.CANNOT_GO_ON, WaitingForUserInput(state.conversation))


CHAT_HANDLERS: Final[Mapping[tuple[type, type | None], ChatHandler]] = MappingProxyType(
    {
        (WaitingForUserInput, UserInput): _append_input,
        (WaitingForUserInput, CompactionRequested): _begin_compaction,
        (WaitingForUserInput, Rewound): _rewind,
        (CallingLlm, None): _make_room,
        (CallingLlm, Steered): _append_input,
        (CallingLlm, LlmEvent.TextDelta): _keep_state,
        (CallingLlm, LlmEvent.ThinkingDelta): _keep_state,
        (CallingLlm, LlmEvent.ToolCallDelta): _keep_state,
        (CallingLlm, LlmEvent.Completed): _append_response,
        (CallingLlm, LlmEvent.Error): _handle_llm_error,
        (CallingLlm, CancelRequested): _cancel_request,
        (ProcessingLlmResponse, None): _judge_response,
        (ExecutingTools, CallAssessed): _assess_call,
        (ExecutingTools, ApprovalRequired): _require_approval,
        (ExecutingTools, ToolStarted): _apply_tool_event,
        (ExecutingTools, ToolProgressEvent): _apply_tool_event,
        (ExecutingTools, ToolUncertain): _apply_tool_event,
        (ExecutingTools, ToolCompleted): _complete_call,
        (ExecutingTools, CancelRequested): _cancel_calls,
        (WaitingForApproval, CallAssessed): _assess_call,
        (WaitingForApproval, ApprovalDecided): _apply_decision,
        (WaitingForApproval, CancelRequested): _cancel_calls,
        (PostToolsHook, PostToolsHookCompleted): _call_model,
        (PostToolsHook, CancelRequested): _cancel_other_work,
        (Error, RetryTimeoutFired): _retry_request,
        (Error, CancelRequested): _cancel_other_work,
        (Compacting, Compacted): _compact,
        (Compacting, ResultsMasked): _mask_results,
        (Compacting, CompactionFailed): _give_up_compaction,
        (Compacting, CancelRequested): _cancel_other_work,
        **{(state, ShutdownRequested): _shut_down for state in STATES},
    }
)
"""Of each pair that the table has; the event of its internal rows is `None`."""
