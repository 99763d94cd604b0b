"""What to do with a tool call when its process has died: a decision table.

Columns (facts) and what can make them so:

- `standing`: where the call stood on disk. `NOT_STARTED`: no `tool_started` was durable, and since
  intent comes before effect, nothing ran. `STARTED`: it was; the tool may have run, in part or in
  full. `UNCERTAIN`: an earlier recovery recorded the doubt and died before it was resolved.
  `COMPLETED`: the result is on disk.
- `effect`: what running the tool again would do.
- `has_person`: whether somebody is there to be asked.

A cell of `None` means "whatever it is". Exactly one row fits each combination; the tests
enumerate them all.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from treadle.core.tools import EffectClass, Status, ToolExecutionStatus


class CallProgress(Enum):
    """Where a call stood on disk when the process died."""

    NOT_STARTED = "not started"
    STARTED = "started"
    UNCERTAIN = "uncertain"
    COMPLETED = "completed"


class RecoveryAction(Enum):
    """What recovery does with the call."""

    KEEP = "keep the result"
    RUN = "run it: it never started"
    RUN_AGAIN = "run it again: repeating is safe"
    ASK = "record the doubt and ask: run again, count as failed, or enter the result"
    REPORT = "record the doubt and tell the model that it may or may not have happened"


class RecoveryCase(Struct, frozen=True):
    """One row."""

    standing: CallProgress
    effect: EffectClass | None
    has_person: bool | None
    decision: RecoveryAction


# fmt: off
RECOVERY_CASES: Final[tuple[RecoveryCase, ...]] = (
    RecoveryCase(CallProgress.COMPLETED,   None,                   None,  RecoveryAction.KEEP),
    RecoveryCase(CallProgress.NOT_STARTED, None,                   None,  RecoveryAction.RUN),
    RecoveryCase(CallProgress.STARTED,     EffectClass.READ,       None,  RecoveryAction.RUN_AGAIN),
    RecoveryCase(CallProgress.STARTED,     EffectClass.IDEMPOTENT, None,  RecoveryAction.RUN_AGAIN),
    RecoveryCase(CallProgress.STARTED,     EffectClass.MUTATE,     True,  RecoveryAction.ASK),
    RecoveryCase(CallProgress.STARTED,     EffectClass.MUTATE,     False, RecoveryAction.REPORT),
    RecoveryCase(CallProgress.UNCERTAIN,   None,                   True,  RecoveryAction.ASK),
    RecoveryCase(CallProgress.UNCERTAIN,   None,                   False, RecoveryAction.REPORT),
)
# fmt: on


def decide_recovery(
    progress: CallProgress, effect: EffectClass, *, has_person: bool
) -> RecoveryAction:
    """The decision of the one row that fits."""
    for case in RECOVERY_CASES:
        if (
            case.standing is progress
            and case.effect in (None, effect)
            and case.has_person in (None, has_person)
        ):
            return case.decision
    raise AssertionError(f"no recovery case for {progress}, {effect}, {has_person}")


def get_call_progress(status: Status) -> CallProgress:
    """Where a folded call stood."""
    if isinstance(status, ToolExecutionStatus.Completed):
        return CallProgress.COMPLETED
    if isinstance(status, ToolExecutionStatus.Pending):
        return CallProgress.NOT_STARTED
    return CallProgress.UNCERTAIN if status.uncertain else CallProgress.STARTED
