"""Whose changes they are: what of a dirty repository is the agent's to commit. Pure.

The rules, in the order they are asked:

1. A file that was clean before the round and is changed now was changed during the round. It is the
   agent's if one of its tools names it, or if a tool that names nothing (`bash`) succeeded. A
   process that did not see the whole round only believes in names.
2. A file that was changed before the round stays the person's, whoever edits it, unless the agent
   had left it so: a commit of it failed, and nobody has touched it since.
3. Some things are not for a commit that nobody asked for: repositories inside the repository, what
   the sandbox has put aside of a command, and compiled Python that git does not know yet.
4. Two files that cannot exist together (`a` and `a/b`) go together or not at all.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from treadle.core.tools import CompletedToolInfo
from treadle.sandbox.repositories import ASIDE
from treadle.workspace.status import StatusEntry

YOURS: Final = "had changes of yours"
PERHAPS_YOURS: Final = "may be yours (the round was interrupted)"
SUBMODULE: Final = "(a submodule)"
NESTED: Final = "(a repository of its own)"
PUT_ASIDE: Final = "(put aside: look at it, and remove it)"
COMPILED: Final = "(compiled: a line __pycache__/ in .gitignore keeps it out of sight)"
IN_THE_WAY: Final = "(in the place of changes of yours)"


class Choice(Struct, frozen=True):
    """What to commit, and why other files that the agent touched are left alone.

    `mine` stands in git's order; `withheld` has the reason for each name.
    """

    mine: tuple[StatusEntry, ...]
    withheld: Mapping[str, str]


def choose(
    changes: Mapping[str, StatusEntry],
    yours: Collection[str],
    named: Collection[str],
    *,
    takes_all: bool,
    is_whole: bool,
    kept: Collection[str] = (),
) -> Choice:
    """Sort the changes of a workspace into the agent's and the others.

    Args:
        changes: what differs from HEAD now, by name.
        yours: names of what differed before the round, without those in `kept`.
        named: what the round's tools say they wrote.
        takes_all: whether a tool that names nothing may have changed any file.
        is_whole: whether the whole round was seen; if not, only names count.
        kept: what the agent had left uncommitted before the round.
    """
    mine: dict[str, StatusEntry] = {}
    withheld: dict[str, str] = {}
    for name, change in changes.items():
        is_claimed = name in named or name in kept
        if name in yours:
            reason = YOURS if name in named else ""
        elif is_claimed or (takes_all and is_whole):
            reason = _unfit(change)
            if not reason:
                mine[name] = change
        else:
            reason = PERHAPS_YOURS if takes_all else ""
        if reason:
            withheld[name] = reason
    for name in _in_the_way(mine, changes):
        del mine[name]
        withheld[name] = IN_THE_WAY
    return Choice(tuple(mine.values()), withheld)


def _unfit(change: StatusEntry) -> str:
    if change.is_submodule:
        return SUBMODULE
    if change.path.endswith("/"):
        return NESTED
    # Every run of Python leaves these, and a young repository has no .gitignore yet.
    if change.is_untracked and "__pycache__" in change.path.split("/")[:-1]:
        return COMPILED
    # What git would have run from there is no work of the agent's.
    if any(part.endswith(ASIDE) for part in change.path.split("/")):
        return PUT_ASIDE
    return ""


def _in_the_way(mine: Mapping[str, StatusEntry], changes: Mapping[str, StatusEntry]) -> list[str]:
    """Those of mine that git can only commit together with a change that is not mine."""
    left = dict(mine)
    while True:
        others = changes.keys() - left.keys()
        above_others = set(folders_above(others))
        conflicting = [
            name
            for name in left
            if name in above_others or not others.isdisjoint(folders_above([name]))
        ]
        if not conflicting:
            return [name for name in mine if name not in left]
        for name in conflicting:
            del left[name]


def folders_above(names: Iterable[str]) -> Iterator[str]:
    """Every folder on the way to these files, without the root."""
    for name in names:
        folder = posixpath.dirname(name)
        while folder:
            yield folder
            folder = posixpath.dirname(folder)


def claims(
    completed: Iterable[CompletedToolInfo], unnamed_tools: Collection[str]
) -> tuple[list[str], bool]:
    """What the round's calls say they changed: names, and whether there may be more.

    Args:
        completed: all calls of the round. Those that failed claim nothing.
        unnamed_tools: the tools that change files without naming them.
    """
    done = [info for info in completed if info.succeeded]
    names = [path for info in done for path in info.changed]
    return names, any(info.tool_name in unnamed_tools and not info.changed for info in done)
