"""Acting and ParallelActing: run the calls of a step. A failing tool is data, never a crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from treadle.core.actions import ExecuteTools
from treadle.core.approval import Question
from treadle.core.call_decision import are_unstarted
from treadle.core.events import (
    ApprovalRequired,
    CallAssessed,
    ToolCompleted,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.executions import (
    apply_tool_event,
    are_done,
    cancel_open_calls,
    drop_old_approvals,
    has_succeeded,
    make_failed_status,
    replace_execution,
)
from treadle.core.messages import ToolCall
from treadle.core.task.calls import (
    assess_call,
    format_observation,
    list_step_calls,
    make_executions,
    put_calls_in_transcript,
)
from treadle.core.task.events import TimeRanOut
from treadle.core.task.handler import (
    Handler,
    HandlerContext,
    StateResult,
    add_usage,
    shorten,
    stop_out_of_time,
)
from treadle.core.task.memory import AgentMemory, HumanApprovalRequest, ToolResult
from treadle.core.task.table import Event, State
from treadle.core.tools import ToolErrorKind, ToolExecutionStatus

_Completed = ToolExecutionStatus.Completed


def _enter_state(memory: AgentMemory, context: HandlerContext, state: State) -> StateResult:
    calls = list_step_calls(memory, state)
    if not calls:
        memory = replace(memory, error=f"{state} was entered without a call to run")
        return memory.log(state, "FATAL_ERROR", memory.error or ""), Event.FATAL_ERROR
    # Planning has looked already, but a custom graph may have a Planning of its own.
    memory = _refuse_blacklisted_calls(_begin_calls(memory, calls, state))
    questions = tuple(_list_new_questions(memory, context, state))
    if questions:
        return _ask_person(memory, questions, state)
    if state is State.PARALLEL_ACTING:
        memory = memory.log(state, "PARALLEL_ACTING_START", f"{len(calls)} calls")
    open_calls = _list_open_calls(memory, state)
    if not open_calls:
        return _finish_calls(memory, state)
    for call in open_calls:
        memory = memory.log(
            state, "TOOL_EXECUTE", shorten(f"{call.tool_name} {call.arguments_json}")
        )
    return memory, ExecuteTools(open_calls)


def _begin_calls(memory: AgentMemory, calls: tuple[ToolCall, ...], state: State) -> AgentMemory:
    """The calls as the transcript's last wish, none of them run yet."""
    begun, named = put_calls_in_transcript(memory, calls, run_again=True)
    begun = replace(begun, executions=make_executions(memory, calls, named))
    if named == calls:
        return begun
    if state is State.ACTING:
        return replace(begun, current_tool_call=named[0])
    return replace(begun, pending_tool_calls=named)


def _refuse_blacklisted_calls(memory: AgentMemory) -> AgentMemory:
    for status in memory.executions:
        is_banned = status.tool_name in memory.blacklisted_tools
        if is_banned and not isinstance(status, _Completed):
            why = f"the tool {status.tool_name!r} is blacklisted in this task"
            new = make_failed_status(status, ToolErrorKind.REJECTED, why, memory.clock)
            memory = replace(memory, executions=replace_execution(memory.executions, new))
    return memory


def _list_new_questions(
    memory: AgentMemory, context: HandlerContext, state: State
) -> Iterator[Question]:
    """What nobody was asked about yet. Planning asks by a risk at least as high as this one.

    Whether a grant of kinds covers a call is seen in its scope, which only Planning knows, and
    whoever lets the call begin.
    """
    for call, status in zip(list_step_calls(memory, state), memory.executions, strict=True):
        if isinstance(status, ToolExecutionStatus.Pending) and status.approved is not True:
            question = context.settings.make_question(call, None)
            if question is not None and not context.settings.may_be_granted(question):
                yield question


def _list_open_calls(memory: AgentMemory, state: State) -> tuple[ToolCall, ...]:
    return tuple(
        call
        for call, status in zip(list_step_calls(memory, state), memory.executions, strict=True)
        if not isinstance(status, _Completed)
    )


def _handle_event(
    memory: AgentMemory, event: Any, context: HandlerContext, state: State
) -> StateResult:
    if isinstance(event, TimeRanOut):
        executions = cancel_open_calls(memory.executions, "the time limit passed", memory.clock)
        return stop_out_of_time(replace(memory, executions=executions), state), Event.FATAL_ERROR
    if isinstance(event, CallAssessed):
        return memory, assess_call(memory, event, context.settings, state, ())
    if isinstance(event, ApprovalRequired):
        return _require_approval(memory, event, state)
    fits = isinstance(event, ToolStarted | ToolUncertain | ToolCompleted)
    changed = apply_tool_event(memory.executions, event) if fits else None
    if changed is None:
        return memory, None
    memory = replace(memory, executions=changed)
    if isinstance(event, ToolCompleted):
        memory = add_usage(memory, event.usage)
    return _finish_calls(memory, state) if are_done(changed) else (memory, None)


def _require_approval(memory: AgentMemory, event: ApprovalRequired, state: State) -> StateResult:
    """Ask a person after all: what the calls stand on has changed since Planning."""
    if not are_unstarted(memory.executions, event.questions):
        return memory, None
    executions = drop_old_approvals(memory.executions, event.questions)
    return _ask_person(replace(memory, executions=executions), event.questions, state)


def _ask_person(memory: AgentMemory, questions: tuple[Question, ...], state: State) -> StateResult:
    memory = replace(memory, pending_approval=HumanApprovalRequest(questions))
    told = "; ".join(f"{one.call.tool_name} {one.call.arguments_json}" for one in questions)
    return memory.log(state, "APPROVAL_REQUIRED", shorten(told)), Event.HUMAN_APPROVAL_REQUIRED


def _finish_calls(memory: AgentMemory, state: State) -> StateResult:
    """All calls have ended."""
    results = tuple(
        ToolResult(call, status.outcome)
        for call, status in zip(list_step_calls(memory, state), memory.executions, strict=True)
        if isinstance(status, _Completed)
    )
    succeeded = [*map(has_succeeded, memory.executions)]
    for result, is_good in zip(results, succeeded, strict=True):
        memory = memory.log(
            state,
            "TOOL_SUCCESS" if is_good else "TOOL_FAILURE",
            shorten(f"{result.call.tool_name}: {format_observation(result.outcome)}"),
        )
    if state is State.PARALLEL_ACTING:
        memory = replace(memory, parallel_results=results)
        memory = memory.log(
            state, "PARALLEL_ACTING_DONE", f"{sum(succeeded)} of {len(results)} succeeded"
        )
    else:
        memory = replace(memory, last_observation=format_observation(results[0].outcome))
    return memory, Event.TOOL_SUCCESS if any(succeeded) else Event.TOOL_FAILURE


def _make_handler(state: State) -> Handler:
    return Handler(
        lambda memory, context: _enter_state(memory, context, state),
        lambda memory, event, context: _handle_event(memory, event, context, state),
        lambda memory, _: ExecuteTools(_list_open_calls(memory, state)),
    )


ACTING: Final = _make_handler(State.ACTING)
PARALLEL_ACTING: Final = _make_handler(State.PARALLEL_ACTING)
