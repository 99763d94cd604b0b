"""The command `treadle`: the options of `-p`, and the subcommands, loaded lazily."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Final

import click

from treadle import __version__
from treadle.cli import options
from treadle.errors import TreadleError
from treadle.thread.legible import legible

COMMANDS: Final = (
    "admin",
    "approve",
    "blame",
    "compact",
    "completion",
    "config",
    "demo",
    "diff",
    "doctor",
    "du",
    "export",
    "fork",
    "gc",
    "graph",
    "import",
    "list",
    "log",
    "login",
    "logout",
    "models",
    "note",
    "pin",
    "private",
    "rename",
    "replay",
    "restore",
    "resume",
    "rewind",
    "run",
    "scrub",
    "search",
    "serve",
    "share",
    "show",
    "sync",
    "tag",
    "trace",
    "trash",
    "unshare",
    "verify",
    "watch",
)
"""Each is `treadle.cli.<name>_command.command`; none is imported before it is asked for."""

WELCOME: Final = """\
Treadle: a coding agent that never loses a stitch.

  treadle demo                     see it work: 30 seconds, no keys, no network
  treadle -p "PROMPT"              one turn in this folder; the answer goes to stdout
  treadle run "TASK"               a task, worked on until it is done
  treadle list                     threads on this machine
  treadle resume ID                go on with a thread
  treadle approve ID --yes         answer what a thread waits for, and go on
  treadle --help                   everything else

The interactive terminal is not part of this version yet.
"""


class _Lazy(click.Group):
    """Lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"treadle.cli.{cmd_name}_command").command
        assert isinstance(command, click.Command)
        _complete_ids(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. Who reads no further, like `head`, has what it wanted: nothing is said."""
        if _wants_no_color():
            ctx.color = False  # for all that is told by click, in the subcommands too
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            from treadle.cli.exits import UNREAD

            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return UNREAD


def _complete_ids(command: click.Command) -> None:
    """Have a command complete ids of threads, when a shell asks what could stand at its cursor."""
    if "_TREADLE_COMPLETE" in os.environ:
        from treadle.cli.completing import complete_ids

        complete_ids(command)


def _wants_no_color() -> bool:
    """As https://no-color.org and terminals that know no colours say it."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


@click.group(
    cls=_Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="treadle", message="%(prog)s %(version)s")
@click.option(
    "-p", "--print", "prompt", metavar="PROMPT", help="Run one turn and print the answer."
)
@click.option(
    "-c", "--continue", "latest", is_flag=True, help="Go on with this folder's last thread."
)
@click.option("-r", "--resume", "thread", metavar="ID", help="Go on with this thread.")
@click.option("--fork", is_flag=True, help="With -r or -c: go on in a fork, and leave it as it is.")
@options.model_option(
    "provider:model, an alias, scripted:FILE or recorded:FILE. A thread keeps its model."
)
@options.folder_option
@options.mode_option(
    "plan (default): tools that only read. ask: asks before it changes a file or runs a command. "
    "auto-edit: asks before it runs a command. auto: asks nothing. A thread keeps its mode."
)
@options.format_option
@click.option(
    "--max-steps",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help="Model requests this turn may make.",
)
@options.limit_options("this turn")
@options.run_options
@click.option("--private", is_flag=True, help="A new thread never leaves this machine.")
@click.option("-v", "--verbose", count=True, help="Log transitions (-v) and everything (-vv).")
@click.pass_context
def cli(ctx: click.Context, /, verbose: int, **given: Any) -> None:
    """A coding agent whose every step is durable.

    \b
    treadle -p "fix the failing test" --approval-mode auto
    treadle run "make the test suite pass" --max-cost 2
    git diff | treadle -p "review this" -m sonnet

    Exit codes: 0 done, 1 failed, 2 usage, 3 stopped by a limit, 4 a call waits for approval, 5 not
    configured, 75 try again later, 129, 130 or 143 ended by a signal.
    """  # noqa: D301  click reads the backspace
    if verbose:
        import logging

        from treadle.cli.unsaid import begin_log

        begin_log(logging.DEBUG if verbose > 1 else logging.INFO)
    if ctx.invoked_subcommand is not None:
        if any(value and value != "text" for value in given.values()):
            raise click.UsageError(
                f"options of `treadle -p` stand before no command: put them after "
                f"`{ctx.invoked_subcommand}`, if it has them"
            )
        return
    if given["prompt"] is None:
        if given["latest"] or given["thread"] or given["fork"]:
            raise click.UsageError(
                "the interactive terminal is not part of this version yet; add -p PROMPT"
            )
        click.echo(WELCOME, nl=False)
        given["thread"] = _unfinished(given["cwd"])
        if given["thread"] is None:
            return
    from treadle.cli.turn import TurnOptions, run_turn

    ctx.exit(run_turn(TurnOptions(**given)))


def _unfinished(folder: str | None) -> str | None:
    """The thread of this folder that a person wants to go on with, if there is one to offer.

    Who has no threads yet waits for nothing to be imported. That threads cannot be read does not
    make a welcome fail: it is said.
    """
    from treadle.store.places import Places

    try:
        if not (Places.find().data / "threads").is_dir():
            return None
        from treadle.cli.pending import offer

        return offer(str(Path(folder or ".").expanduser().resolve()))
    except (TreadleError, OSError) as error:
        click.echo(f"\ntreadle: {legible(str(error))}", err=True)
        return None


def main() -> None:
    """The console script: errors become one line on stderr and an exit code."""
    _complete_ids(cli)
    try:
        code = cli.main(standalone_mode=False, complete_var="_TREADLE_COMPLETE")
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        said = StringIO()
        error.show(said)
        from treadle.cli.unsaid import unsaid

        click.echo(legible(unsaid(said.getvalue())), nl=False, err=True)
        code = error.exit_code
    except TreadleError as error:
        from treadle.cli.exits import code_of
        from treadle.cli.unsaid import unsaid

        click.echo(f"treadle: {legible(unsaid(error.message))}", err=True)
        if error.hint:
            click.echo(f"         {legible(unsaid(error.hint))}", err=True)
        code = code_of(error)
    except OSError as error:
        from treadle.cli.unsaid import unsaid

        click.echo(f"treadle: {legible(unsaid(str(error)))}", err=True)
        code = 1
    except Exception:
        from treadle.cli.unsaid import tell_bug

        sys.excepthook = tell_bug
        raise
    sys.exit(code if isinstance(code, int) else 0)
