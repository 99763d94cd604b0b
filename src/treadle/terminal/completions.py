"""What could stand at the cursor: slash commands at the beginning, files behind an `@`."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.terminal.ports import SlashCommand, WordCompleter

COMPLETIONS_MAX: Final = 50
"""Completions of one text."""

QUERY_LENGTH_MAX: Final = 200
"""Characters that are looked for; more are the beginning of no path that one types."""

_SLASH = re.compile(r"/([\w.:-]*)")
_WORDS = re.compile(r"/([\w.:-]+)[ \t]+(.*)", re.DOTALL)
_FILE = re.compile(r'(?:^|(?<=\s))@("?)([^\s"]*)$')


class Completion(Struct, frozen=True):
    """One: `text` replaces what stands from `start` to the cursor; `words` tell of it.

    One that `is_final` may be sent as it is: a command that takes no argument.
    """

    text: str
    start: int
    shown: str
    words: str = ""
    is_final: bool = False


def complete_command(text: str, commands: Sequence[SlashCommand]) -> list[Completion]:
    """The commands that the text before the cursor may become."""
    if (found := _SLASH.fullmatch(text)) is None:
        return []
    begun = found[1]
    named = ((next((n for n in c.names if n.startswith(begun)), None), c) for c in commands)
    fitting = [(name, command) for name, command in named if name is not None]
    fitting.sort(key=lambda one: one[0] != begun)
    return [
        Completion(
            f"/{name}" + " " * bool(command.argument),
            0,
            f"/{name} {command.argument}".rstrip(),
            command.words,
            not command.argument,
        )
        for name, command in fitting
    ]


def takes_completion(text: str, commands: Sequence[SlashCommand]) -> bool:
    """Whether the words before the cursor are completed by the command that they are for."""
    return _find_completed(text, commands) is not None and find_mention(text) is None


def _find_completed(
    text: str, commands: Sequence[SlashCommand]
) -> tuple[WordCompleter, str] | None:
    if (found := _WORDS.fullmatch(text)) is None:
        return None
    named = (one.complete for one in commands if found[1] in one.names)
    complete = next((one for one in named if one is not None), None)
    return None if complete is None else (complete, found[2])


async def complete_argument(
    text: str, commands: Sequence[SlashCommand], *, may_be_empty: bool
) -> list[Completion]:
    """What the last word may become, by the command that it is for; one with spaces is quoted.

    Args:
        text: what stands before the cursor.
        commands: those there are.
        may_be_empty: whether words are told of which nothing is typed yet.
    """
    if (found := _find_completed(text, commands)) is None:
        return []
    complete, words = found
    begun, values = await complete(words)
    if not (begun or may_be_empty) or not text.endswith(begun):
        return []
    quoted = [f'"{one}"' if " " in one else one for one in values[:COMPLETIONS_MAX]]
    return [Completion(f"{one} ", len(text) - len(begun), one) for one in quoted]


def find_mention(text: str) -> str | None:
    """What is typed behind an `@` that ends at the cursor; `None` without one."""
    found = _FILE.search(text)
    return found and found[2]


def complete_file(text: str, paths: Sequence[str]) -> list[Completion]:
    """The files that the `@` before the cursor may mean, the likeliest first."""
    found = _FILE.search(text)
    if found is None:
        return []
    return [
        Completion(f'@"{path}" ' if " " in path else f"@{path} ", found.start(), path)
        for path in rank_paths(found[2], paths)
    ]


def rank_paths(typed: str, paths: Sequence[str]) -> list[str]:
    """The paths that have the typed characters in this order: `COMPLETIONS_MAX`, likeliest first.

    A name that begins with them is before a name that has them together, a path that has them
    together, and one that has them apart; shorter is before longer. Capitals do not matter.
    """
    wanted = typed.lower()
    if len(wanted) > QUERY_LENGTH_MAX:
        return []
    # Each character up to its first place and never back: a path is read once, whatever is typed.
    has_letters = re.compile("".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted)).match
    scored = []
    for path in paths:
        low = path.lower()
        if has_letters(low):
            scored.append((_rank_of(wanted, low), len(path), path))
    return [path for _, _, path in heapq.nsmallest(COMPLETIONS_MAX, scored)]


def _rank_of(wanted: str, path: str) -> int:
    name = path.rstrip("/").rpartition("/")[2]
    if name.startswith(wanted):
        return 0
    if wanted in name:
        return 1
    return 2 if wanted in path else 3
