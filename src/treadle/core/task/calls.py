"""The calls of a step: how they stand, what history and the model read of them.

`current_tool_call` and `pending_tool_calls` are calls as they are to be run: with what a person
changed, and without what the model said of its confidence. The transcript has them as the model
wrote them, under the same ids.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from treadle.core.actions import AgentAction
from treadle.core.approval import Question
from treadle.core.assistant_message import normalize_assistant_message
from treadle.core.call_decision import decide_call
from treadle.core.config import AgentConfig
from treadle.core.events import CallAssessed
from treadle.core.executions import append_results, list_pending_calls, make_pending_status
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import StateCompleted
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import Event, State
from treadle.core.tools import (
    Outcome,
    Status,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
)

_Completed = ToolExecutionStatus.Completed
_Success = ToolExecutionOutcome.Success
_APPROVAL_EVENTS: Final = (
    Event.HUMAN_APPROVED,
    Event.HUMAN_MODIFIED,
    Event.HUMAN_APPROVED_PARALLEL,
)


def list_step_calls(memory: AgentMemory, state: str) -> tuple[ToolCall, ...]:
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


def assess_call(
    memory: AgentMemory,
    event: CallAssessed,
    config: AgentConfig,
    state: str,
    questions: tuple[Question, ...],
) -> AgentAction | None:
    """What becomes of a call of this step as things stand; `None` if there is no such call."""
    round_ = tuple(zip(list_step_calls(memory, state), memory.executions, strict=True))
    decision = decide_call(config, round_, questions, event)
    return None if decision is None else decision.make_action(event.call_id)


def put_calls_in_transcript(
    memory: AgentMemory, calls: tuple[ToolCall, ...], *, run_again: bool = False
) -> tuple[AgentMemory, tuple[ToolCall, ...]]:
    """The calls, and a transcript that ends with them as a model's wish.

    It does so already unless a custom state made the calls, or led back to where they ran. Then
    they get ids of their own: ids stand in idempotency keys, so that one that is used twice would
    be taken for a repetition.

    Args:
        memory: what is known so far; its open calls are answered before new ones are asked for.
        calls: what is to be there.
        run_again: whether what has run is to run again.
    """
    ids = [call.id for call in calls]
    is_fresh = len({*ids}) == len(ids) and not (run_again and any(map(_has_run, memory.executions)))
    if is_fresh and {call.id for call in list_pending_calls(memory.transcript)}.issuperset(ids):
        return memory, calls
    transcript = append_results(memory.transcript, memory.executions)
    message = normalize_assistant_message(Message.assistant("", calls), transcript)
    return replace(memory, transcript=transcript.append(message)), message.tool_calls


def make_executions(
    memory: AgentMemory, calls: tuple[ToolCall, ...], renamed: tuple[ToolCall, ...] | None = None
) -> tuple[Status, ...]:
    """How the calls stand before the first of them runs; `renamed` are the same under new ids.

    What a person said of a call stays: a yes for one run, a no for ever. A call that has run is
    to run again: a custom graph led here.
    """
    stands = {s.call_id: s for s in memory.executions if not _has_run(s)}
    executions: list[Status] = []
    for call, named in zip(calls, renamed or calls, strict=True):
        status = stands.get(call.id)
        if isinstance(status, _Completed):
            outcome = replace(status.outcome, call_id=named.id)
            executions.append(replace(status, call_id=named.id, outcome=outcome))
        else:
            status = stands.pop(call.id, None) or make_pending_status(named, memory.clock)
            executions.append(replace(status, call_id=named.id))
    return tuple(executions)


def reconcile_approvals(
    before: AgentMemory, after: AgentMemory, event: StateCompleted
) -> AgentMemory:
    """What a custom state did to calls, with what of a person's word is left of them.

    A yes is for the call as it was: one that the state changed needs another. A custom state in
    the place of `WaitingForHuman` speaks for a person.
    """
    after = _separate_duplicate_ids(after)
    old, new = _calls_by_id(before), _calls_by_id(after)
    executions = tuple(
        replace(status, approved=UNSET, modified=UNSET, bound=UNSET)
        if isinstance(status, ToolExecutionStatus.Pending)
        and old.get(status.call_id) != new.get(status.call_id)
        else status
        for status in after.executions
    )
    after = replace(after, executions=executions)
    if event.state != State.WAITING_FOR_HUMAN or event.event not in _APPROVAL_EVENTS:
        return after
    executions = tuple(
        replace(status, approved=True)
        if isinstance(status, ToolExecutionStatus.Pending)
        else status
        for status in make_executions(after, list_step_calls(after, event.state))
    )
    return replace(after, executions=executions, pending_approval=None)


def _separate_duplicate_ids(memory: AgentMemory) -> AgentMemory:
    """Of two calls under one id, of which a person may decide about one, the other has none."""
    current, batch = memory.current_tool_call, memory.pending_tool_calls
    if current is None or all(call.id != current.id or call == current for call in batch):
        return memory
    named = (call if call.id != current.id else replace(call, id="") for call in batch)
    return replace(memory, pending_tool_calls=tuple(named))


def _calls_by_id(memory: AgentMemory) -> dict[str, ToolCall]:
    current = memory.current_tool_call
    calls = memory.pending_tool_calls if current is None else (*memory.pending_tool_calls, current)
    return {call.id: call for call in calls}


def _has_run(status: Status) -> bool:
    outcome = status.outcome if isinstance(status, _Completed) else None
    if isinstance(outcome, ToolExecutionOutcome.Error):
        return outcome.error.kind is not ToolErrorKind.REJECTED
    return outcome is not None


def format_observation(outcome: Outcome) -> str:
    """What history says of a call."""
    if isinstance(outcome, _Success):
        return f"SUCCESS: {outcome.output}"
    error = outcome.error
    if error.kind is ToolErrorKind.REJECTED:
        return f"REJECTED: {error.message}"
    return f"ERROR: {error.text}"


def append_missing_results(memory: AgentMemory) -> AgentMemory:
    """A memory that is fit for a request: every call in its transcript has its result.

    That is so anyway in the default graph; a custom one may lead past `Observing`.
    """
    transcript = append_results(memory.transcript, memory.executions)
    return memory if transcript is memory.transcript else replace(memory, transcript=transcript)
