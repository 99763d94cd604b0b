"""`treadle eval`: prompts of recorded threads, run again with something else, and scored."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli import options
from treadle.cli.eval_output import code_of_evaluation, show_evaluation, show_list
from treadle.cli.eval_request import run_evaluation
from treadle.cli.json_output import print_json


@click.command("eval")
@click.argument("names", metavar="[list | ID[:TURN]]...", nargs=-1)
@click.option("--search", metavar="TEXT", default="", help="Threads in which this was said.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Threads that have the tag.")
@click.option(
    "--from", "file", metavar="FILE", default="", help="A file with an ID or ID:TURN in each line."
)
@options.model_option("Run them with this model.")
@click.option(
    "--instructions",
    metavar="FILE",
    type=click.Path(),
    help="What the model is told in place of the AGENTS.md files.",
)
@click.option("--leave-out", "left_out", metavar="TOOL", multiple=True, help="Do not offer it.")
@click.option(
    "--check",
    "checks",
    metavar="COMMAND",
    multiple=True,
    help="Passes if this ends with 0, run in the sandbox where the agent worked.",
)
@click.option(
    "--check-limit",
    "check_s_max",
    metavar="TIME",
    callback=options.parse_seconds,
    help="Time a check may take: 90s, 10m.  [default: 10m]",
)
@click.option(
    "--score",
    "function",
    metavar="FILE.py:NAME",
    default="",
    help="Passes if this function says True; it gets the run.",
)
@click.option("--judge", metavar="MODEL", default="", help="Passes if this model says so.")
@click.option("--rubric", metavar="TEXT", default="", help="By what it judges.")
@click.option(
    "--max-tokens",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help="Tokens that all of it may use.",
)
@click.option(
    "--max-cost",
    metavar="USD",
    callback=options.parse_dollars,
    help="US dollars that all of it may cost, as far as prices are known.",
)
@click.option(
    "--jobs", metavar="COUNT", type=click.IntRange(1, 64), help="Run so many side by side."
)
@click.option("--resume", metavar="ID", help="Go on with an evaluation.")
@click.option(
    "-C",
    "--cwd",
    metavar="FOLDER",
    type=click.Path(),
    help="Their repository is in FOLDER now, not where it was.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object at the end.",
)
@click.pass_context
def command(ctx: click.Context, /, names: tuple[str, ...], **given: Any) -> None:
    """Run prompts of recorded threads again, and say how well they went.

    \b
    treadle eval --tag good -m sonnet --check "make test"
    treadle eval 7c1e93f0:2 --instructions shorter.md --judge opus --rubric "small change, tested"
    treadle eval --resume 6023c8bd --max-cost 5
    treadle eval list

    Each turn is a case. It begins with the files as they were before it, in a git worktree of its
    own, in a fork of its thread, which is tagged eval:ID; threads, files and branches stay as they
    are. Nobody is asked anything. What has a result is not run again by --resume, with which the
    limits may be other ones. Exit codes: 0 all passed, 1 some did not, 3 stopped by a limit.
    """  # noqa: D301  click reads the backspace
    from treadle.cli.host import open_command_store

    store, as_json = open_command_store(), given["output_format"] == "json"
    if names == ("list",):
        show_list(store, as_json=as_json)
        return
    found = run_evaluation(store, names, given)
    if as_json:
        print_json(found.to_dict())
    else:
        show_evaluation(found)
    ctx.exit(code_of_evaluation(found))
