"""Cells in columns of a terminal: as wide as what is in them, cropped where that is too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FIRST_WIDTH_MIN: Final = 24
"""Columns that the first cell of a row gets before any other."""

GAP: Final = "  "


def text_width(text: str) -> int:
    """The columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # most texts need no tables

    return cell_len(text)


def crop(text: str, width: int) -> str:
    """The beginning of a text, at most `width` columns of it, with a mark if that is not all."""
    if text_width(text) <= width:
        return text
    kept, used = 0, 0
    for character in text:
        used += text_width(character)
        if used > width - 1:
            break
        kept += 1
    return text[:kept] + "…" * (width > 0)


def crop_start(text: str, width: int) -> str:
    """The end of a text, likewise."""
    if text_width(text) <= width:
        return text
    kept, used = len(text), 0
    for character in reversed(text):
        used += text_width(character)
        if used > width - 1:
            break
        kept -= 1
    return "…" * (width > 0) + text[kept:]


def fit_columns(
    rows: Sequence[Sequence[str]], width: int | None, droppable: Sequence[int] = ()
) -> list[tuple[str, str]]:
    """Each row as its first cell, padded, and the rest of its line.

    What is empty in all rows is left out. The first cells get what the others leave, and are
    cropped to it; if that is less than `FIRST_WIDTH_MIN`, columns are dropped, then lines cropped.

    Args:
        rows: not empty, all of as many cells; none has a line break.
        width: of a line, in columns; `None` if nothing is cropped.
        droppable: the numbers of columns, in the order in which they are dropped.
    """
    columns = dict(enumerate(zip(*rows, strict=True)))
    first = columns.pop(0)
    widths = {at: max(map(text_width, cells)) for at, cells in columns.items()}
    kept = {at: size for at, size in widths.items() if size}
    longest = max(map(text_width, first))
    room = longest
    if width is not None:
        wanted = max(1, min(longest, FIRST_WIDTH_MIN, width))
        for at in droppable:
            if _room(width, kept) < wanted:
                kept.pop(at, None)
        room = max(wanted, min(longest, _room(width, kept)))
    found = []
    for row in rows:
        cells = "".join(f"{GAP}{_pad(row[at], size)}" for at, size in kept.items()).rstrip()
        text = crop(row[0], room)
        rest = crop(cells, max(0, width - room)) if width is not None else cells
        found.append((_pad(text, room) if rest else text, rest))
    return found


def _room(width: int, kept: dict[int, int]) -> int:
    """What columns of these widths leave."""
    return width - sum(size + len(GAP) for size in kept.values())


def _pad(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))
