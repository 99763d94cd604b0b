"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.app.threads.times import TimeTextError
from treadle.cli.notices import print_notice
from treadle.cli.reader_output import print_readers
from treadle.cli.thread_filters import convert_to_bad_parameter
from treadle.cli.view_output import show_view
from treadle.errors import UsageError

if TYPE_CHECKING:
    pass


@click.command("show")
@click.argument("thread", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="As it stood at this version.")
@click.option("--turn", type=click.IntRange(min=0), help="As it stood when this turn had ended.")
@click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="As it stood at the end of this minute (2026-11-21T08:15), second or day.",
)
@click.option(
    "--at-commit", "commit", metavar="SHA", help="As it stood when this commit was last out."
)
@click.option("--usage", "wants_usage", is_flag=True, help="What each request used, and its cost.")
@click.option("--output", "call", metavar="CALL", help="The whole output of one call, by its id.")
@click.option(
    "--readers", "wants_readers", is_flag=True, help="Who else has read it on the server."
)
@click.option("--team", "wants_team", is_flag=True, help="As the server has it; also others' ones.")
@click.option("--json", "as_json", is_flag=True, help="The thread document, or the list of uses.")
@click.option("--no-pager", is_flag=True, help="Print it, however long it is.")
def command(
    thread: str,
    version: int | None,
    turn: int | None,
    moment: str | None,
    commit: str | None,
    wants_usage: bool,
    call: str | None,
    wants_readers: bool,
    wants_team: bool,
    as_json: bool,
    no_pager: bool,
) -> None:
    """Show a thread: its messages, and the approvals, commits and costs between them.

    Needs neither its folder, nor a model, nor the thread to be free. Nothing that has ever been
    said is gone: what was gone back from is shown as out of view. With --team the server is asked
    for it; nothing of it is kept here.

    \b
    treadle show 7c1e93f0 --turn 2
    treadle show 7c1e93f0 --at yesterday --json
    treadle show 7c1e93f0 --at-commit 4f2a1c
    treadle show 7c1e93f0 --team
    treadle show 7c1e93f0 --readers

    In a terminal the Markdown of answers is laid out, and all of it goes through a pager:
    TREADLE_PAGER, PAGER or `less`; none if that is empty or `cat`.
    """  # noqa: D301  click reads the backspace
    if sum(place is not None for place in (version, turn, moment, commit)) > 1:
        raise UsageError(
            "--version, --turn, --at and --at-commit name several moments",
            hint="give one of them",
        )
    from treadle.app.stores import open_store
    from treadle.app.threads.thread_lookup import resolve_to_show
    from treadle.app.threads.thread_view import ViewRequest, read_thread
    from treadle.app.threads.version_selectors import VersionSelector

    selector = VersionSelector(version, turn, moment, commit)
    request = ViewRequest(selector, call, wants_usage, as_json)
    if wants_team:
        from treadle.cli.team_threads import show_team_thread

        show_team_thread(thread, request, is_paged=not no_pager)
        return
    if wants_readers:
        print_readers(thread, as_json=as_json)
        return
    store = open_store()
    with convert_to_bad_parameter(TimeTextError):
        found = read_thread(store, resolve_to_show(store, thread), request, notify=print_notice)
    show_view(found, request, is_paged=not no_pager)
