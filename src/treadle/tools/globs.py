"""Wildcards as `.gitignore` has them, compiled to regular expressions that cannot run away.

`*` and `?` stop at a slash, `**` as a whole component stands for any number of folders, `[a-z]` and
`[!a-z]` are classes, a backslash takes the next character literally. Atomic groups keep matching
fast whatever the pattern: where something fixed follows a wildcard, its first fit is as good as any
later one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure

BRACES_COUNT_MAX: Final = 64
"""Patterns that one pattern with braces may stand for: `{a,b}` doubles them each time."""

_TOKEN: Final = re.compile(
    r"""
      \\(?P<literal>.)
    | (?P<stars>\*+)
    | (?P<one>\?)
    | \[(?P<not>[!^]?)(?P<members>\]?(?:\\.|\[:\w+:\]|[^\]\\])*)\]
    | (?P<broken>\[)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_MEMBER: Final = re.compile(r"\[:(\w+):\]|(?:\\(.)|(.))(?:-(?:\\(.)|(.)))?", re.DOTALL)
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")
_NOTHING: Final = "(?!)"
_FOLDERS: Final = "(?:[^/]+/)*"
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@lru_cache(maxsize=4096)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """A regular expression that matches whole relative paths.

    Args:
        pattern: with a slash in it, or at its beginning, it is for the whole path; without, for
            the last component at any depth.
    """
    parts = pattern.strip("/").split("/")
    if "/" not in pattern.rstrip("/"):
        parts = ["**", *parts]
    return re.compile(_whole(parts) + r"\Z", re.DOTALL)


def make_filter(folder: str, pattern: str) -> Callable[[str], bool]:
    """Whether a path beneath `folder` fits a pattern that is relative to it; braces included.

    Raises:
        ToolFailure: the braces stand for too many patterns.
    """
    globs = [compile_glob(one) for one in expand_braces(pattern.removeprefix("./"))]
    begin = 0 if folder == "." else len(folder) + 1
    return lambda path: any(glob.match(path, begin) for glob in globs)


def expand_braces(pattern: str) -> list[str]:
    """`*.{py,md}` -> `*.py`, `*.md`. A tool's convenience; `.gitignore` has no braces.

    Raises:
        ToolFailure: more than `BRACES_COUNT_MAX` patterns.
    """
    done: list[str] = []
    todo = [pattern]
    while todo:
        pattern = todo.pop()
        found = _BRACES.search(pattern)
        if found is None:
            done += [pattern] * (pattern not in done)
        else:
            before, after = pattern[: found.start()], pattern[found.end() :]
            todo += [f"{before}{choice}{after}" for choice in found[1].split(",")]
        if len(todo) + len(done) > BRACES_COUNT_MAX:
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "the pattern has too many braces")
    return done


def _whole(parts: list[str]) -> str:
    """Fixed runs of components, divided by `**`; all but the last take their first fit."""
    runs = [""]
    for part in parts:
        if part == "**":
            runs.append("")
        else:
            runs[-1] += _component(part) + "/"
    first, *middles = runs
    if not middles:
        return first.removesuffix("/")
    *middles, last = middles
    fits = "".join(f"(?>(?:[^/]+/)*?{middle})" for middle in middles if middle)
    # `a/**` is everything inside `a`, `**/a` is `a` anywhere.
    return first + fits + _FOLDERS + (last.removesuffix("/") or "[^/]+")


def _component(part: str) -> str:
    """One component: what stands between two stars takes its first fit."""
    runs = [""]
    for token in _TOKEN.finditer(part):
        if token["stars"]:
            runs.append("")
        elif token["one"]:
            runs[-1] += "[^/]"
        elif token["broken"]:
            runs[-1] += _NOTHING
        elif token["members"] is not None:
            runs[-1] += _class(token["members"], is_negated=bool(token["not"]))
        else:
            runs[-1] += re.escape(token["literal"] or token["other"])
    first, *middles = runs
    if not middles:
        return first
    *middles, last = middles
    return first + "".join(f"(?>[^/]*?{run})" for run in middles if run) + "[^/]*" + last


def _class(members: str, *, is_negated: bool) -> str:
    found = ""
    for name, *ends in _MEMBER.findall(members):
        low, high = ends[0] or ends[1], ends[2] or ends[3]
        if name:
            found += _POSIX.get(name, "")
        elif not high:
            found += re.escape(low)
        elif low <= high:
            found += f"{re.escape(low)}-{re.escape(high)}"
    if not found:
        return "[^/]" if is_negated else _NOTHING
    return f"(?!/)[{'^' if is_negated else ''}{found}]"
