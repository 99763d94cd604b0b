"""What a person reads of a call that needs a yes.

What is asked about was written by a model, maybe on behalf of a file it has read. It is shown as it
is, with a mark in the place of each character that would steer the terminal, hide, or rearrange
others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from treadle.core.approval import Question, Scope
from treadle.thread.safe_text import replace_invisible_characters

SHOWN_LENGTH_MAX: Final = 4000
"""Characters of one argument that are shown. Each has its own bound: a long one must not push
another one out of sight."""

_MARK: Final = "\N{REPLACEMENT CHARACTER}"
_NAMES_MAX: Final = 5
_GAP: Final = re.compile(r"\n(?:[^\S\n]*\n){5,}")


def describe_possible_grant(question: Question) -> str:
    """What a yes for the rest of the thread would be for; empty if the call can only be by itself.

    It is for the kinds of the call; for its whole tool only if that says nothing about its calls.
    It is for nothing if not all of the call is shown.
    """
    if question.scope.kinds:
        return ", ".join(f"`{kind}`" for kind in list_offered_kinds(question))
    if question.scope != Scope() or describe_cut(question.call.arguments_json):
        return ""
    return escape_name(question.call.tool_name)


def list_offered_kinds(question: Question) -> tuple[str, ...]:
    """The kinds a yes can be given for.

    None if one of them is not what it seems to be, or if not all of the call is shown.
    """
    kinds = question.scope.kinds
    is_plain = all(escape_name(kind) == kind for kind in kinds)
    return kinds if is_plain and not describe_cut(question.call.arguments_json) else ()


def describe_reason(question: Question) -> str:
    """Why it is asked about, in a line for whom its risk was told."""
    return question.reason.removesuffix(f"; this one is {question.risk.name.lower()}")


def collapse_gaps(text: str) -> str:
    """The text with a line in the place of many empty ones, which push the rest out of sight."""
    return _GAP.sub(lambda found: f"\n… {found[0].count(chr(10)) - 1:,} empty lines\n", text)


def describe_cut(arguments_json: str) -> str:
    """What a person is told about arguments that are longer than what is shown; else empty."""
    sizes = [len(collapse_gaps(text)) for text in list_argument_texts(arguments_json)]
    more = sum(max(0, size - SHOWN_LENGTH_MAX) for size in sizes)
    return f"{more:,} of {sum(sizes):,} characters are not shown" if more else ""


def describe_unseen(texts: Iterable[str]) -> str:
    """What a person is told about characters of the texts that are not seen; empty without any."""
    marked = ((text, mark_unseen(text)) for text in texts)
    pairs = (zip(text, told, strict=True) for text, told in marked if told != text)
    unseen = {c for pair in pairs for c, shown in pair if c != shown}
    if not unseen:
        return ""
    names = [f"U+{ord(c):04X}" for c in sorted(unseen)]
    shown = ", ".join(names[:_NAMES_MAX]) + (", ..." if len(names) > _NAMES_MAX else "")
    return f"it holds characters that cannot be seen, shown as {_MARK}: {shown}"


def list_dangers(question: Question, unshown: str = "") -> Iterator[str]:
    """What is dangerous about a call, and what of it is not seen, each in words.

    Args:
        question: the call.
        unshown: what a page or a screen leaves out of it.
    """
    yield from question.scope.reasons
    text = question.call.arguments_json
    arguments = read_object(text)
    told = [text] if arguments is None else [*_collect_strings(arguments)]
    yield from filter(None, [unshown, describe_unseen([*told, *question.scope.kinds])])


def _collect_strings(value: Any) -> Iterator[str]:
    """Every text in it, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _collect_strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _collect_strings(one)


def list_argument_texts(arguments_json: str, without: str | None = None) -> Iterator[str]:
    """Each argument by its name, but for one; the text itself if it is no JSON object."""
    arguments = read_object(arguments_json)
    if arguments is None:
        yield arguments_json
        return
    for name, value in arguments.items():
        if name == without:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines = text.split("\n")
        # Indented, so that a line of a value cannot pass for another argument.
        head = f"{escape_name(name)}:"
        yield f"{head} {text}" if len(lines) == 1 else "\n  ".join([head, *lines])


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object in the text, as a tool would read it; `None` if it holds none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def escape_name(name: str) -> str:
    """A name as it is, or as JSON escapes it if it holds what cannot be seen."""
    return (
        name
        if name.isprintable() and replace_invisible_characters(name) == name
        else json.dumps(name)
    )


def mark_unseen(text: str) -> str:
    """The text with a mark for each character that steers a terminal, hides or rearranges."""
    text = replace_invisible_characters(text)
    unseen = {ord(c): _MARK for c in set(text) if not c.isprintable() and c not in "\n\t"}
    return text.translate(unseen) if unseen else text
