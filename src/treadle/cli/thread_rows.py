"""Threads in lists: a line for each, as wide as the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from treadle import exit_codes
from treadle.app.threads.times import local_time
from treadle.cli.notices import print_line, shorten_for_people
from treadle.pages.thread_cells import describe_age, format_title, make_cells
from treadle.terminal.columns import crop, crop_start, fit_columns
from treadle.thread.document import ThreadSummary
from treadle.thread.ids import ShortIds
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app import Hit

TITLE_LENGTH_MAX: Final = 50
"""Characters of a title where there is no terminal whose width decides."""

_PLACE_WIDTH_MAX: Final = 24
"""Of a folder the end is shown, of a branch the beginning."""

_DROPPABLE: Final = (3, 4, 2, 1, 5)
"""What a narrow terminal does without: folder, branch, owner, state, and when it changed."""


def format_rows(
    threads: Sequence[ThreadSummary],
    width: int | None,
    owners: Sequence[str] | None = None,
    *,
    ids: ShortIds | None = None,
) -> Iterator[str]:
    """A line for each: title, state, owner, folder, branch, when it changed, id.

    On a terminal a row is one line. Elsewhere folders, times and ids are whole.

    Args:
        threads: the threads.
        width: of the terminal, in columns; `None` if there is none.
        owners: whose each is, if several people may have some.
        ids: how ids are shown on a terminal; without it, whole.
    """
    if not threads:
        return
    whose = [""] * len(threads) if owners is None else owners
    here = "" if width is None else str(Path.cwd())
    known = ids or ShortIds()
    rows = []
    for line, owner in zip(threads, whose, strict=True):
        cells = make_cells(line, known, here=here)
        place, branch = cells.folder, cells.branch
        title, age = cells.title, cells.age
        if width is None:
            title = format_title(line, TITLE_LENGTH_MAX)
            place, age = line.workspace_root or "", local_time(line.updated_at)
        else:
            place, branch = crop_start(place, _PLACE_WIDTH_MAX), crop(branch, _PLACE_WIDTH_MAX)
        thread = line.id if ids is None or width is None else cells.id
        rows.append((title, cells.state, owner, sanitize_text(place), branch, age, thread))
    for text, rest in fit_columns(rows, width, _DROPPABLE):
        yield text + rest


def show_rows(
    threads: Sequence[ThreadSummary],
    owners: Sequence[str] | None = None,
    *,
    ids: ShortIds | None = None,
) -> None:
    """Print a row for each thread, as wide as the terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in format_rows(threads, width, owners, ids=ids):
        click.echo(row)


def format_hit(line: ThreadSummary, count: int, owner: str) -> str:
    """The line that heads a hit of a search, of several places; an owner is one of a server.

    A server finds threads by the beginnings of their ids, so of its threads the id is whole.
    """
    is_short = not owner and sys.stdout.isatty()
    thread = shorten_for_people(line.id) if is_short else line.id
    when = describe_age(line.updated_at) if is_short else local_time(line.updated_at)
    more = f" ({count} places)" if count > 1 else ""
    whose = owner and f"{owner}  "
    return f"{format_title(line, TITLE_LENGTH_MAX)}{more}  {whose}{when}  {thread}"


def report_unreadable(threads: Sequence[ThreadSummary]) -> int:
    """Say which threads the disk refused to read, and why; the exit code."""
    from treadle.app.threads.thread_lists import list_unreadable

    refused = list_unreadable(threads)
    for line in refused:
        print_line(f"thread {line.id} may be intact: {sanitize_text(line.problem)}", err=True)
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
