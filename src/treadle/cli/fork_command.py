"""`treadle fork`: a new thread that goes on from a version of another one."""

from __future__ import annotations

from functools import partial

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line
from treadle.errors import UsageError


@click.command("fork")
@click.argument("thread", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="Go on from this version.")
@click.option("--turn", type=click.IntRange(min=0), help="Go on from the end of this turn.")
@click.option("--team", "wants_team", is_flag=True, help="One of the server's; also others' ones.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the new thread, its base.")
def command(
    thread: str, version: int | None, turn: int | None, wants_team: bool, as_json: bool
) -> None:
    """Begin a new thread that goes on from another one, by default from where that stands now.

    The other thread stays as it is. Its history is not copied: the new thread names it by its hash.
    If another process has it open, the new one goes on from where nothing was under way. Prints the
    new thread's id. With --team a thread of the server is fetched, which stays here, and the new
    one goes on from that.

    \b
    treadle fork 7c1e93f0 --turn 2
    treadle fork 7c1e93f0 --team
    treadle resume NEW-ID -p "now try it with a queue"
    """  # noqa: D301  click reads the backspace
    if version is not None and turn is not None:
        raise UsageError("--version and --turn name two places", hint="give one of them")
    from treadle.app.stores import open_store
    from treadle.app.threads.forks import fork_thread

    make = fork_thread
    if wants_team:
        from treadle.app.team_copies import fork_team_thread

        make = fork_team_thread
    made = make(
        open_store(), thread, version=version, turn=turn, notify=partial(print_line, err=True)
    )
    if as_json:
        print_json({"thread": made.thread, "base": made.base})
        return
    print_line(made.thread)
    print_line(f"goes on from {made.base.thread} at version {made.base.version}", err=True)
    if not made.is_idle:
        text = "work was in the middle there: `treadle resume` takes it up as after a crash"
        print_line(text, err=True)
