"""What earlier runs measured, and which ratios are worse now.

Only what does not depend on how fast the machine is: ratios of one run, counts, bytes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.report import Row

HISTORY: Final = Path(__file__).parent / "history.jsonl"
"""A line for each run that was kept, oldest first."""
RUNS: Final = 5
"""A ratio is compared with the median of so many runs, the newest."""
WORSE: Final = 1.2
STEADY_UNITS: Final = frozenset({"x", "x SDK", "%", "", "kB", "KiB/turn", "KiB each"})


@dataclass(frozen=True)
class Run:
    """One run of the bench: the commit it measured, and its ratios by name."""

    commit: str
    ratios: Mapping[str, float]


@dataclass(frozen=True)
class Regression:
    """A ratio that is worse than it was."""

    name: str
    before: float
    now: float


def list_ratios(rows: Iterable[Row]) -> dict[str, float]:
    """The rows that can be compared with those of another day and machine."""
    return {row.name: row.value for row in rows if row.unit in STEADY_UNITS}


def read_history(path: Path = HISTORY) -> list[Run]:
    """The runs that were kept, oldest first."""
    if not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def keep_run(rows: Iterable[Row], path: Path = HISTORY) -> None:
    """Add this run to the history."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    run = Run(described.stdout.strip(), list_ratios(rows))
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def find_regressions(rows: Sequence[Row], runs: Sequence[Run]) -> list[Regression]:
    """The ratios that are worse by a fifth than the median of the newest runs that had them."""
    found: list[Regression] = []
    larger_is_better = {row.name for row in rows if row.aim.startswith(">=")}
    for name, now in list_ratios(rows).items():
        earlier = [run.ratios[name] for run in runs if name in run.ratios][-RUNS:]
        if not earlier:
            continue
        before = statistics.median(earlier)
        better, worse = (now, before) if name in larger_is_better else (before, now)
        if worse > better * WORSE:
            found.append(Regression(name, before, now))
    return found


def print_regressions(found: Sequence[Regression], count: int) -> None:
    """What is worse, or that nothing is."""
    print(
        f"\nAgainst the median of the newest {min(count, RUNS)} of {count} runs in {HISTORY.name}:"
    )
    if not found:
        print("no ratio is worse by a fifth.")
    for one in found:
        print(f"WORSE  {one.name}: {one.before:.3g} before, {one.now:.3g} now")
