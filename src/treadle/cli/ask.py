"""Asks a person, in a terminal: about a call that a crash left uncertain, or that needs a yes.

What is asked about was written by a model, maybe on behalf of a file it has read. It is shown as it
is, with a mark in the place of each character that would steer the terminal, hide, or rearrange
others, and every line of it stands behind a bar, so that it cannot pass for the question itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import click
import msgspec

from treadle.cli.render import describe_call
from treadle.core.approval import Approved, Modified, Question, Rejected
from treadle.core.messages import ToolCall
from treadle.runtime.recovery import Answer, Resolution
from treadle.runtime.verdict import Verdict

SHOWN_LENGTH_MAX: Final = 4000
"""Characters of one argument that are shown. Each has its own bound: a long one must not push
another one out of sight."""

_LINE_SIZE_MAX: Final = 4096
"""Bytes a terminal gives as one line."""

_MARK: Final = "\N{REPLACEMENT CHARACTER}"
_BAR: Final = "  │ "
_NAMES_MAX: Final = 5

_MEANING: Final = {
    "r": Resolution.RUN_AGAIN,
    "f": Resolution.FAILED,
    "e": Resolution.RESULT,
}

_CHOICES: Final[Mapping[str, str]] = MappingProxyType(
    {word: full[0] for full in ("yes", "no", "edit", "always") for word in (full[0], full)}
)
"""Whole words only: who types `abort` does not mean `always`."""


def is_somebody_there() -> bool:
    """Whether a question would be seen and could be answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def ask(call: ToolCall) -> Answer:
    """What to do with the call. The event loop goes on meanwhile, so that Ctrl-C is heard."""
    click.echo(
        "The process died while this was running. It may or may not have happened:", err=True
    )
    click.secho(f"  {_visible(describe_call(call))}", fg="cyan", err=True)
    word = ""
    while word not in _MEANING:
        word = (await _line("Run it again (r), count it as failed (f), or enter its result (e)"))[
            :1
        ]
    text = await _line("Its result, in a line") if word == "e" else ""
    return Answer(_MEANING[word], text)


async def decide(question: Question) -> Verdict:
    """What a person says of a call that needs a yes. The event loop goes on meanwhile.

    Lines that were typed before the question was shown are not taken for its answer.

    Raises:
        click.Abort: the input has ended; nobody answers.
    """
    call, name = question.call, _in_line(question.call.tool_name)
    _show(question, name)
    with suppress(termios.error):  # it is no terminal, or it is gone, as reading will tell
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    choices = f"yes (y), no (n), edit its arguments (e), always allow {name} in this thread (a)"
    while True:
        choice = _CHOICES.get((await _line(f"Run it? {choices}")).lower())
        if choice == "y":
            return Verdict(Approved())
        if choice == "a":
            return Verdict(Approved(), always=True)
        if choice == "n":
            return Verdict(Rejected(await _line("Why not? A line for the agent, may be empty")))
        if choice == "e" and (arguments_json := await _other_arguments(call.arguments_json)):
            return Verdict(Modified(arguments_json))


def _show(question: Question, name: str) -> None:
    """The call as it would run, and all that may be wrong with it."""
    risk = question.risk.name.lower()
    click.secho(f"{name} needs your approval; its risk is {risk}:", fg="yellow", err=True)
    click.secho(f"  {_visible(question.reason)}", dim=True, err=True)
    told = list(_told(question.call.arguments_json))
    for text in told:
        _say_behind_bar(_visible(text[:SHOWN_LENGTH_MAX]))
        if len(text) > SHOWN_LENGTH_MAX:
            count = len(text) - SHOWN_LENGTH_MAX
            click.secho(f"  ... {count} more characters", fg="yellow", err=True)
    if names := [f"U+{ord(c):04X}" for c in sorted(set("".join(told))) if not _is_visible(c)]:
        shown = ", ".join(names[:_NAMES_MAX]) + (", ..." if len(names) > _NAMES_MAX else "")
        words = f"it holds characters that cannot be seen, shown as {_MARK}: {shown}"
        click.secho(f"  careful: {words}", fg="red", err=True)


def _told(arguments_json: str) -> Iterator[str]:
    """Each argument by its name; the text itself if it is no JSON object."""
    arguments = _object(arguments_json)
    if arguments is None:
        yield arguments_json
        return
    for name, value in arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines = text.split("\n")
        # Indented, so that a line of a value cannot pass for another argument.
        head = f"{_in_line(name)}:"
        yield f"{head} {text}" if len(lines) == 1 else "\n  ".join([head, *lines])


async def _other_arguments(before: str) -> str:
    """What the person puts in the place of the arguments; empty if they think better of it."""
    arguments = _object(before)
    if arguments is not None and len(before) <= SHOWN_LENGTH_MAX:
        text = json.dumps(arguments, ensure_ascii=False)
        # To be copied and changed: what cannot be seen stands there as JSON escapes it.
        _say_behind_bar("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text))
    while True:
        line = await _line("Its arguments as a JSON object in a line; an empty line goes back")
        if not line or _object(line) is not None:
            return line
        click.secho("That is no JSON object.", fg="yellow", err=True)


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object in the text, as a tool would read it; `None` if it holds none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _say_behind_bar(text: str) -> None:
    for line in text.split("\n"):
        click.secho(f"{_BAR}{line}", fg="cyan", err=True)


def _in_line(name: str) -> str:
    """A name as it is, or as JSON escapes it if it holds what cannot be seen."""
    return name if name.isprintable() else json.dumps(name)


def _visible(text: str) -> str:
    """The text with a mark for each character that steers a terminal, hides or rearranges."""
    return "".join(c if _is_visible(c) else _MARK for c in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() or character in "\n\t"


async def _line(question: str) -> str:
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
