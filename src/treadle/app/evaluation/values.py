"""What an evaluation is of, what it may use, and what came of each of its cases: values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from msgspec import Struct, to_builtins

from treadle.core.llm import Usage

CHECK_S_MAX: Final = 600.0
"""Seconds that a check may take, where nobody says how many."""
TAG: Final = "eval:"
"""How the tag of the threads of an evaluation begins; its id follows."""


class EvaluationRequest(Struct, frozen=True, omit_defaults=True):
    """What is to be tried, on which turns, and what counts as good.

    `threads` are turns as `ID:TURN`, or ids for all turns that a thread itself has had. Of `model`,
    `instructions` (what a system prompt says in place of the AGENTS.md files) and `left_out` (the
    names of tools that are not offered) what is not given is as it was recorded. A run passes if
    each of `checks` (commands for the shell) ends with 0 within `check_s_max` seconds, `function`
    (`FILE.py:NAME`) says so, and the model `judge` does by `rubric`; with none of them, if it came
    to its end. `folder` is where the repository of all threads is now, if not where it was.
    """

    threads: tuple[str, ...]
    model: str | None = None
    instructions: str | None = None
    left_out: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    check_s_max: float = CHECK_S_MAX
    function: str = ""
    judge: str = ""
    rubric: str = ""
    folder: str | None = None


class EvaluationLimits(Struct, frozen=True, omit_defaults=True):
    """What all cases together may use, judges too; `None` is no limit. So many run side by side."""

    max_tokens: int | None = None
    max_cost: Decimal | None = None
    jobs: int = 1


class CaseVerdict(Enum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_SCORED = "not scored"
    """It ran, and nobody could say how good that was: a judge spoke nonsense, a function raised."""
    NOT_RUN = "not run"
    """It could not be run as it was recorded, or not to its end; it is tried again on resuming."""


class Divergence(Struct, frozen=True):
    """The first call in which a run and the recorded turn differ, counted from 1, as lines.

    Where one of them has no further call, its line is empty.
    """

    call: int
    recorded: str = ""
    now: str = ""


class CaseResult(Struct, frozen=True, omit_defaults=True):
    """What came of one turn of a recorded thread.

    `case` is `ID:TURN`, `thread` the new one, empty if none was made. `usage` is what it used and
    `judge_usage` what its judge did; `time_s` is the time of the agent alone. `recorded_usage` is
    what the turn had used when it was recorded. `divergence` is `None` if all calls were the same.
    `note` says what differs from the recorded state of the files.
    """

    case: str
    verdict: CaseVerdict
    reason: str = ""
    thread: str = ""
    usage: Usage = Usage()
    judge_usage: Usage = Usage()
    time_s: float = 0.0
    recorded_usage: Usage = Usage()
    divergence: Divergence | None = None
    note: str = ""


class Evaluation(Struct, frozen=True):
    """An evaluation as it stands: `results` in the order of its `cases`, of those that have one.

    `spent` is all that it has used, also for cases that a kill or a limit has cut.
    `is_out_of_budget` says that cases are left because all is used that it may use.
    """

    id: str
    at: str
    request: EvaluationRequest
    limits: EvaluationLimits
    cases: tuple[str, ...]
    results: Sequence[CaseResult]
    spent: Usage
    is_out_of_budget: bool = False

    def count(self, verdict: CaseVerdict) -> int:
        """How many cases have come to this."""
        return sum(one.verdict is verdict for one in self.results)

    @property
    def left_count(self) -> int:
        """How many cases have no result yet."""
        return len(self.cases) - len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        counts = {one.value.replace(" ", "_"): self.count(one) for one in CaseVerdict}
        return {
            "id": self.id,
            "at": self.at,
            "request": self.request,
            "limits": self.limits,
            **counts,
            "left": self.left_count,
            "is_out_of_budget": self.is_out_of_budget,
            "spent": self.spent,
            "results": [_to_dict(one) for one in self.results],
        }


def _to_dict(one: CaseResult) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(one)
    cost = one.usage.cost_usd
    return {
        **found,
        "tokens": one.usage.total_tokens,
        "cost_usd": None if cost is None else str(cost),
        "time_s": round(one.time_s, 3),
        "divergence": found.get("divergence"),
    }
