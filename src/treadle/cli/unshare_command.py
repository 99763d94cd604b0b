"""`treadle unshare`: end the links to a thread, or support's access to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.sync.engine import Engine


@click.command("unshare")
@click.argument("thread", metavar="ID")
@click.option("--link", is_flag=True, help="End its links.")
@click.option("--support", is_flag=True, help="End support's access.")
@click.option("--all", "wants_all", is_flag=True, help="Both.")
def command(thread: str, link: bool, support: bool, wants_all: bool) -> None:
    """End the links to a thread, or support's access; without an option both.

    \b
    treadle unshare 0190 --link   the link leads nowhere from now on
    treadle unshare 0190 --all    links and support access

    The server does it at once, or nothing is changed: exit code 75 if it cannot be reached. What
    people have read they have read. Who may see the thread besides is for `treadle share ID
    --visibility private`.
    """  # noqa: D301  click reads the backspace
    import os

    from treadle.app.sync.sync_engine import open_engine
    from treadle.cli.share_command import refuse_private
    from treadle.runtime.defaults import own_store
    from treadle.sync.credentials import needed_account
    from treadle.sync.shareable import spoken_of

    wants_all = wants_all or not (link or support)
    store = own_store("treadle unshare")
    thread_id = store.resolve(thread)
    account = needed_account(store.places, os.environ)
    # Not even its id leaves; what was shared of it ended when the server's copy was removed.
    refuse_private(store, thread_id)
    done = []
    with open_engine(store, account) as (engine, _, remote):
        with spoken_of(store, thread_id):
            if link or wants_all:
                count = sum(one.is_active for one in remote.shares(thread_id).shares)
                remote.unshare(thread_id)
                done.append(f"{count} link{'' if count == 1 else 's'} ended")
            if support or wants_all:
                remote.revoke_support(thread_id)
                done.append("support cannot read it")
        if support or wants_all:
            _record(engine, thread_id)
    click.echo(f"{thread_id}: {', '.join(done)}", err=True)


def _record(engine: Engine, thread_id: str) -> None:
    """Say in the thread too that support cannot read it, if the server has not said it there.

    It has ended it already.
    """
    from treadle.app.threads.annotations import annotate
    from treadle.errors import TreadleError
    from treadle.thread.facts import Shared
    from treadle.thread.safe_text import legible

    try:
        engine.save_and_sync(thread_id)
        fold = annotate(
            thread_id,
            lambda fold: Shared(with_support=False) if fold.is_shared_with_support else None,
        )
        if not fold.is_private:
            engine.save_and_sync(thread_id)
    except TreadleError as error:
        click.echo(f"treadle: not recorded in the thread: {legible(error.message)}", err=True)
