"""A few lines of a file as they are, with their numbers, within an error or a remark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

LINE_COUNT_MAX: Final = 5
"""Lines shown at once: enough to copy from, few enough to be read."""
LINE_SIZE_MAX: Final = 200
"""Characters shown of a line."""


def show_lines(lines: Sequence[str], numbers: Iterable[int]) -> str:
    """The lines of these numbers, counted from 1; those that do not exist are left out."""
    shown = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(lines)]
    return "\n".join(f"{n}: {_cut(lines[n - 1])}" for n in shown)


def list_around(number: int, count: int = LINE_COUNT_MAX) -> range:
    """The numbers of some lines, in the middle of which one stands."""
    first = max(1, number - count // 2)
    return range(first, first + count)


def _cut(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= LINE_SIZE_MAX else f"{line[:LINE_SIZE_MAX]}..."
