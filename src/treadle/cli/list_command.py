"""`treadle list`: the threads of this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from unicodedata import east_asian_width

import click

from treadle import exit_codes
from treadle.app.threads.local_times import local_time
from treadle.cli.json_output import print_json
from treadle.cli.login_command import VISIBILITIES
from treadle.cli.thread_filters import (
    check_state,
    filter_options,
    filters_of,
    limit_of,
    limit_options,
    title_of,
)

if TYPE_CHECKING:
    from treadle.thread.model import ThreadSummary

LIMIT: Final = 50

ID_LENGTH: Final = 15
"""Of a thread, where a terminal is narrow: up to its millisecond."""

_TITLE_WIDTH_MIN: Final = 20


@click.command("list")
@filter_options
@limit_options(LIMIT)
@click.option("--team", "wants_team", is_flag=True, help="Those on the server that you may see.")
@click.option("--owner", metavar="USER", help="With --team: whose they are.")
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    help="With --team: who may see them.",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, in the same order.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    as_json: bool,
    limit: int | None,
    wants_all: bool,
    wants_team: bool,
    owner: str | None,
    visibility: str | None,
    **chosen: Any,
) -> None:
    """List the threads on this machine: pinned ones (★), then those that changed last.

    \b
    treadle list -w                  the threads of this folder
    treadle list --branch main --since 7d --tag release
    treadle list --state waiting --json

    What is asked for must all hold. Tasks and forks are marked as such; so is what waits for
    approval, which `treadle approve ID` shows. With --team the server is asked: those that changed
    last stand first, --remote is the whole host/path, and --trashed lists your own.
    Exit codes: 0, or 75 if the disk refused to read a thread.
    """  # noqa: D301  click reads the backspace
    most = limit_of(limit, LIMIT, wants_all=wants_all, as_json=as_json)
    if wants_team:
        _list_team({**chosen, "owner": owner, "visibility": visibility}, most, as_json=as_json)
        return
    if owner or visibility:
        raise click.UsageError("--owner and --visibility are about the server: add --team")
    from treadle.store.index.filters import Filters
    from treadle.store.index.lookup import Index
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    filters = filters_of(chosen)
    index = Index(LocalStore(Places.find()), partial(click.echo, err=True))
    try:
        check_state(index, filters)
        threads, count = index.page(filters, most)
        is_unfiltered = filters == Filters()
        trashed_count = 0
        if not threads and is_unfiltered:
            trashed_count = index.count(Filters(is_trashed=True))
    finally:
        index.close()
    if as_json:
        print_json(threads)
        ctx.exit(tell_unreadable(threads))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for shown in _shown(threads, width):
        click.echo(shown)
    if not threads:
        words = _nothing(is_unfiltered, trashed_count, is_trashed=filters.is_trashed)
        click.echo(words, err=True)
    elif count > len(threads):
        click.echo(f"{count - len(threads)} more; --all shows them", err=True)
    ctx.exit(tell_unreadable(threads))


def tell_unreadable(threads: Sequence[ThreadSummary]) -> int:
    """Say which threads the disk refused to read, and why; the exit code."""
    from treadle.cli.render import printable
    from treadle.store.local import UNREADABLE

    refused = [line for line in threads if line.state == UNREADABLE and line.problem]
    for line in refused:
        click.echo(f"thread {line.id} may be intact: {printable(line.problem)}", err=True)
    return exit_codes.TRY_LATER if refused else exit_codes.DONE


def _list_team(chosen: dict[str, Any], most: int | None, *, as_json: bool) -> None:
    from treadle.app.sync.team_threads import list_team

    lines, count = list_team(chosen, most)
    if as_json:
        print_json([line.plain() for line in lines])
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    owners = [line.owner for line in lines]
    for shown in _shown([line.thread for line in lines], width, owners):
        click.echo(shown)
    if not lines:
        click.echo("the server has no such thread that you may see", err=True)
    elif count > len(lines):
        how = "narrow it down" if most is None else "--all shows them"
        click.echo(f"{count - len(lines)} more; {how}", err=True)


def _shown(
    threads: Sequence[ThreadSummary], width: int | None, owners: Sequence[str] | None = None
) -> Iterator[str]:
    """A line for each; no wider than a terminal of that width, if there is one.

    Where it is narrow the count of messages is left out, and the ids are cut to what commands take.
    """
    whose = [()] * len(threads) if owners is None else [(f"{owner:<12}",) for owner in owners]
    rows = [
        (
            line.id,
            local_time(line.updated_at),
            f"{line.message_count:>4} messages",
            f"{_kind(line):<9}",
            f"{_state(line):<22}",
            *owner,
            title_of(line),
        )
        for line, owner in zip(threads, whose, strict=True)
    ]
    if width is None:
        yield from ("  ".join(row) for row in rows)
        return
    columns = [[cell.rstrip() for cell in column] for column in zip(*rows, strict=True)]
    columns = [column for column in columns if any(column)]
    room = _TITLE_WIDTH_MIN
    if _width(columns[:-1]) + room > width:
        columns[0] = [cell[:ID_LENGTH] for cell in columns[0]]
    if _width(columns[:-1]) + room > width:
        del columns[2]
    widths = [max(map(len, column)) for column in columns[:-1]]
    for row in zip(*columns, strict=True):
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        yield _cut("  ".join([*cells, row[-1]]).rstrip(), width)


def _width(columns: Sequence[Sequence[str]]) -> int:
    """Of these columns, with the space behind each."""
    return sum(max(map(len, column)) + 2 for column in columns)


def _cut(text: str, width: int) -> str:
    """What fits; some characters take two places."""
    if sum(map(_places, text)) <= width:
        return text
    taken, kept = 1, list[str]()  # one for the mark
    for character in text:
        taken += _places(character)
        if taken > width:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _places(character: str) -> int:
    return 2 if east_asian_width(character) in ("W", "F") else 1


def _nothing(is_unfiltered: bool, trashed_count: int, *, is_trashed: bool) -> str:
    if trashed_count:
        words = "1 thread is" if trashed_count == 1 else f"all {trashed_count} threads are"
        return f"{words} in the trash: `treadle trash` lists what is there"
    if is_unfiltered:
        return "no threads yet; `treadle demo` makes one, `treadle -p PROMPT` too"
    return "no such thread in the trash" if is_trashed else "no such thread"


def _kind(line: ThreadSummary) -> str:
    if line.parent is not None:
        return "sub-agent"
    words = ("task" if line.machine == "task" else "", "fork" if line.forked_from else "")
    return " ".join(word for word in words if word)


def _state(line: ThreadSummary) -> str:
    from treadle.store.local import DAMAGED, UNREADABLE, UNSUPPORTED

    if line.problem:
        words = {UNREADABLE: "cannot be read", UNSUPPORTED: UNSUPPORTED}
        return words.get(line.state, DAMAGED)
    return "waits for approval" if line.questions else line.state.replace("_", " ")
