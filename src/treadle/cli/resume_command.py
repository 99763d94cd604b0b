"""`treadle resume`: go on with a thread."""

from __future__ import annotations

from typing import Any

import click


@click.command("resume")
@click.argument("thread", metavar="ID")
@click.option("-p", "--print", "prompt", metavar="PROMPT", help="Say this, then print the answer.")
@click.option("-m", "--model", metavar="MODEL", help="Go on with another model.")
@click.option("-C", "--cwd", metavar="FOLDER", type=click.Path(), help="Work in FOLDER instead.")
@click.option(
    "--approval-mode",
    type=click.Choice(["plan", "auto"]),
    help="plan: tools that only read; auto: all. Default: as before.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
)
@click.option("--max-steps", type=click.IntRange(min=1), help="Model requests this turn may make.")
@click.option(
    "--record", metavar="FILE", type=click.Path(), help="Keep what the model streams in FILE."
)
@click.option("--no-commit", is_flag=True, help="Do not commit what the agent changes.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Go on with a thread: first what its last process left unfinished, then PROMPT if given.

    ID may be any unique beginning of a thread's id. A command that was running when the process
    died is not run again by itself: in a terminal you are asked, otherwise the model is told.
    """
    from treadle.cli.run import RunOptions, run

    ctx.exit(run(RunOptions(**options)))
