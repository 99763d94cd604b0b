"""`treadle sync`: bring this machine's threads and the server's together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.sync.context import OnConflict


@click.command("sync")
@click.argument("threads", metavar="[ID]...", nargs=-1)
@click.option("--watch", "wants_watch", is_flag=True, help="Go on until interrupted.")
@click.option("--status", "wants_status", is_flag=True, help="Only say how things stand; offline.")
@click.option("--json", "as_json", is_flag=True, help="What was done, or stands, as JSON.")
@click.option(
    "--on-conflict",
    type=click.Choice(["merge", "fork"]),
    default="merge",
    show_default=True,
    help="What becomes of a thread with which another machine has gone on too.",
)
@click.option("--yes", is_flag=True, help="Do not ask before threads are sent for the first time.")
@click.pass_context
def command(
    ctx: click.Context,
    threads: Sequence[str],
    wants_watch: bool,
    wants_status: bool,
    as_json: bool,
    on_conflict: OnConflict,
    yes: bool,
) -> None:
    """Send what is new here, take in what is new there. Private threads stay.

    What has been refused or held back before is tried again. Before threads from the time before
    the login are sent for the first time, it is said how many and who will see them, and asked.
    Threads named by ID are synced alone, and unasked.

    A merge keeps all that was said on both machines; the agent goes on where the server stands.

    Where nobody can be asked, those threads stay, all others are synced, and --yes sends them.

    Exit codes: 0 all is synced, 1 something is held back, refused, or nobody could be asked about
    it, 5 not logged in, 75 the server cannot be reached, or something is tried again later.

    \b
    treadle sync --status
    treadle sync --watch
    treadle sync 0190 --on-conflict fork
    """  # noqa: D301  click reads the backspace
    from treadle.cli.sync_job import Wanted, keep_synchronized, show_status, synchronize
    from treadle.runtime.defaults import own_store

    if wants_status and (wants_watch or threads):
        raise click.UsageError("--status tells of all threads, and does nothing")
    store = own_store("treadle sync")
    if wants_status:
        ctx.exit(show_status(store, as_json=as_json))
    wanted = Wanted(tuple(store.resolve(thread) for thread in threads), on_conflict, yes, as_json)
    ctx.exit((keep_synchronized if wants_watch else synchronize)(store, wanted))
