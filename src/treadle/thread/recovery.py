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


class Decision(Enum):
    """What recovery does with the call."""

    KEEP = "keep the result"
    RUN = "run it: it never started"
    RUN_AGAIN = "run it again: repeating is safe"
    ASK = "record the doubt and ask: run again, count as failed, or enter the result"
    REPORT = "record the doubt and tell the model that it may or may not have happened"


class Case(Struct, frozen=True):
    """One row."""

    standing: CallProgress
    effect: EffectClass | None
    has_person: bool | None
    decision: Decision


# fmt: off
RECOVERY_CASES: Final[tuple[Case, ...]] = (
    Case(CallProgress.COMPLETED,   None,                   None,  Decision.KEEP),
    Case(CallProgress.NOT_STARTED, None,                   None,  Decision.RUN),
    Case(CallProgress.STARTED,     EffectClass.READ,       None,  Decision.RUN_AGAIN),
    Case(CallProgress.STARTED,     EffectClass.IDEMPOTENT, None,  Decision.RUN_AGAIN),
    Case(CallProgress.STARTED,     EffectClass.MUTATE,     True,  Decision.ASK),
    Case(CallProgress.STARTED,     EffectClass.MUTATE,     False, Decision.REPORT),
    Case(CallProgress.UNCERTAIN,   None,                   True,  Decision.ASK),
    Case(CallProgress.UNCERTAIN,   None,                   False, Decision.REPORT),
)
# fmt: on


def decide(standing: CallProgress, effect: EffectClass, *, has_person: bool) -> Decision:
    """The decision of the one row that fits."""
    for case in RECOVERY_CASES:
        if (
            case.standing is standing
            and case.effect in (None, effect)
            and case.has_person in (None, has_person)
        ):
            return case.decision
    raise AssertionError(f"no recovery case for {standing}, {effect}, {has_person}")


def standing_of(status: Status) -> CallProgress:
    """Where a folded call stood."""
    if isinstance(status, ToolExecutionStatus.Completed):
        return CallProgress.COMPLETED
    if isinstance(status, ToolExecutionStatus.Pending):
        return CallProgress.NOT_STARTED
    return CallProgress.UNCERTAIN if status.uncertain else CallProgress.STARTED
