"""Observing: what the calls of a step brought goes into history and transcript, then the hook."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from treadle.core.actions import AgentAction, RunPostToolsHook
from treadle.core.events import PostToolsHookCompleted
from treadle.core.executions import (
    answered,
    completed,
    failed,
    have_changed,
    pending,
    told_to_hook,
    unfinished,
)
from treadle.core.messages import ToolCall
from treadle.core.task.calls import as_asked, calls_of, observation_of
from treadle.core.task.events import TimeRanOut
from treadle.core.task.handler import HandlerContext, Result, short, with_usage
from treadle.core.task.memory import AgentMemory, HistoryEntry
from treadle.core.task.table import Event, State
from treadle.core.tools import (
    Outcome,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

_HERE: Final = State.OBSERVING
_Completed = ToolExecutionStatus.Completed
_Success = ToolExecutionOutcome.Success


def enter(memory: AgentMemory, context: HandlerContext) -> Result:
    """Commit the calls; `executions` stay until the hook has ended, which is told of them."""
    calls = calls_of(memory, _HERE)
    observed = memory.last_observation if calls == (memory.current_tool_call,) else None
    ended = tuple(_ended(call, memory, observed) for call in calls)
    if calls:
        memory, calls = as_asked(memory, calls)
    ended = tuple(
        replace(status, call_id=call.id) for call, status in zip(calls, ended, strict=True)
    )
    history = memory.history
    for call, status in zip(calls, ended, strict=True):
        succeeded = isinstance(status.outcome, _Success)
        entry = HistoryEntry(memory.step, call, observation_of(status.outcome), succeeded)
        history = history.append(entry)
    if calls:
        name = "HISTORY_COMMIT" if len(calls) == 1 else "HISTORY_COMMIT_PARALLEL"
        memory = memory.log(_HERE, name, short(", ".join(call.tool_name for call in calls)))
    memory = replace(
        memory,
        history=history,
        transcript=answered(memory.transcript, ended),
        current_tool_call=None,
        pending_tool_calls=(),
        parallel_results=(),
        last_observation=None,
        executions=ended,
    )
    if have_changed(ended, context.settings):
        return memory, owed(memory, context)
    return _go_on(memory, context)


def on(memory: AgentMemory, event: Any, context: HandlerContext) -> Result:
    """The hook has ended, or time has: the next planning step will see to that."""
    if isinstance(event, PostToolsHookCompleted):
        return _go_on(with_usage(memory, event.usage), context)
    return _go_on(memory, context) if isinstance(event, TimeRanOut) else (memory, None)


def owed(memory: AgentMemory, _: HandlerContext) -> AgentAction:
    """The hook."""
    return RunPostToolsHook(told_to_hook(memory.executions))


def _go_on(memory: AgentMemory, context: HandlerContext) -> Result:
    memory = replace(memory, executions=())
    interval = memory.config.reflect_every_n_steps
    if interval > 0 and memory.step % interval == 0:
        why = f"step {memory.step} of every {interval}"
    elif context.settings.is_near_limit(memory.transcript):
        why = f"the model has used {memory.transcript.tokens} tokens of its context"
    else:
        return memory, Event.CONTINUE
    return memory.log(_HERE, "NEEDS_REFLECTION", why), Event.NEEDS_REFLECTION


def _ended(call: ToolCall, memory: AgentMemory, observation: str | None) -> _Completed:
    """How a call ended: as `executions` say, or as a custom state says in its observation."""
    status = next((one for one in memory.executions if one.call_id == call.id), None)
    if isinstance(status, _Completed):
        if observation in (None, observation_of(status.outcome)):
            return status
        status = None
    status = status or pending(call, memory.clock)
    if observation is None:
        return failed(status, ToolErrorKind.CANCELLED, unfinished(status), memory.clock)
    return completed(status, _outcome(call, observation), memory.clock)


def _outcome(call: ToolCall, observation: str) -> Outcome:
    """What a custom state observed; success is what begins with `SUCCESS:`, as ever."""
    kind, colon, text = observation.partition(":")
    if kind == "SUCCESS" and colon:
        return _Success(call.id, text.removeprefix(" "))
    if kind == "REJECTED" and colon:
        error = ToolError(ToolErrorKind.REJECTED, text.strip())
    else:
        error = ToolError(ToolErrorKind.FAILED, observation.removeprefix("ERROR:").strip())
    return ToolExecutionOutcome.Error(call.id, error)
