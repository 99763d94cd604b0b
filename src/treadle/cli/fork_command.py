"""`treadle fork`: a new thread that goes on from a version of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.store.local import LocalStore


@click.command("fork")
@click.argument("thread", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="Go on from this version.")
@click.option("--turn", type=click.IntRange(min=0), help="Go on from the end of this turn.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the new thread, its base.")
def command(thread: str, version: int | None, turn: int | None, as_json: bool) -> None:
    """Begin a new thread that goes on from another one, by default from where that stands now.

    The other thread stays as it is. Its history is not copied: the new thread names it by its hash.
    If another process has it open, the new one goes on from where nothing was under way. Prints the
    new thread's id.

    \b
    treadle fork 0190 --turn 2
    treadle resume NEW-ID -p "now try it with a queue"
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import CREATOR
    from treadle.cli.version_selectors import after_turn
    from treadle.errors import UsageError
    from treadle.runtime.defaults import own_store

    if version is not None and turn is not None:
        raise UsageError("--version and --turn name two places", hint="give one of them")
    store = own_store()
    thread_id = store.resolve(thread)
    if turn is not None:
        version = after_turn(store, thread_id, turn).version
    elif version is None:
        version = _rest_of_busy(store, thread_id)
    writer = store.fork(thread_id, version, creator=CREATOR)
    base = writer.fold.header.base
    assert base is not None
    is_idle, new_id = writer.fold.is_idle, writer.thread_id
    writer.close()
    if as_json:
        import msgspec

        told = {"thread": new_id, "base": msgspec.to_builtins(base)}
        from treadle.cli.json_output import print_json

        print_json(told)
        return
    click.echo(new_id)
    click.echo(f"goes on from {base.thread} at version {base.version}", err=True)
    if not is_idle:
        text = "work was in the middle there: `treadle resume` takes it up as after a crash"
        click.echo(text, err=True)


def _rest_of_busy(store: LocalStore, thread_id: str) -> int | None:
    """Where to go on from if another process has the thread open; `None` for where it stands.

    What that process is in the middle of is its own to finish.
    """
    from treadle.app.threads.forks import last_rest

    if store.holder(thread_id) is None:
        return None
    text = "another process has it open: what is under way there stays there"
    click.echo(text, err=True)
    return last_rest(store, thread_id)
