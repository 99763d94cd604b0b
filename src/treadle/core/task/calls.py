"""The calls of a step: how they stand, what history and the model read of them.

`current_tool_call` and `pending_tool_calls` are calls as they are to be run: with what a person
changed, and without what the model said of its confidence. The transcript has them as the model
wrote them, under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.answer import as_assistant
from treadle.core.approval import told_as_modified
from treadle.core.conversation import Conversation
from treadle.core.messages import Message, ToolCall
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import State
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


def calls_of(memory: AgentMemory, state: str) -> tuple[ToolCall, ...]:
    """The calls of this step, in request order; empty if there are none.

    `Planning` leaves either one call or a batch; a custom state may leave both. Then each state
    that acts has its own, and the others those which stand in `executions`.
    """
    current, batch = memory.current_tool_call, memory.pending_tool_calls
    ran = [status.call_id for status in memory.executions]
    is_batch = bool(ran) and ran == [call.id for call in batch]
    if state == State.PARALLEL_ACTING or (state != State.ACTING and is_batch):
        return batch
    if current is not None:
        return (current,)
    return () if state == State.ACTING else batch


def asked(transcript: Conversation) -> frozenset[str]:
    """The ids of the calls that the model has asked for last and that have no result yet."""
    return frozenset(call.id for call in (transcript[-1].tool_calls if transcript else ()))


def with_fresh_ids(calls: tuple[ToolCall, ...], transcript: Conversation) -> tuple[ToolCall, ...]:
    """The calls of a custom state, under ids of their own; those the model asked for keep theirs.

    Ids stand in idempotency keys, so that one that is used twice would be taken for a repetition.
    """
    ids = [call.id for call in calls]
    if len({*ids}) == len(ids) and asked(transcript).issuperset(ids):
        return calls
    return as_assistant(Message.assistant("", calls), transcript).tool_calls


def opened(memory: AgentMemory, calls: tuple[ToolCall, ...]) -> tuple[Status, ...]:
    """How the calls stand before the first of them runs.

    What a person said of them stays. A call that has run is to run again: a custom graph led here.
    """
    stands = {s.call_id: s for s in memory.executions if not _has_run(s)}
    pending = ToolExecutionStatus.Pending
    return tuple(
        stands.get(call.id) or pending(call.id, call.tool_name, memory.clock) for call in calls
    )


def _has_run(status: Status) -> bool:
    outcome = status.outcome if isinstance(status, _Completed) else None
    if isinstance(outcome, ToolExecutionOutcome.Error):
        return outcome.error.kind is not ToolErrorKind.REJECTED
    return outcome is not None


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
