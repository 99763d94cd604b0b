"""`treadle sync`: bring this machine's threads and the server's together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from treadle import exit_codes
from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.sync.first_sync import FirstSync, NothingSent


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
    on_conflict: Literal["merge", "fork"],
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
    treadle sync 7c1e93f0 --on-conflict fork
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.sync.first_sync import NothingSent
    from treadle.app.sync.sync_runs import SyncRunRequest, keep_synchronized, synchronize
    from treadle.app.sync.sync_status import read_sync_status
    from treadle.cli import sync_report as report

    if wants_status and (wants_watch or threads):
        raise click.UsageError("--status tells of all threads, and does nothing")
    store = open_store("treadle sync")
    if wants_status:
        ctx.exit(report.print_status(read_sync_status(store), as_json=as_json))
    ids = tuple(store.resolve(thread) for thread in threads)
    wish = SyncRunRequest(ids, on_conflict, partial(_confirm_first_sync, is_sure=yes))
    if wants_watch:
        on_outcome = report.make_outcome_printer(as_json=as_json)
        ended = keep_synchronized(
            store, wish, on_start=report.print_watch_start, on_outcome=on_outcome
        )
        ctx.exit(exit_codes.DONE if ended is None else _print_problem(ended))
    done = synchronize(store, wish, on_start=report.print_start, progress=report.print_thread_count)
    if isinstance(done, NothingSent):
        ctx.exit(_print_problem(done))
    report.print_outcome(done, as_json=as_json)
    ctx.exit(report.code_of_outcome(done))


def _confirm_first_sync(plan: FirstSync, *, is_sure: bool) -> bool | None:
    """Say what would be sent for the first time, and ask; `None` if nobody is there."""
    from treadle.cli.question_dialog import is_interactive
    from treadle.cli.sync_report import print_first_sync

    print_first_sync(plan)
    if is_sure:
        return True
    if not is_interactive():
        return None
    if click.confirm(f"Send {'it' if plan.count == 1 else 'them'}?", err=True):
        return True
    click.echo("nothing was sent", err=True)
    return False


def _print_problem(ended: NothingSent) -> int:
    if ended.problem:
        print_line(f"treadle: nothing was sent: {sanitize_text(ended.problem)}", err=True)
    return exit_codes.FAILED
