"""`treadle watch`: follow a thread while another process works on it."""

from __future__ import annotations

import click


@click.command("watch")
@click.argument("thread", metavar="ID")
@click.option(
    "--from",
    "since",
    metavar="VERSION",
    type=click.IntRange(min=1),
    help="Begin at this version; by default at the last prompt.",
)
@click.option("--keep", "is_kept", is_flag=True, help="Go on when nobody works on it any more.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each record.")
def command(thread: str, since: int | None, is_kept: bool, as_json: bool) -> None:
    """Follow a thread live, from any terminal, while another process works on it.

    \b
    treadle watch 7c1e93f0                 in another terminal, while it works
    treadle watch 7c1e93f0 --keep --json   every record, for a program

    Shows its last turn, then what is recorded as it happens: prompts, answers, calls and their
    results, approvals, commits, failures. An answer grows while it is written; with --json it
    appears when it is complete. Reads only; the process that works is not disturbed.

    Ends when no process has the thread open any more, and says how it stands then; Ctrl-C ends it
    at once.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.cli.thread_watch import watch_thread

    store = open_store()
    watch_thread(store, store.resolve(thread), since=since, as_json=as_json, is_kept=is_kept)
