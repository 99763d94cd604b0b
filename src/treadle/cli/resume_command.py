"""`treadle resume`: go on with a thread."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli import options


@click.command("resume")
@click.argument("thread", metavar="ID")
@click.option("-p", "--print", "prompt", metavar="PROMPT", help="Say this, then print the answer.")
@options.model_option("Go on with another model.")
@options.folder_option
@options.mode_option(
    "plan: tools that only read; ask, auto-edit: asks before changes, or before commands; auto: "
    "asks nothing. Default: as before."
)
@options.format_option
@click.option(
    "--max-steps",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help="Model requests this turn may make.",
)
@options.budget_options("this turn")
@options.run_options
@options.quiet_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Go on with a thread: first what its last process left unfinished, then PROMPT if given.

    \b
    treadle resume 7c1e93f0                          finish what was left, or say the last answer
    treadle resume 7c1e93f0 -p "now the tests too"   and say something
    treadle resume 7c1e93f0 --approval-mode ask

    ID may be any unique beginning of a thread's id. A task goes on to its end, with the limits it
    was begun with; it takes no PROMPT. A command that was running when the process died is not run
    again by itself: in a terminal you are asked, otherwise the model is told. A call that needs a
    yes is asked about in a terminal; otherwise it waits on (exit code 4) for `treadle approve`.
    """  # noqa: D301  click reads the backspace
    from treadle.cli.turn import TurnOptions, run_turn

    ctx.exit(run_turn(TurnOptions(**given)))
