"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from treadle.cli.transcript import Past
    from treadle.store.local import LocalStore
    from treadle.thread.model import Thread


class _Wanted(NamedTuple):
    """What is to be shown of a thread; at most one of the first four says as of when."""

    version: int | None
    turn: int | None
    moment: str | None
    commit: str | None
    call: str | None
    wants_usage: bool
    as_json: bool


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
) -> None:
    """Show a thread: its messages, and the approvals, commits and costs between them.

    Needs neither its folder, nor a model, nor the thread to be free. Nothing that has ever been
    said is gone: what was gone back from is shown as out of view. With --team the server is asked
    for it; nothing of it is kept here.

    \b
    treadle show 0190 --turn 2
    treadle show 0190 --at yesterday --json
    treadle show 0190 --at-commit 4f2a1c
    treadle show 0190 --team
    """  # noqa: D301  click reads the backspace
    from treadle.errors import UsageError
    from treadle.runtime.defaults import own_store

    if sum(place is not None for place in (version, turn, moment, commit)) > 1:
        raise UsageError(
            "--version, --turn, --at and --at-commit name several moments",
            hint="give one of them",
        )
    wanted = _Wanted(version, turn, moment, commit, call, wants_usage, as_json)
    if wants_team:
        show = _read_from_team(thread, wanted)
    else:
        store = own_store()
        show = _read(store, _resolve(store, thread), wanted)
    show()


def _read(
    store: LocalStore, thread_id: str, wanted: _Wanted, *, is_here: bool = True
) -> Callable[[], None]:
    """Read all that is to be shown; what is returned shows it, and needs the store no more."""
    from treadle.app.threads.damaged_forks import what_is_left
    from treadle.errors import DamagedJournalError

    version = _version(store, thread_id, wanted)
    if wanted.call is not None:
        from treadle.app.threads.outputs import output_of

        return partial(_show_output, output_of(store, thread_id, wanted.call))
    try:
        loaded = store.load(thread_id, version)
    except DamagedJournalError as error:
        if wanted.as_json or wanted.wants_usage or not is_here:
            raise
        loaded, said = what_is_left(store, thread_id, error)
        _say(said)
    document = loaded.fold.document()
    if loaded.problem:
        _say(loaded.problem)
    if wanted.as_json and not wanted.wants_usage:
        return partial(_print_json, document)
    past = _past(store, document)
    if wanted.wants_usage:
        return partial(_show_usage, document, past, as_json=wanted.as_json)
    from treadle.cli.transcript import tell

    if is_here:
        from treadle.app.sync.sync_status import synced_line

        return partial(tell, loaded.fold, document, past, synced_line(store, loaded.fold))
    from msgspec.structs import replace

    # The command that shows a whole output is told with the thread: it must ask the server, too.
    past = replace(past, kept={call: f"{part} --team" for call, part in past.kept.items()})
    return partial(tell, loaded.fold, document, past, is_here=False)


def _read_from_team(thread: str, wanted: _Wanted) -> Callable[[], None]:
    """As `_read`, of a thread that the server has: when this returns, no file of it is left here.

    Raises:
        UsageError: the server has it as one document, which cannot tell what is asked for.
    """
    from treadle.app.sync.team_threads import fetch_document
    from treadle.cli.team_threads import open_from_team, print_document
    from treadle.errors import UsageError

    with open_from_team(thread, wanted.call) as (store, thread_id):
        if store is not None:
            return _read(store, thread_id, wanted, is_here=False)
    if wanted.wants_usage or any(
        one is not None for one in (wanted.turn, wanted.moment, wanted.commit, wanted.call)
    ):
        raise UsageError(
            f"the server shows thread {thread_id} as one document, without its records",
            hint="--version and --json are what it can be asked for",
        )
    document = fetch_document(thread_id, wanted.version)
    return partial(_print_json if wanted.as_json else print_document, document)


def _show_output(output: str) -> None:
    from treadle.cli.render import printable

    click.echo(printable(output) if sys.stdout.isatty() else output, nl=False)


def _resolve(store: LocalStore, thread: str) -> str:
    """Among the threads, or else in the trash: what is there can be looked at."""
    import os

    from treadle.errors import UnknownThreadError

    try:
        return store.resolve(thread)
    except UnknownThreadError as error:
        from treadle.sync.credentials import is_logged_in

        try:
            return store.resolve(thread, in_trash=True)
        except UnknownThreadError:
            pass
        if is_logged_in(store.places, os.environ):
            error.hint = f"{error.hint}; `treadle show {thread} --team` asks the server for it"
        raise


def _version(store: LocalStore, thread_id: str, wanted: _Wanted) -> int | None:
    """The version that is meant; `None` for the newest."""
    from treadle.cli.version_selectors import after_turn, at_commit, at_time

    if wanted.turn is not None:
        return after_turn(store, thread_id, wanted.turn).version
    if wanted.moment is not None:
        from treadle.cli.thread_filters import end_of_moment

        return at_time(store, thread_id, end_of_moment(wanted.moment, store.now()))
    if wanted.commit is not None:
        return at_commit(store, thread_id, wanted.commit)
    return wanted.version


def _print_json(value: object) -> None:

    from treadle.cli.json_output import print_json

    print_json(value)


def _say(text: str) -> None:
    from treadle.cli.render import printable

    click.echo(f"treadle: {printable(text)}", err=True)


def _past(store: LocalStore, document: Thread) -> Past:
    """Up to the version that is shown: what comes after it may be of a newer program.

    What a damaged journal has lost is not told turn by turn.
    """
    from treadle.cli.transcript import Past, read_past
    from treadle.core.llm import Usage
    from treadle.errors import DiskError, TreadleError

    why = "its records are damaged or missing"
    try:
        past = read_past(store, document.id, document.version, document.usage)
    except TreadleError as error:
        past = Past()
        if isinstance(error, DiskError):  # they may be intact
            why = error.message
    if not past.spent and document.usage != Usage():
        _say(f"what each turn used is not known: {why}")
    return past


def _show_usage(document: Thread, past: Past, *, as_json: bool) -> None:
    from treadle.cli.render import printable
    from treadle.models.prices.usage_text import describe_usage

    if as_json:
        _print_json(past.spent)
        return
    for one in past.spent:
        where = f"{one.seq:>5}  turn {one.turn:<3}  {one.purpose:<14}  {one.model}"
        click.echo(f"{printable(where)}  {describe_usage(one.usage)}")
    click.echo(f"in all: {describe_usage(document.usage)}")
