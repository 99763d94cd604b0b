"""Planning: look at the limits, ask a model, judge what it says.

The order of the checks is part of the contract: steps, budget, then the step counts. Of a response:
blacklist, confidence, approval; a batch of calls passes the same checks as one. What is refused
stays in the transcript with a note that says why, so that the next request contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from treadle.core.actions import WAIT, AgentAction, SendLlmRequest
from treadle.core.assistant_message import normalize_assistant_message
from treadle.core.budget import estimate_request_usage
from treadle.core.events import LlmEvent, RetryTimeoutFired
from treadle.core.executions import list_questions
from treadle.core.llm import LlmErrorKind
from treadle.core.messages import Message, ToolCall
from treadle.core.retry import RETRYABLE, is_retryable, retry_delay_s
from treadle.core.task.calls import append_missing_results
from treadle.core.task.events import TaskInformed, TaskResumed, TimeRanOut
from treadle.core.task.handler import (
    Handler,
    HandlerContext,
    StateResult,
    add_usage,
    shorten,
    stop_out_of_time,
    stop_over_budget,
)
from treadle.core.task.memory import AgentMemory, FailedRequest, HumanApprovalRequest
from treadle.core.task.request import build_request, extract_confidences
from treadle.core.task.table import Event, State

_STATE: Final = State.PLANNING
_CONTINUE_NOTE: Final = "That was not the end of the task: go on."
"""For a graph that leads an answer back here and says nothing: providers want the last word."""
_CUT_OFF_HINT: Final = " It had been cut off by the limit of tokens: be briefer."


def enter_state(memory: AgentMemory, context: HandlerContext) -> StateResult:
    """Begin a planning step, if the limits allow it."""
    memory = append_missing_results(memory)
    if memory.transcript[-1].role == "assistant":
        memory = memory.tell(_CONTINUE_NOTE)
    config = memory.config
    if memory.step >= config.max_steps:
        text = f"Max steps {config.max_steps} exceeded"
        memory = replace(memory, error=text, exceeded="steps", failed_request=None)
        return memory.log(_STATE, "MAX_STEPS", text), Event.MAX_STEPS
    if (stopped := stop_over_budget(memory, _STATE)) is not None:
        return replace(stopped, failed_request=None), Event.FATAL_ERROR
    memory = replace(memory, step=memory.step + 1, failed_request=None)
    action = make_obligation(memory, context)
    assert isinstance(action, SendLlmRequest)
    model = action.request.model or "the provider's default"
    return memory.log(_STATE, "STEP_START", f"step {memory.step}, model {model}"), action


def handle_event(memory: AgentMemory, event: Any, context: HandlerContext) -> StateResult:
    """Judge the response, try again, or give up."""
    if isinstance(event, TimeRanOut):
        return replace(stop_out_of_time(memory, _STATE), failed_request=None), Event.FATAL_ERROR
    failure = memory.failed_request
    is_waiting = failure is not None and failure.is_waiting
    if isinstance(event, RetryTimeoutFired) and failure is not None and is_waiting:
        if (stopped := stop_over_budget(memory, _STATE)) is not None:
            return replace(stopped, failed_request=None), Event.FATAL_ERROR
        memory = replace(memory, failed_request=replace(failure, is_waiting=False))
        return memory, make_obligation(memory, context)
    if isinstance(event, TaskResumed):
        if (stopped := stop_over_budget(memory, _STATE)) is not None:
            return replace(stopped, failed_request=None), Event.FATAL_ERROR
        memory = replace(memory, failed_request=None)
        return memory, make_obligation(memory, context)
    if isinstance(event, TaskInformed) and not is_waiting:
        memory = memory.tell(event.text)
        return memory, make_obligation(memory, context)
    if isinstance(event, LlmEvent.Error) and not is_waiting:
        return _handle_llm_error(memory, event, context)
    if isinstance(event, LlmEvent.Completed) and not is_waiting:
        return _judge_response(memory, event, context)
    return memory, None


def make_obligation(memory: AgentMemory, context: HandlerContext) -> AgentAction:
    """The request of this step; nothing while the retry timer runs."""
    if memory.failed_request is not None and memory.failed_request.is_waiting:
        return WAIT
    return SendLlmRequest(build_request(memory, context.settings))


def _handle_llm_error(
    memory: AgentMemory, event: LlmEvent.Error, context: HandlerContext
) -> StateResult:
    error, settings = event.error, context.settings
    memory = add_usage(memory, error.usage)
    retries = 0 if memory.failed_request is None else memory.failed_request.retries
    if retries < settings.max_retries and is_retryable(error):
        delay_s = retry_delay_s(error, retries, event.jitter)
        memory = replace(memory, failed_request=FailedRequest(error, retries + 1, delay_s))
        text = f"{error.text}; retry {retries + 1} of {settings.max_retries} in {delay_s:g} s"
        return memory.log(_STATE, "LLM_STREAM_ERROR", text), None
    text = f"{error.text}; {_choose_advice(error.kind, error.advice)}"
    if error.kind in RETRYABLE:
        failure = FailedRequest(error, retries, 0.0, is_given_up=True)
        memory = replace(memory, failed_request=failure)
        return memory.log(_STATE, "LLM_ERROR", f"{text}; the task waits to be resumed"), None
    memory = replace(memory, error=text, failed_request=None)
    return memory.log(_STATE, "LLM_ERROR", text), Event.FATAL_ERROR


def _choose_advice(kind: LlmErrorKind, advice: str) -> str:
    """For a history that is too long a task has a remedy that a conversation lacks."""
    if kind is LlmErrorKind.CONTEXT_TOO_LONG:
        return f"{advice}, or let it reflect more often (reflect_every_n_steps)"
    return advice


# ---- the response ------------------------------------------------------------------------------


def _judge_response(
    memory: AgentMemory, event: LlmEvent.Completed, context: HandlerContext
) -> StateResult:
    response, transcript = event.response, memory.transcript
    if response.usage is None:
        usage = estimate_request_usage(build_request(memory, context.settings), response.message)
    else:
        usage = response.usage
        if context.settings.counts_context:  # else nothing is there to compare it with
            transcript = transcript.with_tokens(usage.total_tokens)
    message = normalize_assistant_message(response.message, transcript)
    calls, reported = extract_confidences(message.tool_calls, memory, context.settings)
    said = 1.0 if response.confidence is None else response.confidence
    memory = replace(
        memory,
        total_usage=memory.total_usage + usage,
        transcript=transcript,
        failed_request=None,
        confidence_score=max(0.0, min(1.0, said, *reported)),
    )
    if calls:
        return _judge_calls(memory, event, message, calls, context)
    return _judge_answer(memory, event, message)


def _judge_calls(
    memory: AgentMemory,
    event: LlmEvent.Completed,
    message: Message,
    calls: tuple[ToolCall, ...],
    context: HandlerContext,
) -> StateResult:
    tail = _CUT_OFF_HINT if event.response.finish_reason == "length" else ""
    banned = dict.fromkeys(c.tool_name for c in calls if c.tool_name in memory.blacklisted_tools)
    if banned:
        memory = memory.log(_STATE, "TOOL_BLACKLISTED", ", ".join(banned))

        def why(call: ToolCall) -> str:
            if call.tool_name in banned:
                return (
                    f"ERROR: the tool {call.tool_name!r} is blacklisted in this task and was not "
                    f"run; use another tool or answer.{tail}"
                )
            return f"ERROR: not run because {', '.join(banned)} is blacklisted; ask again.{tail}"

        return _refuse_calls(memory, message, why), Event.TOOL_BLACKLISTED
    memory, doubt = _check_confidence(memory)
    if doubt:
        text = f"ERROR: not run: {doubt}; reconsider, then ask again or do something else.{tail}"
        return _refuse_calls(memory, message, lambda _: text), Event.LOW_CONFIDENCE
    questions = list_questions(calls, event, context.settings)
    is_one = len(calls) == 1
    memory = replace(
        memory,
        transcript=memory.transcript.append(message),
        current_tool_call=calls[0] if is_one else None,
        pending_tool_calls=() if is_one else calls,
        pending_approval=HumanApprovalRequest(questions) if questions else None,
        executions=(),
    )
    told = shorten("; ".join(f"{call.tool_name} {call.arguments_json}" for call in calls))
    if questions:
        return memory.log(_STATE, "APPROVAL_REQUIRED", told), Event.HUMAN_APPROVAL_REQUIRED
    if is_one:
        return memory.log(_STATE, "LLM_TOOL_CALL", told), Event.LLM_TOOL_CALL
    return memory.log(_STATE, "LLM_PARALLEL_TOOLS", told), Event.LLM_PARALLEL_TOOL_CALLS


def _judge_answer(memory: AgentMemory, event: LlmEvent.Completed, message: Message) -> StateResult:
    config, text = memory.config, message.content
    tail = _CUT_OFF_HINT if event.response.finish_reason == "length" else ""
    length = len(text.strip())
    if event.fault:
        memory = memory.log(_STATE, "ANSWER_INVALID", shorten(event.fault))
        note = describe_form_fault(event.fault, tail)
        return _refuse_answer(memory, message, note), Event.ANSWER_INVALID
    if config.output_schema is None and length < config.min_answer_length:
        memory = memory.log(_STATE, "ANSWER_TOO_SHORT", f"{length} of {config.min_answer_length}")
        note = f"Your answer has {length} characters; at least {config.min_answer_length} are asked"
        return _refuse_answer(memory, message, f"{note} for.{tail}"), Event.ANSWER_TOO_SHORT
    memory, doubt = _check_confidence(memory)
    if doubt:
        note = f"Your answer was not taken: {doubt}. Make sure of it with a tool, or answer again."
        return _refuse_answer(memory, message, note + tail), Event.LOW_CONFIDENCE
    memory = replace(memory, final_answer=text)
    if length:
        memory = replace(memory, transcript=memory.transcript.append(message))
    return memory.log(_STATE, "LLM_FINAL_ANSWER", shorten(text)), Event.LLM_FINAL_ANSWER


def describe_form_fault(fault: str, tail: str = "") -> str:
    """What the model is told of an answer that does not have the form asked for."""
    return (
        f"Your answer does not have the form that was asked for: {fault}.{tail} "
        "Answer again, with one JSON document of the schema and nothing else."
    )


def _check_confidence(memory: AgentMemory) -> tuple[AgentMemory, str]:
    """Why the model's own confidence is not enough; empty if it is, or retries are used up."""
    config, score = memory.config, memory.confidence_score
    if score >= config.confidence_threshold:
        return memory, ""
    words = f"your confidence {score:.2f} is below {config.confidence_threshold:.2f}"
    count = f"{memory.retry_count} of {config.max_retries} retries used"
    if memory.retry_count >= config.max_retries:
        return memory.log(_STATE, "LOW_CONFIDENCE", f"{words}; accepted: {count}"), ""
    memory = memory.log(_STATE, "LOW_CONFIDENCE", f"{words}; {count}")
    return replace(memory, retry_count=memory.retry_count + 1), words


def _refuse_calls(
    memory: AgentMemory, message: Message, why: Callable[[ToolCall], str]
) -> AgentMemory:
    """Refuse the calls of a message: each gets a result that says why it was not run."""
    results = (Message.tool(call, why(call)) for call in message.tool_calls)
    return replace(memory, transcript=memory.transcript.append(message).extend(results))


def _refuse_answer(memory: AgentMemory, message: Message, note: str) -> AgentMemory:
    """Refuse an answer. An empty one is left out, because no provider takes it back."""
    transcript = memory.transcript
    if message.content.strip():
        transcript = transcript.append(message)
    return replace(memory, transcript=transcript.append(Message.note(note)))


PLANNING: Final = Handler(enter_state, handle_event, make_obligation)
