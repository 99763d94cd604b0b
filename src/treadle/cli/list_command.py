"""`treadle list`: the threads of this machine."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Final

import click

from treadle.cli.json_output import print_json
from treadle.cli.login_command import VISIBILITIES
from treadle.cli.notices import list_ids_once
from treadle.cli.thread_filters import (
    choose_limit,
    convert_to_bad_parameter,
    filter_options,
    limit_options,
)
from treadle.cli.thread_rows import report_unreadable, show_rows

LIMIT: Final = 50


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

    What is asked for must all hold. A row tells the title, how the thread stands, the folder if
    it is not this one, the branch, when it changed, and the id. Elsewhere than on a terminal
    times and ids are whole. With --team the server is asked: those that changed
    last stand first, --remote is the whole host/path, and --trashed lists your own.
    Exit codes: 0, or 75 if the disk refused to read a thread.
    """  # noqa: D301  click reads the backspace
    most = choose_limit(limit, LIMIT, wants_all=wants_all, as_json=as_json)
    if wants_team:
        _list_team(chosen, most, as_json=as_json, owner=owner, visibility=visibility)
        return
    if owner or visibility:
        raise click.UsageError("--owner and --visibility are about the server: add --team")
    from treadle.app import ThreadFilters, UnknownStateError, list_threads, open_store

    with convert_to_bad_parameter(UnknownStateError):
        notify = partial(click.echo, err=True)
        found = list_threads(open_store(), ThreadFilters(**chosen), limit=most, notify=notify)
    if as_json:
        print_json(found.threads)
        ctx.exit(report_unreadable(found.threads))
    show_rows(found.threads, ids=list_ids_once() if sys.stdout.isatty() else None)
    if not found.threads:
        words = _explain_empty_list(found.is_unfiltered, found.trashed_count, chosen["is_trashed"])
        click.echo(words, err=True)
    elif found.count > len(found.threads):
        click.echo(f"{found.count - len(found.threads)} more; --all shows them", err=True)
    ctx.exit(report_unreadable(found.threads))


def _list_team(
    chosen: dict[str, Any], most: int | None, *, as_json: bool, **whose: str | None
) -> None:
    from treadle.app import ThreadFilters, list_team_threads, open_store

    page = list_team_threads(open_store(), ThreadFilters(**chosen), limit=most, **whose)
    lines, count = page.threads, page.count
    if as_json:
        print_json([line.to_dict() for line in lines])
        return
    show_rows([line.thread for line in lines], [line.owner for line in lines])
    if not lines:
        click.echo("the server has no such thread that you may see", err=True)
    elif count > len(lines):
        how = "narrow it down" if most is None else "--all shows them"
        click.echo(f"{count - len(lines)} more; {how}", err=True)


def _explain_empty_list(is_unfiltered: bool, trashed_count: int, is_trashed: bool) -> str:
    if trashed_count:
        words = "1 thread is" if trashed_count == 1 else f"all {trashed_count} threads are"
        return f"{words} in the trash: `treadle trash` lists what is there"
    if is_unfiltered:
        return "no threads yet; `treadle demo` makes one, `treadle -p PROMPT` too"
    return "no such thread in the trash" if is_trashed else "no such thread"
