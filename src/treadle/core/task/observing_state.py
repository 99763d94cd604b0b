"""Observing: what the calls of a step brought goes into history and transcript, then the hook."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from treadle.core.actions import AgentAction, RunPostToolsHook
from treadle.core.events import PostToolsHookCompleted
from treadle.core.executions import (
    append_results,
    describe_open_call,
    has_successful_mutation,
    list_completed_tools,
    make_completed_status,
    make_failed_status,
    make_pending_status,
)
from treadle.core.messages import ToolCall
from treadle.core.task.calls import format_observation, list_step_calls, put_calls_in_transcript
from treadle.core.task.events import TimeRanOut
from treadle.core.task.handler import Handler, HandlerContext, StateResult, add_usage, shorten
from treadle.core.task.memory import AgentMemory, HistoryEntry
from treadle.core.task.table import Event, State
from treadle.core.tools import (
    Outcome,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

_STATE: Final = State.OBSERVING
_Completed = ToolExecutionStatus.Completed
_Success = ToolExecutionOutcome.Success


def enter_state(memory: AgentMemory, context: HandlerContext) -> StateResult:
    """Commit the calls; `executions` stay until the hook has ended, which is told of them."""
    calls = list_step_calls(memory, _STATE)
    observed = memory.last_observation if calls == (memory.current_tool_call,) else None
    ended = tuple(_make_ended_status(call, memory, observed) for call in calls)
    if calls:
        memory, calls = put_calls_in_transcript(memory, calls)
    ended = tuple(
        replace(status, call_id=call.id) for call, status in zip(calls, ended, strict=True)
    )
    history = memory.history
    for call, status in zip(calls, ended, strict=True):
        succeeded = isinstance(status.outcome, _Success)
        entry = HistoryEntry(memory.step, call, format_observation(status.outcome), succeeded)
        history = history.append(entry)
    if calls:
        name = "HISTORY_COMMIT" if len(calls) == 1 else "HISTORY_COMMIT_PARALLEL"
        memory = memory.log(_STATE, name, shorten(", ".join(call.tool_name for call in calls)))
    memory = replace(
        memory,
        history=history,
        transcript=append_results(memory.transcript, ended),
        current_tool_call=None,
        pending_tool_calls=(),
        parallel_results=(),
        last_observation=None,
        executions=ended,
    )
    if has_successful_mutation(ended, context.settings):
        return memory, make_obligation(memory, context)
    return _choose_next_event(memory, context)


def handle_event(memory: AgentMemory, event: Any, context: HandlerContext) -> StateResult:
    """The hook has ended, or time has: the next planning step will see to that."""
    if isinstance(event, PostToolsHookCompleted):
        return _choose_next_event(add_usage(memory, event.usage), context)
    return _choose_next_event(memory, context) if isinstance(event, TimeRanOut) else (memory, None)


def make_obligation(memory: AgentMemory, _: HandlerContext) -> AgentAction:
    """The hook."""
    return RunPostToolsHook(list_completed_tools(memory.executions))


def _choose_next_event(memory: AgentMemory, context: HandlerContext) -> StateResult:
    memory = replace(memory, executions=())
    interval = memory.config.reflect_every_n_steps
    if interval > 0 and memory.step % interval == 0:
        why = f"step {memory.step} of every {interval}"
    elif context.settings.is_near_limit(memory.transcript):
        why = f"the model has used {memory.transcript.tokens} tokens of its context"
    else:
        return memory, Event.CONTINUE
    return memory.log(_STATE, "NEEDS_REFLECTION", why), Event.NEEDS_REFLECTION


def _make_ended_status(call: ToolCall, memory: AgentMemory, observation: str | None) -> _Completed:
    """How a call ended: as `executions` say, or as a custom state says in its observation."""
    status = next((one for one in memory.executions if one.call_id == call.id), None)
    if isinstance(status, _Completed):
        if observation in (None, format_observation(status.outcome)):
            return status
        status = None
    status = status or make_pending_status(call, memory.clock)
    if observation is None:
        return make_failed_status(
            status, ToolErrorKind.CANCELLED, describe_open_call(status), memory.clock
        )
    return make_completed_status(status, _parse_observation(call, observation), memory.clock)


def _parse_observation(call: ToolCall, observation: str) -> Outcome:
    """What a custom state observed; success is what begins with `SUCCESS:`, as ever."""
    kind, colon, text = observation.partition(":")
    if kind == "SUCCESS" and colon:
        return _Success(call.id, text.removeprefix(" "))
    if kind == "REJECTED" and colon:
        error = ToolError(ToolErrorKind.REJECTED, text.strip())
    else:
        error = ToolError(ToolErrorKind.FAILED, observation.removeprefix("ERROR:").strip())
    return ToolExecutionOutcome.Error(call.id, error)


OBSERVING: Final = Handler(enter_state, handle_event, make_obligation)
