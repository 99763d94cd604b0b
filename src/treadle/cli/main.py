"""The command `treadle`: the options of `-p`, and the subcommands, loaded lazily."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Final

import click

from treadle.cli import options
from treadle.cli.help_page import GROUPS, HELP
from treadle.cli.notices import print_line
from treadle.errors import TreadleError
from treadle.thread.safe_text import sanitize_text
from treadle.version import __version__

COMMANDS: Final = tuple(sorted(name for names in GROUPS.values() for name in names))
"""Each is `treadle.cli.<name>_command.command`; none is imported before it is asked for."""

WELCOME: Final = """\
Treadle: a coding agent that never loses a stitch.

  treadle                          in a terminal: talk with the agent in this folder
  treadle demo                     see it work: 30 seconds, no keys, no network
  treadle "PROMPT"                 the same, beginning with this
  treadle -p "PROMPT"              one turn in this folder; the answer goes to stdout
  treadle run "TASK"               a task, worked on until it is done
  treadle list                     threads on this machine
  treadle resume ID                go on with a thread
  treadle approve ID --yes         answer what a thread waits for, and go on
  treadle --help                   everything else
"""


PIPE_WAIT_S_MAX: Final = 0.2
"""How long a pipe may take to say something, where nothing is asked of it."""


class _LazyGroup(click.Group):
    """Lists its commands without importing them. What is no command is a prompt."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"treadle.cli.{cmd_name}_command").command
        assert isinstance(command, click.Command)
        _enable_id_completion(command)
        return command

    def get_help(self, ctx: click.Context) -> str:
        """One screen."""
        return HELP.rstrip("\n")

    def describe_all(self, ctx: click.Context) -> str:
        """Every command, in its group, and every option."""
        return super().get_help(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            found = ((name, self.get_command(ctx, name)) for name in names)
            rows = [(name, one.get_short_help_str(width)) for name, one in found if one]
            with formatter.section(title):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options, then a command with all that is its own; or a prompt, options on both sides."""
        rest = self.make_parser(ctx).parse_args([*args])[1]
        is_forced = bool(rest) and args[-len(rest) - 1 :] == ["--", *rest]
        if not rest or ctx.resilient_parsing or (rest[0] in COMMANDS and not is_forced):
            return super().parse_args(ctx, args)
        if not is_forced:
            _check_is_prompt(rest[0])
            ctx.allow_interspersed_args = True
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. Who reads no further, like `head`, has what it wanted: nothing is said."""
        if _wants_no_color():
            ctx.color = False  # for all that is told by click, in the subcommands too
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            from treadle.exit_codes import UNREAD

            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return UNREAD


def _check_is_prompt(word: str) -> None:
    """That it is said to a model costs money, so what may be a mistyped command is not.

    Raises:
        click.UsageError: it is one word, and like a command's name, or nobody is there to see.
    """
    is_word = not any(letter.isspace() for letter in word)
    if is_word and (not _is_in_terminal() or _suggest_command(word)):
        raise make_unknown_command_error(word)


def _suggest_command(name: str) -> str:
    from treadle.app.command_meanings import suggest_command

    return suggest_command(name, COMMANDS)


def make_unknown_command_error(name: str) -> click.UsageError:
    """What is meant perhaps, and how to say it to a model all the same."""
    return click.UsageError(
        f"No such command {name!r}{_suggest_command(name)}\n"
        'a prompt stands in quotes: treadle "FIX THE BUG"; a word by itself behind --: '
        f"treadle -- {name}"
    )


def _is_in_terminal() -> bool:
    """Whether one could talk here."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _enable_id_completion(command: click.Command) -> None:
    """Have a command complete ids of threads, when a shell asks what could stand at its cursor."""
    if "_TREADLE_COMPLETE" in os.environ:
        from treadle.cli.completion_values import enable_id_completion

        enable_id_completion(command)


def _wants_no_color() -> bool:
    """As https://no-color.org and terminals that know no colours say it."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    options_metavar="[OPTIONS]",
    subcommand_metavar="[PROMPT | COMMAND ...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="treadle", message="%(prog)s %(version)s")
@click.option(
    "-p", "--print", "prompt", metavar="PROMPT", help="Run one turn and print the answer."
)
@click.option(
    "-c", "--continue", "latest", is_flag=True, help="Go on with this folder's last thread."
)
@click.option(
    "-r",
    "--resume",
    "thread",
    metavar="[ID]",
    is_flag=False,
    flag_value="",
    help="Go on with this thread; without an ID, with one that is picked.",
)
@click.option("--fork", is_flag=True, help="With -r or -c: go on in a fork, and leave it as it is.")
@options.model_option(
    "provider:model, an alias, scripted:FILE or recorded:FILE. A thread keeps its model."
)
@options.folder_option
@options.worktree_option
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
@options.budget_options("this turn")
@options.run_options
@click.option("--private", is_flag=True, help="A new thread never leaves this machine.")
@click.option("--plain", is_flag=True, help="The chat as lines of text, as for a screen reader.")
@options.quiet_option
@click.option("-v", "--verbose", count=True, help="Log transitions (-v) and everything (-vv).")
@click.pass_context
def cli(ctx: click.Context, /, verbose: int, **given: Any) -> None:
    """A coding agent whose every step is durable.

    \b
    treadle "fix the failing test"
    treadle -p "fix the failing test" --approval-mode auto
    treadle run "make the test suite pass" --max-cost 2
    git diff | treadle -p "review this" -m sonnet

    PROMPT begins a conversation; where there is no terminal, it is one turn, as with -p. One word
    that is like a command's name is not taken for a prompt: `treadle -- WORD` says it.

    Exit codes: 0 done, 1 failed, 2 usage, 3 stopped by a limit, 4 a call waits for approval, 5 not
    configured, 75 try again later, 129, 130 or 143 ended by a signal.
    """  # noqa: D301  click reads the backspace
    if verbose:
        import logging

        from treadle.cli.log_redaction import configure_logging

        configure_logging(logging.DEBUG if verbose > 1 else logging.INFO)
    if ctx.invoked_subcommand is not None:
        if any(value not in (None, False, "text") for value in given.values()):
            raise click.UsageError(
                f"options of `treadle -p` stand before no command: put them after "
                f"`{ctx.invoked_subcommand}`, if it has them"
            )
        _note_use(ctx.invoked_subcommand)
        return
    is_chat = given["prompt"] is None
    if ctx.args:
        given["prompt"] = _join_prompt(ctx.args, given["prompt"])
        is_chat = _is_in_terminal()
    if is_chat:
        ctx.exit(_run_chat(given))
    if given.pop("plain"):
        raise click.UsageError("--plain is about the chat: it goes without -p")
    if given["thread"] == "":
        raise click.UsageError("-r with -p needs the ID of a thread, or -c the last one")
    given["cwd"] = options.find_work_folder(given["cwd"], given.pop("worktree"))
    from treadle.cli.turn import TurnOptions, run_turn

    ctx.exit(run_turn(TurnOptions(**given)))


def _note_use(name: str) -> None:
    """Who uses a command needs no tip about it any more."""
    if name in ("blame", "rewind", "resume"):
        from treadle.app.feature_tips import mark_used
        from treadle.app.folders import user_folders

        mark_used(user_folders(), name)


def _join_prompt(words: list[str], printed: str | None) -> str:
    """The prompt that stands among the options.

    Raises:
        click.UsageError: there is another one, or it is several words, which a shell may have
            changed.
    """
    if printed is not None:
        raise click.UsageError("there are two prompts: one behind -p, and one by itself")
    if len(words) > 1:
        raise click.UsageError('a prompt of several words stands in quotes: treadle "FIX THE BUG"')
    return words[0]


def _run_chat(given: dict[str, Any]) -> int:
    """The chat; where there is no terminal, a welcome that says what else can be done."""
    if _is_in_terminal():
        return _start_chat(given)
    if given["latest"] or given["thread"] is not None or given["fork"]:
        raise click.UsageError("this is no terminal, where one could talk: add -p PROMPT")
    if _has_piped_input():
        raise click.UsageError(
            'nobody reads what stands on standard input: use `treadle -p "PROMPT"`, which does'
        )
    click.echo(WELCOME, nl=False)
    _show_unfinished_work(given["cwd"])
    return 0


def _has_piped_input() -> bool:
    """Whether there is something on a standard input that is no terminal; waits only a moment."""
    if sys.stdin is None or sys.stdin.isatty():
        return False
    import select
    import stat

    try:
        file = sys.stdin.fileno()
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(file, 0, os.SEEK_CUR)
        is_pipe = stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)
        return (
            is_pipe
            and bool(select.select([file], [], [], PIPE_WAIT_S_MAX)[0])
            and os.read(file, 1) != b""
        )
    except (OSError, ValueError):
        return False


def _start_chat(given: dict[str, Any]) -> int:
    from treadle.terminal.chat_session import ChatOptions
    from treadle.terminal.chat_startup import run_chat

    for name in ("output_format", "record"):
        if given.pop(name) not in (None, "text"):
            words = name.replace("_", "-")
            raise click.UsageError(f"--{words} goes with -p PROMPT, or with a command")
    given["cwd"] = options.find_work_folder(given["cwd"], given.pop("worktree"))
    return run_chat(ChatOptions(**given))


def _show_unfinished_work(folder: str | None) -> None:
    """What was left unfinished in this folder, on standard error.

    Who has no threads yet waits for nothing to be imported. That threads cannot be read does not
    make a welcome fail: it is said.
    """
    from treadle.app.folders import user_folders
    from treadle.app.stores import open_store

    try:
        if not (user_folders().data / "threads").is_dir():
            return
        from treadle.app.threads.unfinished_threads import describe_pending
        from treadle.cli.host import notify

        here = str(Path(folder or ".").expanduser().resolve())
        for line in describe_pending(open_store(), here, "treadle resume", notify):
            print_line(line, err=True)
    except (TreadleError, OSError) as error:
        click.echo(f"\ntreadle: {sanitize_text(str(error))}", err=True)


def main() -> None:
    """The console script: errors become one line on stderr and an exit code."""
    _enable_id_completion(cli)
    try:
        code = cli.main(standalone_mode=False, complete_var="_TREADLE_COMPLETE")
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        said = StringIO()
        error.show(said)
        from treadle.cli.log_redaction import redact_for_log

        click.echo(sanitize_text(redact_for_log(said.getvalue())), nl=False, err=True)
        code = error.exit_code
    except TreadleError as error:
        from treadle.cli.log_redaction import redact_for_log
        from treadle.exit_codes import code_of

        print_line(f"treadle: {sanitize_text(redact_for_log(error.message))}", err=True)
        if error.hint:
            print_line(f"         {sanitize_text(redact_for_log(error.hint))}", err=True)
        code = code_of(error)
    except OSError as error:
        from treadle.cli.log_redaction import redact_for_log

        click.echo(f"treadle: {sanitize_text(redact_for_log(str(error)))}", err=True)
        code = 1
    except Exception:
        from treadle.cli.log_redaction import report_exception

        sys.excepthook = report_exception
        raise
    sys.exit(code if isinstance(code, int) else 0)
