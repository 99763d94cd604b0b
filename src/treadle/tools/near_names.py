"""The files that may have been meant by a name that is none, told beside the failure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.paths import Root
from treadle.tools.walk import walk

ENTRY_COUNT_MAX: Final = 20_000
"""Files that are looked at; what lies behind them in a larger workspace is not found."""
COMPARED_COUNT_MAX: Final = 4_000
"""Names of which it is asked how many letters differ."""
NEAR_COUNT_MAX: Final = 5
"""Names that are told."""
LIKENESS_MIN: Final = 0.75
"""How much of two names must be the same, from 0 to 1."""
NAME_SIZE_MAX: Final = 255
"""Characters of a name; none is longer."""


@contextmanager
def with_near_names(root: Root, path: str) -> Iterator[None]:
    """Say of a file which the block does not find what there is instead.

    What is hidden from tools or ignored is not told of.
    """
    try:
        yield
    except ToolFailure as failure:
        is_outside = failure.kind is ToolErrorKind.PATH_OUTSIDE_WORKSPACE
        if failure.kind is ToolErrorKind.FILE_NOT_FOUND or (is_outside and path[:1] == "/"):
            failure.message += _describe(find_near_names(root, path, is_far=is_outside))
        raise


def find_near_names(root: Root, path: str, *, is_far: bool = False) -> list[str]:
    """Files that have the name in another folder or another case, else names that are like it.

    Args:
        root: the folder to look in.
        path: what was asked for.
        is_far: whether it is elsewhere, so that only a file of exactly the name was meant.

    Returns:
        Paths relative to the root, the likest first.
    """
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    if not parts or len(parts[-1]) > NAME_SIZE_MAX:
        return []
    names: list[str] = []
    try:
        found = (entry.path for entry in walk(root) if not entry.is_folder)
        names.extend(islice(found, ENTRY_COUNT_MAX))
    except (ToolFailure, OSError):
        return []
    wanted = parts[-1].casefold()
    same = [name for name in names if _base_of(name) == wanted]
    if same or is_far:
        same.sort(key=lambda name: (-_count_same_end(name, parts), name.count("/"), name))
        return same[:NEAR_COUNT_MAX]
    return _find_alike(names, parts)


def _base_of(name: str) -> str:
    return name.rpartition("/")[2].casefold()


def _count_same_end(name: str, parts: list[str]) -> int:
    """How many components at the end of both are the same."""
    count = 0
    for mine, theirs in zip(reversed(name.split("/")), reversed(parts), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _find_alike(names: list[str], parts: list[str]) -> list[str]:
    wanted = parts[-1].casefold()
    folder = "/".join(parts[:-1])
    by_base: dict[str, list[str]] = {}
    # Files of the folder that was asked for are looked at first, if there are too many.
    for name in sorted(names, key=lambda name: name.rpartition("/")[0] != folder):
        by_base.setdefault(_base_of(name), []).append(name)
    stem = wanted.rpartition(".")[0] or wanted
    bases = [base for base in by_base if (base.rpartition(".")[0] or base) == stem]
    compared = [*islice(by_base, COMPARED_COUNT_MAX)]
    bases += difflib.get_close_matches(wanted, compared, NEAR_COUNT_MAX, LIKENESS_MIN)
    found = [name for base in dict.fromkeys(bases) for name in by_base[base]]
    return found[:NEAR_COUNT_MAX]


def _describe(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f"; there is {', '.join(names)}" if len(names) == 1 else f"; there are {', '.join(names)}"
    )
