"""The command line as a host: its name, who sits at its terminal, notices on standard error."""

from __future__ import annotations

import click

from treadle.app.sessions.host import Host, PersonCallbacks
from treadle.cli.question_dialog import ask_about_uncertain_call, ask_for_approval, is_interactive
from treadle.thread.safe_text import legible


def make_host() -> Host:
    """The host of the command that runs; somebody can be asked if both ends are a terminal."""
    people = (
        PersonCallbacks(ask_about_uncertain_call, ask_for_approval) if is_interactive() else None
    )
    return Host(program_name(), people, notify)


def program_name() -> str:
    """What people know this command by, as in `treadle run`; empty outside of any."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path


def notify(line: str) -> None:
    """Print a line on standard error, as a terminal may get it."""
    click.echo(legible(line), err=True)
