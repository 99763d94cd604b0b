"""What a measurement says, and how the table shows it."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One number; `aim` is what it should be, `is_met` whether it was in this run."""

    name: str
    value: float
    unit: str
    aim: str = ""
    is_met: bool | None = None
    note: str = ""


def at_most(name: str, value: float, unit: str, limit: float, note: str = "") -> Row:
    """A row whose value should not be above the limit."""
    return Row(name, value, unit, f"<= {limit:g}", value <= limit, note)


def at_least(name: str, value: float, unit: str, limit: float, note: str = "") -> Row:
    """A row whose value should not be below the limit."""
    return Row(name, value, unit, f">= {limit:g}", value >= limit, note)


def median_s(run: Callable[[], object], times: int) -> float:
    """The median duration of a function, in seconds."""
    took: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def print_table(rows: list[Row]) -> None:
    """The rows, aligned."""
    width = max(len(row.name) for row in rows)
    for row in rows:
        mark = {True: "met", False: "NOT MET", None: ""}[row.is_met]
        value = f"{row.value:,.0f}" if row.value >= 1000 else f"{row.value:,.3g}"
        print(f"{row.name:<{width}}  {value:>10} {row.unit:<8} {row.aim:>12}  {mark:<8} {row.note}")


def write_json(rows: list[Row], path: Path) -> None:
    """The same, for programs."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
