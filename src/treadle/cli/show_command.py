"""`treadle show`: one thread, for people or programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.cli.story import Past
    from treadle.store.local import LocalStore
    from treadle.thread.model import Thread


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
@click.option("--json", "as_json", is_flag=True, help="The thread document, or the list of uses.")
def command(
    thread: str,
    version: int | None,
    turn: int | None,
    moment: str | None,
    commit: str | None,
    wants_usage: bool,
    call: str | None,
    as_json: bool,
) -> None:
    """Show a thread: its messages, and the approvals, commits and costs between them.

    Needs neither its folder, nor a model, nor the thread to be free. Nothing that has ever been
    said is gone: what was gone back from is shown as out of view.

    \b
    treadle show 0190 --turn 2
    treadle show 0190 --at yesterday --json
    treadle show 0190 --at-commit 4f2a1c
    """  # noqa: D301  click reads the backspace
    from treadle.errors import UsageError
    from treadle.runtime.own import own_store

    if sum(place is not None for place in (version, turn, moment, commit)) > 1:
        raise UsageError(
            "--version, --turn, --at and --at-commit name several moments",
            hint="give one of them",
        )
    store = own_store()
    thread_id = _resolve(store, thread)
    version = _version(store, thread_id, version, turn, moment, commit)
    if call is not None:
        from treadle.cli.outputs import output_of
        from treadle.cli.render import printable

        output = output_of(store, thread_id, call)
        click.echo(printable(output) if sys.stdout.isatty() else output, nl=False)
        return
    from treadle.cli.bereft import what_is_left
    from treadle.errors import DamagedJournalError

    try:
        loaded = store.load(thread_id, version)
    except DamagedJournalError as error:
        if as_json or wants_usage:
            raise
        loaded, said = what_is_left(store, thread_id, error)
        _say(said)
    document = loaded.fold.document()
    if loaded.problem:
        _say(loaded.problem)
    if as_json and not wants_usage:
        _print_json(document)
        return
    past = _past(store, document)
    if wants_usage:
        _show_usage(document, past, as_json=as_json)
    else:
        from treadle.cli.story import tell
        from treadle.cli.synced import synced_line

        tell(loaded.fold, document, past, synced_line(store, loaded.fold))


def _resolve(store: LocalStore, thread: str) -> str:
    """Among the threads, or else in the trash: what is there can be looked at."""
    from treadle.errors import UnknownThreadError

    try:
        return store.resolve(thread)
    except UnknownThreadError:
        try:
            return store.resolve(thread, in_trash=True)
        except UnknownThreadError:
            pass
        raise


def _version(
    store: LocalStore,
    thread_id: str,
    version: int | None,
    turn: int | None,
    moment: str | None,
    commit: str | None,
) -> int | None:
    """The version that is meant; `None` for the newest."""
    from treadle.cli.moments import after_turn, at_commit, at_time

    if turn is not None:
        return after_turn(store, thread_id, turn).version
    if moment is not None:
        from treadle.cli.filters import end_of_moment

        return at_time(store, thread_id, end_of_moment(moment, store.now()))
    if commit is not None:
        return at_commit(store, thread_id, commit)
    return version


def _print_json(value: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _say(text: str) -> None:
    from treadle.cli.render import printable

    click.echo(f"treadle: {printable(text)}", err=True)


def _past(store: LocalStore, document: Thread) -> Past:
    """Up to the version that is shown: what comes after it may be of a newer program.

    What a damaged journal has lost is not told turn by turn.
    """
    from treadle.cli.story import Past, read_past
    from treadle.core.llm import Usage
    from treadle.errors import TreadleError

    try:
        past = read_past(store, document.id, document.version, document.usage)
    except TreadleError:
        past = Past()
    if not past.spent and document.usage != Usage():
        text = "what each turn used is not known: its records are damaged or missing"
        _say(text)
    return past


def _show_usage(document: Thread, past: Past, *, as_json: bool) -> None:
    from treadle.cli.render import printable
    from treadle.models.prices.words import describe_usage

    if as_json:
        _print_json(past.spent)
        return
    for one in past.spent:
        where = f"{one.seq:>5}  turn {one.turn:<3}  {one.purpose:<14}  {one.model}"
        click.echo(f"{printable(where)}  {describe_usage(one.usage)}")
    click.echo(f"in all: {describe_usage(document.usage)}")
