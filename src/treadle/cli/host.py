"""The command line as a host: who sits at its terminal, notices on standard error."""

from __future__ import annotations

from collections.abc import Callable

import click

from treadle.answers import Verdict
from treadle.app.sessions.host import Host, PersonCallbacks
from treadle.app.stores import Store, open_store
from treadle.cli.question_dialog import ask_about_uncertain_call, ask_for_approval, is_interactive
from treadle.cli.server_question_dialog import answer_server
from treadle.core.approval import Question
from treadle.thread.safe_text import sanitize_text


def make_host(find_folder: Callable[[], str] | None = None) -> Host:
    """The host of the command that runs; somebody can be asked if both ends are a terminal.

    `find_folder` gives the folder in which calls would run, when one is asked about: by its files a
    change is shown as a diff with its lines around it.
    """

    async def approve(question: Question) -> Verdict:
        return await ask_for_approval(question, find_folder)

    asks = (ask_about_uncertain_call, approve, answer_server)
    return Host(PersonCallbacks(*asks) if is_interactive() else None, notify)


def open_command_store() -> Store:
    """The threads of this user; who finds one open is told the name of the command that runs."""
    return open_store(program_name())


def program_name() -> str:
    """What people know this command by, as in `treadle run`; empty outside of any."""
    context = click.get_current_context(silent=True)
    return "" if context is None else context.command_path


def notify(line: str) -> None:
    """Print a line on standard error, as a terminal may get it."""
    click.echo(sanitize_text(line), err=True)
