"""Lines that are drawn again and again: text wrapped to columns, calls that run, a spinner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from treadle.terminal.call_text import RunningCall, format_duration
from treadle.terminal.ports import StyledLine
from treadle.thread.safe_text import sanitize_text

TEXT_LINES_MAX: Final = 10
"""Lines of the text that is being written."""
THOUGHT_LINES_MAX: Final = 3
CALLS_MAX: Final = 8
"""Calls that are drawn one by one; of more it is said how many there are."""
ANNOUNCE_AFTER_S: Final = 5.0
"""Seconds from which on it is worth a line that something goes on."""
FRAME_S: Final = 0.125
"""Seconds between two frames of the spinner."""

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TAB: Final = "    "


def spinner_frame(now_s: float) -> str:
    """The spinner as it looks at this time."""
    return _FRAMES[int(now_s / FRAME_S) % len(_FRAMES)]


def wrap_text(text: str, width: int) -> Iterator[str]:
    """The lines of the text, none of them wider than `width` columns; words are kept whole.

    A word that is wider is broken. Each character is looked at once.
    """
    for line in sanitize_text(text).replace("\t", _TAB).split("\n"):
        yield from (_wrap_ascii if line.isascii() else _wrap_line)(line, max(2, width))


def _wrap_ascii(line: str, width: int) -> Iterator[str]:
    """The same for text whose characters are a column each, which can be cut by counting."""
    start = 0
    while len(line) - start > width:
        blank = line.rfind(" ", start + 1, start + width + 1)
        if blank < 0:
            yield line[start : start + width]
            start += width
        else:
            yield line[start:blank]
            start = blank + 1
    yield line[start:]


def _wrap_line(line: str, width: int) -> Iterator[str]:
    from prompt_toolkit.utils import get_cwidth

    start, columns, blank = 0, 0, -1
    after_blank = 0
    """Columns of the line behind its last blank."""
    for place, character in enumerate(line):
        wide = get_cwidth(character)
        if columns + wide > width:
            if character == " ":
                yield line[start:place]
                start, columns, blank, after_blank = place + 1, 0, -1, 0
                continue
            if blank > start:
                yield line[start:blank]
                start, columns = blank + 1, after_blank
            else:
                yield line[start:place]
                start, columns = place, 0
            blank, after_blank = -1, columns
        columns += wide
        after_blank += wide
        if character == " ":
            blank, after_blank = place, 0
    yield line[start:]


def last_lines(text: str, width: int, count: int) -> list[str]:
    """The last lines of the text, as wrapped."""
    return list(wrap_text(text, width))[-count:]


def crop_text(text: str, width: int) -> str:
    """The beginning of the text, at most `width` columns of it, with a mark if that is not all."""
    from prompt_toolkit.utils import get_cwidth

    columns = 0
    fits = 0
    for place, character in enumerate(text):
        columns += get_cwidth(character)
        if columns > width:
            return text[:fits] + "…" * (width > 0)
        if columns < width:
            fits = place + 1
    return text


def text_lines(text: str, width: int) -> list[StyledLine]:
    """The end of the text that is being written."""
    return [[("", line)] for line in last_lines(text, width, TEXT_LINES_MAX)]


def thought_lines(text: str, width: int) -> list[StyledLine]:
    """The end of what is thought."""
    lines = last_lines(text, width - 2, THOUGHT_LINES_MAX)
    return [[("dim", f"{' ' if place else '∴'} {line}")] for place, line in enumerate(lines)]


def announcement_lines(
    calls: Iterable[RunningCall], now_s: float, begun_s: float | None
) -> list[StyledLine]:
    """What goes on, for a terminal that shows lines only: nothing while it has not gone on long.

    Args:
        calls: those that run.
        now_s: the time.
        begun_s: when the turn began; `None` if there is none.
    """
    since = [(f"running {call.title}", call.started_s) for call in calls]
    if not since and begun_s is not None:
        since.append(("working", begun_s))
    long = [(words, now_s - start) for words, start in since if now_s - start >= ANNOUNCE_AFTER_S]
    return [[("", f"{words}, {format_duration(seconds)} so far")] for words, seconds in long]


def call_lines(calls: Iterable[RunningCall], now_s: float, width: int) -> list[StyledLine]:
    """A line for each call that runs, and the end of what it has said."""
    lines: list[StyledLine] = []
    running = list(calls)
    for call in running[:CALLS_MAX]:
        took = f"  {format_duration(max(0.0, now_s - call.started_s))}"
        if far := call.progress_text():
            took = f"  {far}{took}"
        if len(took) > width // 2:
            took = took[: max(0, width // 2)]
        title = crop_text(call.title, width - 2 - len(took))
        lines.append([("accent", f"{spinner_frame(now_s)} "), ("bold", title), ("dim", took)])
        if len(running) <= CALLS_MAX // 2:
            shown = (crop_text(line.replace("\t", _TAB), width - 2) for line in call.last_lines())
            lines += ([("dim", f"  {line}")] for line in shown)
    if (more := len(running) - CALLS_MAX) > 0:
        lines.append([("dim", f"  and {more} more")])
    return lines
