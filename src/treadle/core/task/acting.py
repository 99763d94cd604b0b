"""Acting and ParallelActing: run the calls of a step. A failing tool is data, never a crash."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from treadle.core.actions import ExecuteTools
from treadle.core.events import ToolCompleted, ToolStarted, ToolUncertain
from treadle.core.messages import ToolCall
from treadle.core.task.calls import calls_of, completed, failed, observation_of, opened, updated
from treadle.core.task.events import TimeRanOut
from treadle.core.task.handler import Handler, Result, out_of_time, short, with_usage
from treadle.core.task.memory import AgentMemory, ToolResult
from treadle.core.task.table import Event, State
from treadle.core.tools import Status, ToolErrorKind, ToolExecutionOutcome, ToolExecutionStatus

_Running = ToolExecutionStatus.Running
_Completed = ToolExecutionStatus.Completed


def _enter(memory: AgentMemory, state: State) -> Result:
    calls = calls_of(memory, state)
    if not calls:
        memory = replace(memory, error=f"{state} was entered without a call to run")
        return memory.log(state, "FATAL_ERROR", memory.error or ""), Event.FATAL_ERROR
    memory = replace(memory, executions=opened(memory, calls))
    for status in memory.executions:
        # Planning has looked already, but a custom graph may have a Planning of its own.
        is_banned = status.tool_name in memory.blacklisted_tools
        if is_banned and not isinstance(status, _Completed):
            why = f"the tool {status.tool_name!r} is blacklisted in this task"
            new = failed(status, ToolErrorKind.REJECTED, why, memory.clock)
            memory = replace(memory, executions=updated(memory.executions, new))
    if state is State.PARALLEL_ACTING:
        memory = memory.log(state, "PARALLEL_ACTING_START", f"{len(calls)} calls")
    open_calls = _open(memory, state)
    if not open_calls:
        return _finish(memory, state)
    for call in open_calls:
        memory = memory.log(state, "TOOL_EXECUTE", short(f"{call.tool_name} {call.arguments_json}"))
    return memory, ExecuteTools(open_calls)


def _open(memory: AgentMemory, state: State) -> tuple[ToolCall, ...]:
    return tuple(
        call
        for call, status in zip(calls_of(memory, state), memory.executions, strict=True)
        if not isinstance(status, _Completed)
    )


def _on(memory: AgentMemory, event: Any, state: State) -> Result:
    if isinstance(event, TimeRanOut):
        return _run_out_of_time(memory, state), Event.FATAL_ERROR
    if not isinstance(event, ToolStarted | ToolUncertain | ToolCompleted):
        return memory, None
    status = next((s for s in memory.executions if s.call_id == event.call_id), None)
    if status is None or isinstance(status, _Completed):
        return memory, None
    new: Status
    if isinstance(event, ToolStarted):
        if isinstance(status, _Running) and not status.uncertain:
            return memory, None
        new = _Running(event.call_id, status.tool_name, event.at, modified=status.modified)
    elif isinstance(event, ToolUncertain):
        if not isinstance(status, _Running):
            return memory, None
        new = replace(status, uncertain=True)
    else:
        new = completed(status, event.outcome, event.at)
        memory = with_usage(memory, event.usage)
    memory = replace(memory, executions=updated(memory.executions, new))
    if all(isinstance(status, _Completed) for status in memory.executions):
        return _finish(memory, state)
    return memory, None


def _finish(memory: AgentMemory, state: State) -> Result:
    """All calls have ended."""
    results = tuple(
        ToolResult(call, status.outcome)
        for call, status in zip(calls_of(memory, state), memory.executions, strict=True)
        if isinstance(status, _Completed)
    )
    for result in results:
        has_succeeded = _has_succeeded(result)
        memory = memory.log(
            state,
            "TOOL_SUCCESS" if has_succeeded else "TOOL_FAILURE",
            short(f"{result.call.tool_name}: {observation_of(result.outcome)}"),
        )
    if state is State.PARALLEL_ACTING:
        succeeded = sum(map(_has_succeeded, results))
        memory = replace(memory, parallel_results=results)
        memory = memory.log(
            state, "PARALLEL_ACTING_DONE", f"{succeeded} of {len(results)} succeeded"
        )
    else:
        memory = replace(memory, last_observation=observation_of(results[0].outcome))
    return memory, Event.TOOL_SUCCESS if any(map(_has_succeeded, results)) else Event.TOOL_FAILURE


def _has_succeeded(result: ToolResult) -> bool:
    return isinstance(result.outcome, ToolExecutionOutcome.Success)


def _run_out_of_time(memory: AgentMemory, state: State) -> AgentMemory:
    text = out_of_time(memory)
    executions = tuple(_cut_off(status, memory.clock) for status in memory.executions)
    memory = replace(memory, executions=executions, error=text, exceeded="time")
    return memory.log(state, "BUDGET_EXCEEDED", text)


def _cut_off(status: Status, at: str) -> Status:
    if isinstance(status, _Completed):
        return status
    started = isinstance(status, _Running)
    tail = "it had started and may have had effects" if started else "it had not started"
    return failed(status, ToolErrorKind.CANCELLED, f"the time limit passed; {tail}", at)


def _handler(state: State) -> Handler:
    return Handler(
        lambda memory, _: _enter(memory, state),
        lambda memory, event, _: _on(memory, event, state),
        lambda memory, _: ExecuteTools(_open(memory, state)),
    )


ACTING: Final = _handler(State.ACTING)
PARALLEL_ACTING: Final = _handler(State.PARALLEL_ACTING)
