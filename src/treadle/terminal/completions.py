"""What could stand at the cursor: slash commands at the beginning, files behind an `@`."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.terminal.ports import SlashCommand

COMPLETIONS_MAX: Final = 50
"""Completions of one text."""

QUERY_LENGTH_MAX: Final = 200
"""Characters that are looked for; more are the beginning of no path that one types."""

_SLASH = re.compile(r"/([\w-]*)")
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
