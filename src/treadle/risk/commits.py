"""Which uncommitted files a command takes into git's index or a commit without naming them. Pure.

`git commit -a` and `git add -A` take whatever is there, also what a person was in the middle of.
This reads the words of the command, as far as they say so; it is for a question to that person.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from treadle.risk.calls import list_calls

NAME_COUNT_MAX: Final = 5
"""Files that are named in a question; of more, their number."""

_GIT_VALUES: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})
"""Options of git itself that take the next word."""
_COMMIT_SHORT: Final = frozenset("mFCct")
"""Options of `git commit` that take the rest of their word, or the next one."""
_COMMIT_LONG: Final = frozenset(
    {"--message", "--file", "--author", "--date", "--template", "--reuse-message"}
    | {"--reedit-message", "--trailer", "--cleanup", "--fixup", "--squash", "--pathspec-from-file"}
)
_EVERYTHING: Final = frozenset({".", "./", "*", ":/", ":", "./*"})


class UncommittedFile(Struct, frozen=True):
    """A file that differs from the last commit and is not the agent's.

    `name` is relative to the workspace. `is_untracked`: git does not know it; `is_staged`: the
    next commit takes it as it is.
    """

    name: str
    is_untracked: bool = False
    is_staged: bool = False


def find_taken_files(
    command: str, files: Sequence[UncommittedFile], cwd: str = "."
) -> tuple[str, ...]:
    """The names of those of the files that a command takes along without naming them.

    Args:
        command: for bash.
        files: what is not committed and not the agent's.
        cwd: the folder in which it begins, relative to the workspace.
    """
    if not files:
        return ()
    lines = list_calls(command).lines
    # Nobody follows a shell through folders: what is named there may be anything.
    has_moved = any(line.startswith(("cd ", "pushd ")) for line in lines)
    taken: set[str] = set()
    for line in lines:
        words = line.split(" ")
        verb, rest, is_elsewhere = _read_git(words)
        place = None if has_moved or is_elsewhere else cwd
        if verb in ("add", "stage"):
            taken |= set(_taken_by_add(rest, files, place))
        elif verb == "commit":
            taken |= set(_taken_by_commit(rest, files))
    return tuple(one.name for one in files if one.name in taken)


def describe_taken_files(names: Sequence[str]) -> str:
    """What a person is told of them."""
    told = ", ".join(names[:NAME_COUNT_MAX])
    more = len(names) - NAME_COUNT_MAX
    return f"{told} and {more} more" if more > 0 else told


def _read_git(words: Sequence[str]) -> tuple[str, Sequence[str], bool]:
    """The subcommand of git with what follows it, and whether it works in another folder."""
    if words[0] != "git":
        return "", (), False
    at, is_elsewhere = 1, False
    while at < len(words) and words[at].startswith("-"):
        is_elsewhere |= words[at] in ("-C", "--work-tree") or words[at].startswith("--work-tree=")
        at += 2 if words[at] in _GIT_VALUES else 1
    return (words[at] if at < len(words) else ""), words[at + 1 :], is_elsewhere


def _taken_by_add(
    rest: Sequence[str], files: Iterable[UncommittedFile], place: str | None
) -> Iterator[str]:
    options = [word for word in rest if word.startswith("-") and word != "-"]
    named = [word for word in rest if not word.startswith("-")]
    letters = {letter for word in options if not word.startswith("--") for letter in word[1:]}
    if letters & set("np") or any(
        word in ("--dry-run", "--patch", "--refresh") for word in options
    ):
        return
    only_tracked = "u" in letters or "--update" in options
    is_all = "A" in letters or bool({"--all", "--no-ignore-removal"} & {*options})
    if not named and not (is_all or only_tracked):
        return
    for one in files:
        if one.is_untracked and only_tracked:
            continue
        if not named or any(_covers(path, one.name, place) for path in named):
            yield one.name


def _covers(path: str, name: str, place: str | None) -> bool:
    """Whether a path that a command names takes a file along that it does not name."""
    if path in _EVERYTHING or place is None:
        return posixpath.basename(path) != posixpath.basename(name)
    whole = posixpath.normpath(posixpath.join(place, path))
    if any(letter in path for letter in "*?["):
        whole = posixpath.dirname(whole) or "."
    return whole == "." or name.startswith(f"{whole}/")


def _taken_by_commit(rest: Sequence[str], files: Iterable[UncommittedFile]) -> Iterator[str]:
    is_all, names_files, is_dry = _read_commit(rest)
    if is_dry or names_files:
        return  # only these, and they are named
    for one in files:
        if one.is_staged or (is_all and not one.is_untracked):
            yield one.name


def _read_commit(rest: Sequence[str]) -> tuple[bool, bool, bool]:
    """Whether a commit takes all tracked files, names its files, and is but a rehearsal."""
    is_all = names_files = is_dry = False
    at = 0
    while at < len(rest):
        word = rest[at]
        at += 1
        if word == "--":
            return is_all, at < len(rest), is_dry
        if word.startswith("--"):
            is_all |= word == "--all"
            is_dry |= word == "--dry-run"
            at += word in _COMMIT_LONG
        elif word.startswith("-") and len(word) > 1:
            for index, letter in enumerate(word[1:], 1):
                if letter in _COMMIT_SHORT:
                    at += index == len(word) - 1
                    break
                is_all |= letter == "a"
        else:
            names_files = True
    return is_all, names_files, is_dry
