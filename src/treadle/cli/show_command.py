"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.app.threads.times import TimeTextError
from treadle.cli.json_output import print_json
from treadle.cli.notices import print_notice
from treadle.cli.pager import paged
from treadle.cli.thread_filters import convert_to_bad_parameter
from treadle.cli.view_output import show_view
from treadle.errors import UsageError

if TYPE_CHECKING:
    from treadle.app.threads.thread_view import ViewRequest


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
        _show_team_thread(thread, request, is_paged=not no_pager)
        return
    store = open_store()
    with convert_to_bad_parameter(TimeTextError):
        found = read_thread(store, resolve_to_show(store, thread), request, notify=print_notice)
    show_view(found, request, is_paged=not no_pager)


def _show_team_thread(thread: str, request: ViewRequest, *, is_paged: bool) -> None:
    """Show a thread that the server has: meanwhile no file of it is left here.

    Raises:
        UsageError: the server has it as one document, which cannot tell what is asked for.
    """
    from treadle.app.stores import open_store
    from treadle.app.sync.team_threads import fetch_team_document
    from treadle.app.threads.thread_view import read_thread
    from treadle.cli.team_threads import open_server_thread, print_document

    found = None
    with open_server_thread(thread, request.call) as team:
        if team.store is not None:
            with convert_to_bad_parameter(TimeTextError):
                found = read_thread(
                    team.store, team.thread_id, request, notify=print_notice, is_here=False
                )
    if found is not None:
        show_view(found, request, is_paged=is_paged)
        return
    if request.needs_records:
        raise UsageError(
            f"the server shows thread {team.thread_id} as one document, without its records",
            hint="--version and --json are what it can be asked for",
        )
    show = print_json if request.as_json else print_document
    with paged(is_wanted=is_paged):
        show(fetch_team_document(open_store(), team.name, request.selector.version))
