"""The calls of a step: how they stand, what history and the model read of them.

`current_tool_call` and `pending_tool_calls` are calls as they are to be run: with what a person
changed, and without what the model said of its confidence. The transcript has them as the model
wrote them, under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.approval import told_as_modified
from treadle.core.conversation import Conversation
from treadle.core.messages import Message, ToolCall
from treadle.core.task.memory import AgentMemory
from treadle.core.tools import (
    Outcome,
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

_Completed = ToolExecutionStatus.Completed
_Success = ToolExecutionOutcome.Success


def calls_of(memory: AgentMemory) -> tuple[ToolCall, ...]:
    """The calls of this step, in request order; empty if there are none."""
    if memory.current_tool_call is not None:
        return (memory.current_tool_call,)
    return memory.pending_tool_calls


def opened(memory: AgentMemory, calls: tuple[ToolCall, ...]) -> tuple[Status, ...]:
    """How the calls stand before the first of them runs; what a person decided stays decided."""
    if [status.call_id for status in memory.executions] == [call.id for call in calls]:
        return memory.executions
    pending = ToolExecutionStatus.Pending
    return tuple(pending(call.id, call.tool_name, memory.clock) for call in calls)


def updated(executions: Iterable[Status], new: Status) -> tuple[Status, ...]:
    """The executions, with `new` in the place of the one of its call."""
    return tuple(new if status.call_id == new.call_id else status for status in executions)


def completed(status: Status, outcome: Outcome, at: str) -> _Completed:
    """The call has ended."""
    started = status.started_at if isinstance(status, ToolExecutionStatus.Running) else at
    return _Completed(
        status.call_id, status.tool_name, started, at, outcome, modified=status.modified
    )


def failed(status: Status, kind: ToolErrorKind, message: str, at: str) -> _Completed:
    """The call has ended badly."""
    error = ToolExecutionOutcome.Error(status.call_id, ToolError(kind, message))
    return completed(status, error, at)


def observation_of(outcome: Outcome) -> str:
    """What history says of a call."""
    if isinstance(outcome, _Success):
        return f"SUCCESS: {outcome.output}"
    error = outcome.error
    if error.kind is ToolErrorKind.REJECTED:
        return f"REJECTED: {error.message}"
    return f"ERROR: {error.text}"


def answered(transcript: Conversation, executions: Iterable[Status]) -> Conversation:
    """The transcript, with a result for each call of its last round that has none yet.

    Results stand in request order, so that those which are missing are the last ones.
    """
    count = 0
    while count < len(transcript) and transcript[-1 - count].role == "tool":
        count += 1
    calls = transcript[-1 - count].tool_calls if count < len(transcript) else ()
    if count >= len(calls):
        return transcript
    status_of = {status.call_id: status for status in executions}
    for call in calls[count:]:
        transcript = transcript.append(Message.tool(call, _told(status_of.get(call.id))))
    return transcript


def with_answers(memory: AgentMemory) -> AgentMemory:
    """A memory that is fit for a request: every call in its transcript has its result.

    That is so anyway in the default graph; a custom one may lead past `Observing`.
    """
    transcript = answered(memory.transcript, memory.executions)
    return memory if transcript is memory.transcript else replace(memory, transcript=transcript)


def _told(status: Status | None) -> str:
    """What the model reads of a call."""
    if status is None or isinstance(status, ToolExecutionStatus.Pending):
        return f"ERROR: {ToolError(ToolErrorKind.CANCELLED, 'it was not run').text}"
    if isinstance(status, ToolExecutionStatus.Running):
        why = "it had started and may have had effects"
        return f"ERROR: {ToolError(ToolErrorKind.CANCELLED, why).text}"
    outcome = status.outcome
    text = outcome.output if isinstance(outcome, _Success) else f"ERROR: {outcome.error.text}"
    return text if status.modified is UNSET else told_as_modified(str(status.modified), text)
