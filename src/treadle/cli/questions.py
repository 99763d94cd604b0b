"""Calls that need a person's yes, shown to that person.

What is asked about was written by a model, maybe on behalf of a file it has read. It is shown as it
is, with a mark in the place of each character that would steer the terminal, hide, or rearrange
others, and every line of it stands behind a bar, so that it cannot pass for the question itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from treadle.core.approval import Question, Scope

SHOWN_LENGTH_MAX: Final = 4000
"""Characters of one argument that are shown. Each has its own bound: a long one must not push
another one out of sight."""

_MARK: Final = "\N{REPLACEMENT CHARACTER}"
_BAR: Final = "  │ "
_NAMES_MAX: Final = 5


def show_question(question: Question, *, err: bool = True) -> None:
    """The call as it would run, why it is asked about, and all that may be wrong with it."""
    name = in_line(question.call.tool_name)
    risk = question.risk.name.lower()
    click.secho(f"{name} needs your approval; its risk is {risk}:", fg="yellow", err=err)
    for why in question.scope.reasons:
        click.secho(f"  careful: {visible(why)}", fg="red", err=err)
    click.secho(f"  {visible(question.reason)}", dim=True, err=err)
    if question.scope.confined:
        words = f"it would run confined: {visible(question.scope.confined)}"
        click.secho(f"  {words}", dim=True, err=err)
    told = list(_told(question.call.arguments_json))
    for text in told:
        say_behind_bar(visible(text[:SHOWN_LENGTH_MAX]), err=err)
        if len(text) > SHOWN_LENGTH_MAX:
            count = len(text) - SHOWN_LENGTH_MAX
            click.secho(f"  ... {count} more characters", fg="yellow", err=err)
    if names := [f"U+{ord(c):04X}" for c in sorted(set("".join(told))) if not _is_visible(c)]:
        shown = ", ".join(names[:_NAMES_MAX]) + (", ..." if len(names) > _NAMES_MAX else "")
        words = f"it holds characters that cannot be seen, shown as {_MARK}: {shown}"
        click.secho(f"  careful: {words}", fg="red", err=err)


def in_general(question: Question) -> str:
    """What a yes for the rest of the thread would be for; empty if the call can only be by itself.

    It is for the kinds of the call; for its whole tool only if that says nothing about its calls.
    """
    if question.scope.kinds:
        return ", ".join(f"`{in_line(kind)}`" for kind in question.scope.kinds)
    return in_line(question.call.tool_name) if question.scope == Scope() else ""


def _told(arguments_json: str) -> Iterator[str]:
    """Each argument by its name; the text itself if it is no JSON object."""
    arguments = read_object(arguments_json)
    if arguments is None:
        yield arguments_json
        return
    for name, value in arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines = text.split("\n")
        # Indented, so that a line of a value cannot pass for another argument.
        head = f"{in_line(name)}:"
        yield f"{head} {text}" if len(lines) == 1 else "\n  ".join([head, *lines])


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object in the text, as a tool would read it; `None` if it holds none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def say_behind_bar(text: str, *, err: bool = True) -> None:
    """The text, every line of it behind a bar."""
    for line in text.split("\n"):
        click.secho(f"{_BAR}{line}", fg="cyan", err=err)


def in_line(name: str) -> str:
    """A name as it is, or as JSON escapes it if it holds what cannot be seen."""
    return name if name.isprintable() else json.dumps(name)


def visible(text: str) -> str:
    """The text with a mark for each character that steers a terminal, hides or rearranges."""
    return "".join(c if _is_visible(c) else _MARK for c in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() or character in "\n\t"


def show_waiting(thread: str, questions: Sequence[Question], *, err: bool = True) -> None:
    """What a thread waits for, and the commands that answer."""
    for question in questions:
        show_question(question, err=err)
        click.secho(f"  call {in_line(question.call.id)}", dim=True, err=err)
    is_one = len(questions) == 1
    what = "it" if is_one else "all of them (or one, by its CALL behind the thread)"
    click.echo(f"to answer {what}:", err=err)
    for answer in ("--yes", "--no REASON", "--args JSON" if is_one else "CALL --args JSON"):
        click.echo(f"  treadle approve {thread} {answer}", err=err)
