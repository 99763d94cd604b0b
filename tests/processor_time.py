"""What a call costs, held against the same call with a quarter of its text, not a clock.

Machines differ, and others are at work on them: that a text is dear is told by how its cost grows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

Text = TypeVar("Text", str, bytes)

QUICK_S: Final = 0.5
"""What takes less is not dear, however it grows."""

GROWTH_MAX: Final = 8.0
"""Of the whole against a quarter of it: twice as dear per character may be, four times may not."""

SLOW_COUNT_MAX: Final = 3
"""These cost seconds each, and the rest would tell the same."""


def seconds(call: Callable[[], object]) -> float:
    """Seconds of processor time that a call takes, no garbage collection among them.

    A collection of all objects goes by how much the whole test process holds, and not by the call.
    """
    gc.collect(0)
    gc.disable()
    try:
        begin = time.process_time()
        call()
        return time.process_time() - begin
    finally:
        gc.enable()


def growth(whole: Callable[[], object], part: Callable[[], object]) -> float:
    """How many times as dear a call is as with a quarter of its text; 1 if it is quick.

    Who sees too much of it asks again, and the cheapest of several counts: machines stand still.
    """
    once = seconds(whole)
    if once < QUICK_S or once < GROWTH_MAX * seconds(part):
        return 1.0
    return min(seconds(whole) for _ in range(3)) / min(seconds(part) for _ in range(3))


def slow(work: Callable[[Text], object], texts: Mapping[str, Text]) -> list[tuple[str, float]]:
    """The names of the texts whose cost grows faster than they do, with how fast; at most three.

    Args:
        work: what is done with a text.
        texts: by their names; the same from beginning to end, so that a quarter is like all.
    """
    found: list[tuple[str, float]] = []
    for name, text in texts.items():
        part = text[: len(text) // 4]
        times = growth(lambda text=text: work(text), lambda part=part: work(part))  # type: ignore[misc]
        if times > GROWTH_MAX:
            found.append((name, times))
        if len(found) == SLOW_COUNT_MAX:
            break
    return found
