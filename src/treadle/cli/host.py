"""The command line as a host: its name, who sits at its terminal, notices on standard error."""

from __future__ import annotations

import click

from treadle.app.sessions.host import Host, PersonCallbacks
from treadle.cli.ask import ask, decide, is_somebody_there
from treadle.thread.safe_text import legible


def command_host() -> Host:
    """The host of the command that runs; somebody can be asked if both ends are a terminal."""
    people = PersonCallbacks(ask, decide) if is_somebody_there() else None
    return Host(program_name(), people, notify)


def program_name() -> str:
    """What people know this command by, as in `treadle run`; empty outside of any."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path


def notify(line: str) -> None:
    """Print a line on standard error, as a terminal may get it."""
    click.echo(legible(line), err=True)
