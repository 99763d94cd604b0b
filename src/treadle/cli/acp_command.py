"""`treadle acp`: serve an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import sys

import click

from treadle.cli import options
from treadle.config.settings import ApprovalMode


@click.command("acp")
@options.model_option("Which model answers in new sessions; the editor can choose another one.")
@options.mode_option(
    "What the agent of a new session may do unasked: plan, ask (default), auto-edit or auto. The "
    "editor can choose another one."
)
@click.option("--no-commit", is_flag=True, help="Commit nothing of what the agent changes.")
@click.pass_context
def command(
    ctx: click.Context, /, model: str | None, approval_mode: ApprovalMode | None, no_commit: bool
) -> None:
    """Serve an editor: the Agent Client Protocol on standard input and output.

    \b
    treadle acp                    what Zed, JetBrains, Neovim or Emacs start
    treadle acp -m sonnet          the same, with this model in new sessions

    A session of the editor is a thread of this machine: `treadle list` shows it, and `treadle
    resume` goes on with it. Standard output carries the protocol alone; what else there is to say
    goes to standard error. docs/editors.md has the settings of each editor.
    """  # noqa: D301  click reads the backspace
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "an editor starts this, and talks with it through a pipe; in a terminal: treadle"
        )
    import logging

    from treadle.acp.server import serve
    from treadle.app.editors.held_thread import EditorChoice
    from treadle.cli.host import open_command_store
    from treadle.cli.log_redaction import configure_logging, redact_for_log

    configure_logging(logging.WARNING)
    choice = EditorChoice(model, approval_mode, no_commit)
    ctx.exit(serve(open_command_store(), choice, redact_for_log))
