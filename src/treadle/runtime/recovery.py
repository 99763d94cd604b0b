"""Taking up the calls of a round whose process died: what the decision table says, per call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from treadle.answers import Answer, Resolution
from treadle.core.events import ToolCompleted
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    ApprovalBinding,
    EffectClass,
    Outcome,
    Status,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)
from treadle.runtime.calls import cut_middle
from treadle.thread.recovery import (
    CallProgress,
    RecoveryAction,
    decide_recovery,
    get_call_progress,
)

UNCERTAIN_TEXT: Final = (
    "the process that ran this died while it was running: it may have happened, in part or in "
    "full, or not at all. It was not run again. Look before you repeat it."
)
STOPPED_TEXT: Final = (
    "its program stopped this while it was running ({}): it may have happened, in part or in full, "
    "or not at all. It was not run again. Look before you repeat it."
)


class OpenCall(Struct, frozen=True):
    """A call of an interrupted round, and what to do with it.

    `bound` is what a person's yes to it was bound to, if there was one.
    """

    call: ToolCall
    standing: CallProgress
    decision: RecoveryAction
    bound: ApprovalBinding | UnsetType = UNSET


def list_open_calls(
    round_: Sequence[tuple[ToolCall, Status]],
    effect_of: Callable[[str], EffectClass],
    *,
    has_person: bool,
) -> list[OpenCall]:
    """The calls that are not completed, in request order, each with the table's decision."""
    found = []
    for call, status in round_:
        standing = get_call_progress(status)
        decision = decide_recovery(standing, effect_of(call.tool_name), has_person=has_person)
        if decision is not RecoveryAction.KEEP:
            found.append(OpenCall(call, standing, decision, getattr(status, "bound", UNSET)))
    return found


def complete_uncertain_call(
    answer: Answer | None, call: ToolCall, at: str, stopped: str = ""
) -> ToolCompleted:
    """How an uncertain call ends without running: by a person's word, or as a report.

    Args:
        answer: what a person said, if one was asked.
        call: the call.
        at: the time.
        stopped: why its program stopped it; empty if its process died.
    """
    outcome: Outcome
    if answer is not None and answer.resolution is Resolution.RESULT:
        outcome = ToolExecutionOutcome.Success(call.id, cut_middle(answer.text))
    elif answer is not None:
        error = ToolError(ToolErrorKind.FAILED, "the person says that it did not succeed")
        outcome = ToolExecutionOutcome.Error(call.id, error)
    else:
        words = STOPPED_TEXT.format(stopped) if stopped else UNCERTAIN_TEXT
        outcome = ToolExecutionOutcome.Error(call.id, ToolError(ToolErrorKind.UNCERTAIN, words))
    return ToolCompleted(call.id, outcome, at)


def describe_recovery(what: str, calls: list[OpenCall]) -> str:
    """One line for people: what had happened, what it left and what happens to that."""
    parts = [f"{one.call.tool_name} ({one.standing.value}): {one.decision.value}" for one in calls]
    return f"{what} during tool calls: " + "; ".join(parts)
