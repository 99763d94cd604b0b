"""Threads in lists: a line for each, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from treadle import exit_codes
from treadle.app.threads.times import local_time
from treadle.thread.document import ThreadSummary
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app import Hit

ID_LENGTH: Final = 15
"""Of a thread, where a terminal is narrow: up to its millisecond."""

_TITLE_WIDTH_MIN: Final = 20


def format_rows(
    threads: Sequence[ThreadSummary], width: int | None, owners: Sequence[str] | None = None
) -> Iterator[str]:
    """A line for each; no wider than a terminal of that width, if there is one.

    Where it is narrow the count of messages is left out, and the ids are cut to what commands take.
    """
    from treadle.app.threads.thread_lists import state_name

    whose = [()] * len(threads) if owners is None else [(f"{owner:<12}",) for owner in owners]
    rows = [
        (
            line.id,
            local_time(line.updated_at),
            f"{line.message_count:>4} messages",
            f"{_describe_kind(line):<9}",
            f"{state_name(line):<22}",
            *owner,
            format_title(line),
        )
        for line, owner in zip(threads, whose, strict=True)
    ]
    if width is None:
        yield from ("  ".join(row) for row in rows)
        return
    columns = [[cell.rstrip() for cell in column] for column in zip(*rows, strict=True)]
    columns = [column for column in columns if any(column)]
    room = _TITLE_WIDTH_MIN
    if _measure_columns(columns[:-1]) + room > width:
        columns[0] = [cell[:ID_LENGTH] for cell in columns[0]]
    if _measure_columns(columns[:-1]) + room > width:
        del columns[2]
    widths = [max(map(len, column)) for column in columns[:-1]]
    for row in zip(*columns, strict=True):
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        yield _truncate("  ".join([*cells, row[-1]]).rstrip(), width)


def _measure_columns(columns: Sequence[Sequence[str]]) -> int:
    """Of these columns, with the space behind each."""
    return sum(max(map(len, column)) + 2 for column in columns)


def _truncate(text: str, width: int) -> str:
    """What fits; some characters take two places, and some none."""
    from rich.cells import cell_len, chop_cells

    return text if cell_len(text) <= width else chop_cells(text, max(1, width - 1))[0] + "…"


def _describe_kind(line: ThreadSummary) -> str:
    if line.parent is not None:
        return "sub-agent"
    words = ("task" if line.machine == "task" else "", "fork" if line.forked_from else "")
    return " ".join(word for word in words if word)


def format_title(line: ThreadSummary, length_max: int = 50) -> str:
    """The title in one line, with the mark of a pin before it, and tags behind."""
    title = " ".join((line.title or "(nothing said yet)").split())
    if len(title) > length_max:
        title = title[: length_max - 1] + "…"
    pin = "★ " if line.is_pinned else ""
    tags = "".join(f" #{tag}" for tag in line.tags)
    private = " [private]" if line.is_private else ""
    return sanitize_text(f"{pin}{title}{private}{tags}")


def report_unreadable(threads: Sequence[ThreadSummary]) -> int:
    """Say which threads the disk refused to read, and why; the exit code."""
    from treadle.app.threads.thread_lists import list_unreadable

    refused = list_unreadable(threads)
    for line in refused:
        click.echo(f"thread {line.id} may be intact: {sanitize_text(line.problem)}", err=True)
    return exit_codes.TRY_LATER if refused else exit_codes.DONE


def highlight_snippet(hit: Hit) -> str:
    """The snippet, on a terminal with what was looked for in bold."""
    text, shown, end = hit.snippet, "", 0
    for start, stop in hit.ranges:
        shown += sanitize_text(text[end:start]) + click.style(
            sanitize_text(text[start:stop]), bold=True
        )
        end = stop
    return shown + sanitize_text(text[end:])
