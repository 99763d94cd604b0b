"""Prompts of servers: which there are, what they take, and what is said where a person calls one.

All of it is the word of a stranger, which people read and complete: it is bounded, and nothing in
it steers a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from treadle.errors import UsageError
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from mcp_types import Prompt

PROMPT_COUNT_MAX: Final = 100
"""Prompts of a server that are offered."""
ARGUMENT_COUNT_MAX: Final = 20
WORDS_LENGTH_MAX: Final = 300
"""Characters of a description."""
TEXT_LENGTH_MAX: Final = 100_000
"""Characters of what is said for a prompt."""

_NAME: Final = re.compile(r"[\w.:-]{1,100}")
_NAMED: Final = re.compile(r"([\w.:-]{1,100})=")
_WORD: Final = re.compile(r'"([^"]*)"(?!\S)|\'([^\']*)\'(?!\S)|(\S+)')


class PromptArgument(Struct, frozen=True, omit_defaults=True):
    """A text that a prompt takes."""

    name: str
    description: str = ""
    is_required: bool = False


class ServerPrompt(Struct, frozen=True, omit_defaults=True):
    """A prompt of an MCP server, as it lists it.

    `server` is the name of the server, `name` the prompt's own; people call it `SERVER:NAME`.
    """

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.server}:{self.name}"

    @property
    def hint(self) -> str:
        """Its arguments in a line, those that may be left out in brackets."""
        return " ".join(
            one.name.upper() if one.is_required else f"[{one.name.upper()}]"
            for one in self.arguments
        )


class TypedArgument(Struct, frozen=True):
    """An argument as a person types it: its name, and what is there of it by now."""

    name: str
    value: str


def offer_prompts(server: str, listed: Iterable[Prompt]) -> tuple[ServerPrompt, ...]:
    """The prompts of a server that can be called, in the order of their names.

    Those with a name that cannot be typed are left out, and those behind the first
    `PROMPT_COUNT_MAX`.
    """
    found: dict[str, ServerPrompt] = {}
    for one in listed:
        arguments = one.arguments or []
        names = [one.name, *(argument.name for argument in arguments)]
        if len(arguments) > ARGUMENT_COUNT_MAX or not all(map(_NAME.fullmatch, names)):
            continue
        offered = ServerPrompt(
            server,
            one.name,
            _make_line(one.description or one.title or ""),
            tuple(
                PromptArgument(each.name, _make_line(each.description or ""), bool(each.required))
                for each in arguments
            ),
        )
        found.setdefault(one.name, offered)
        if len(found) >= PROMPT_COUNT_MAX:
            break
    return tuple(found[name] for name in sorted(found))


def _make_line(words: str) -> str:
    return sanitize_text(" ".join(words[: 4 * WORDS_LENGTH_MAX].split()))[:WORDS_LENGTH_MAX]


def split_arguments(prompt: ServerPrompt, typed: str) -> list[TypedArgument]:
    """The arguments in what a person typed behind the name of a prompt, in order.

    `NAME=WORD` is for the argument of this name, every other word for the first that has none yet;
    the last one that has none takes the rest. Quotes hold words together.

    Raises:
        UsageError: there are more words than it takes arguments.
    """
    left = [one.name for one in prompt.arguments]
    found: list[TypedArgument] = []
    rest = typed.strip()
    while rest:
        named = _NAMED.match(rest)
        if named is not None and named[1] in left:
            name, rest = named[1], rest[named.end() :]
        elif left:
            name = left[0]
        else:
            takes = f"/{prompt.title} {prompt.hint}".rstrip()
            raise UsageError(f"/{prompt.title} does not take {rest[:80]!r}", hint=takes)
        left.remove(name)
        word = _WORD.match(rest)
        if word is None:  # `NAME=` and nothing
            value, rest = "", rest.lstrip()
        elif not left and named is None and word.end() < len(rest):
            value, rest = rest, ""
        else:
            value = next((one for one in word.groups() if one is not None), "")
            rest = rest[word.end() :].lstrip()
        found.append(TypedArgument(name, value))
    return found


def read_arguments(prompt: ServerPrompt, typed: str) -> dict[str, str]:
    """The arguments by name.

    Raises:
        UsageError: one that is required is missing, or there are too many.
    """
    given = {one.name: one.value for one in split_arguments(prompt, typed)}
    check_arguments(prompt, given)
    return given


def check_arguments(prompt: ServerPrompt, given: dict[str, str]) -> None:
    """Raise `UsageError` for arguments that a prompt does not take, and required ones that lack."""
    takes = f"/{prompt.title} {prompt.hint}".rstrip()
    lacking = [one.name for one in prompt.arguments if one.is_required and not given.get(one.name)]
    if lacking:
        raise UsageError(f"{prompt.title} needs {', '.join(lacking)}", hint=takes)
    if unknown := sorted(given.keys() - {one.name for one in prompt.arguments}):
        raise UsageError(f"{prompt.title} does not take {', '.join(unknown)}", hint=takes)


def find_typed_argument(prompt: ServerPrompt, typed: str) -> tuple[TypedArgument, dict[str, str]]:
    """The argument that is being typed, and those before it.

    Raises:
        UsageError: there are too many.
    """
    given = split_arguments(prompt, typed)
    if given and not typed[-1:].isspace():
        *before, last = given
    else:
        before, taken = given, {one.name for one in given}
        free = [one.name for one in prompt.arguments if one.name not in taken]
        if not free:
            raise UsageError(f"/{prompt.title} takes no more arguments")
        last = TypedArgument(free[0], "")
    return last, {one.name: one.value for one in before}
