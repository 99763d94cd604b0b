"""Asks a person, in a terminal: about a call that a crash left uncertain, or that needs a yes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from treadle.answers import Answer, Resolution, Verdict
from treadle.app.threads.call_changes import make_file_reader
from treadle.app.threads.call_diffs import preview_diff
from treadle.app.threads.call_text import describe_call
from treadle.cli.question_output import print_with_bar, show_question, show_risk_details
from treadle.core.approval import Approved, Modified, Question, Rejected
from treadle.thread.question_text import (
    SHOWN_LENGTH_MAX,
    describe_possible_grant,
    mark_unseen,
    read_object,
)

_LINE_SIZE_MAX: Final = 4096
"""Bytes a terminal gives as one line."""

_RESOLUTIONS: Final = {
    "r": Resolution.RUN_AGAIN,
    "f": Resolution.FAILED,
    "e": Resolution.RESULT,
}

_CHOICES: Final[Mapping[str, str]] = MappingProxyType(
    {word: full[0] for full in ("yes", "no", "edit", "always") for word in (full[0], full)}
)
"""Whole words only: who types `abort` does not mean `always`."""


def is_interactive() -> bool:
    """Whether a question would be seen and could be answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def ask_about_uncertain_call(question: Question) -> Answer:
    """What to do with the call. The event loop goes on meanwhile, so that Ctrl-C is heard."""
    click.echo(
        "The process died while this was running. It may or may not have happened:", err=True
    )
    click.secho(f"  {mark_unseen(describe_call(question.call))}", fg="cyan", err=True)
    risk = question.risk.name.lower()
    click.secho(f"  to run it again has a risk that is {risk}", dim=True, err=True)
    show_risk_details(question)
    word = ""
    while word not in _RESOLUTIONS:
        word = (
            await read_line("Run it again (r), count it as failed (f), or enter its result (e)")
        )[:1]
    text = await read_line("Its result, in a line") if word == "e" else ""
    return Answer(_RESOLUTIONS[word], text)


async def ask_for_approval(
    question: Question, find_folder: Callable[[], str] | None = None
) -> Verdict:
    """What a person says of a call that needs a yes. The event loop goes on meanwhile.

    Lines that were typed before the question was shown are not taken for its answer.

    Args:
        question: the question.
        find_folder: gives the folder whose files the call would change; without it a change is
            shown by its arguments alone.

    Raises:
        click.Abort: the input has ended; nobody answers.
    """
    call, general = question.call, describe_possible_grant(question)
    read = None if find_folder is None else make_file_reader(Path(find_folder()))
    show_question(question, preview_diff(call, read), is_whole=True)
    drop_typed_lines()
    always = f", always {general} in this thread (a)" if general else ""
    choices = f"yes (y){always}, edit its arguments (e), no, and what to do instead (n)"
    while True:
        choice = _CHOICES.get((await read_line(f"Run it? {choices}")).lower())
        if choice == "y":
            return Verdict(Approved())
        if choice == "a" and general:
            return Verdict(Approved(), always=True, kinds=question.scope.kinds)
        if choice == "n":
            return Verdict(Rejected(await read_line("What to do instead? It may be empty")))
        if choice == "e" and (arguments_json := await _read_arguments(call.arguments_json)):
            return Verdict(Modified(arguments_json))


def drop_typed_lines() -> None:
    """Take nothing for an answer that was typed before its question was shown."""
    with suppress(termios.error):  # it is no terminal, or it is gone, as reading will tell
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _read_arguments(before: str) -> str:
    """What the person puts in the place of the arguments; empty if they think better of it."""
    arguments = read_object(before)
    if arguments is not None and len(before) <= SHOWN_LENGTH_MAX:
        text = json.dumps(arguments, ensure_ascii=False)
        # To be copied and changed: what cannot be seen stands there as JSON escapes it.
        print_with_bar("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text))
    while True:
        line = await read_line("Its arguments as a JSON object in a line; an empty line goes back")
        if not line or read_object(line) is not None:
            return line
        click.secho("That is no JSON object.", fg="yellow", err=True)


async def read_line(question: str) -> str:
    """A line from the terminal; the end of input means that nobody answers."""
    click.echo(f"{question}: ", nl=False, err=True)
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    arrived: asyncio.Future[None] = loop.create_future()

    def has_line() -> None:
        if not arrived.done():
            arrived.set_result(None)

    loop.add_reader(terminal, has_line)
    try:
        await arrived
    finally:
        loop.remove_reader(terminal)
    data = os.read(terminal, _LINE_SIZE_MAX)
    if not data:
        raise click.Abort
    return data.decode(errors="replace").strip()
