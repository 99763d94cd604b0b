"""Every file beneath a folder, in a stable order, without what `.gitignore` files leave out.

The rules are git's: the last pattern that matches decides, a deeper file outranks a shallower one,
nothing inside an ignored folder can be taken back. Files that are tracked although a pattern
matches them are left out too, since nobody asks git. Nested files count, and those above the root
up to the top of the repository; personal ones (`core.excludesFile`, `.git/info/exclude`) do not,
so that every machine sees the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from treadle.sandbox.path_rules import HiddenPlace, Identity
from treadle.tool_failure import ToolFailure
from treadle.tools.globs import compile_glob
from treadle.tools.paths import Root, open_regular

IGNORE_NAME: Final = ".gitignore"
IGNORE_SIZE_MAX: Final = 64 * 1024
"""Bytes of a `.gitignore` that are read: every name is held against every rule."""
REPOSITORY_NAME: Final = ".git"


class Entry(NamedTuple):
    """Something found, by its path relative to the root.

    A folder is an entry only where the walk stops at it. `is_regular` is false for links too.
    """

    path: str
    is_folder: bool
    is_regular: bool


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    is_kept: bool
    for_folders: bool


class _Rules(NamedTuple):
    """One `.gitignore`: `above` comes before the path for files above the root."""

    folder: str
    above: str
    rules: list[_Rule]


_Chain: TypeAlias = tuple[_Rules, ...]


def walk(
    root: Root,
    start: str = ".",
    *,
    depth: int | None = None,
    only_in: Container[str] | None = None,
    ignored: list[str] | None = None,
) -> Iterator[Entry]:
    """Yield what is beneath a folder, sorted by component; links are not followed.

    Args:
        root: the folder to stay in.
        start: where to begin; counts even if it is ignored itself.
        depth: how many levels to go down; folders of the last one are entries themselves.
        only_in: the folders beneath `start` that are entered; by default all.
        ignored: gets what `.gitignore` files leave out, folders with a slash at the end.

    Raises:
        ToolFailure: `start` cannot be listed. Folders beneath it that cannot are left out.
    """
    top = root.name_of(start)
    prefix = "" if top == "." else top + "/"
    chain = _rules_above(root.path)
    for cut in [0, *(index + 1 for index, letter in enumerate(prefix[:-1]) if letter == "/")]:
        if cut < len(prefix):
            chain += _rules_in(root, prefix[:cut])
    todo = [*_list_folder(root, prefix, chain, depth, ignored)]
    while todo:
        entry, inner_chain, levels = todo.pop()
        if not entry.is_folder or levels == 0:
            yield entry
            continue
        if only_in is not None and entry.path not in only_in:
            continue
        try:
            todo += _list_folder(root, entry.path + "/", inner_chain, levels, ignored)
        except ToolFailure:
            continue


def in_repository(path: Path) -> bool:
    """Whether git would find a repository here or further up."""
    return any((folder / REPOSITORY_NAME).exists() for folder in (path, *path.parents))


def _list_folder(
    root: Root, prefix: str, chain: _Chain, levels: int | None, ignored: list[str] | None
) -> list[tuple[Entry, _Chain, int | None]]:
    """The entries of one folder that are not ignored, last first; with what their content needs."""
    fd = root.open_folder(prefix.removesuffix("/") or ".")
    hidden = root.rules.locate().existing
    try:
        with os.scandir(fd) as found:
            entries = [
                Entry(
                    prefix + entry.name,
                    entry.is_dir(follow_symlinks=False),
                    entry.is_file(follow_symlinks=False),
                )
                for entry in found
                if entry.name != REPOSITORY_NAME and not _is_hidden(entry, hidden)
            ]
        if any(entry.path == prefix + IGNORE_NAME for entry in entries):
            chain += _read_rules(fd, prefix)
    finally:
        os.close(fd)
    rest = None if levels is None else levels - 1
    kept, left = list[tuple[Entry, _Chain, int | None]](), list[str]()
    for entry in entries:
        if not _is_ignored(entry, chain):
            kept.append((entry, chain, rest))
        elif entry.is_folder or entry.is_regular:
            left.append(f"{entry.path}/" if entry.is_folder else entry.path)
    if ignored is not None:
        ignored += sorted(left)
    return sorted(kept, key=lambda item: item[0].path, reverse=True)


def _is_hidden(entry: os.DirEntry[str], hidden: Mapping[Identity, HiddenPlace]) -> bool:
    try:
        found = entry.stat(follow_symlinks=False) if hidden else None
    except OSError:
        return False
    return found is not None and (found.st_dev, found.st_ino) in hidden


def _is_ignored(entry: Entry, chain: _Chain) -> bool:
    for folder, above, rules in reversed(chain):
        path = above + entry.path[len(folder) :]
        for rule in reversed(rules):
            if (entry.is_folder or not rule.for_folders) and rule.pattern.match(path):
                return not rule.is_kept
    return False


def _rules_in(root: Root, prefix: str) -> _Chain:
    fd = root.open_folder(prefix.removesuffix("/") or ".")
    try:
        return _read_rules(fd, prefix)
    finally:
        os.close(fd)


def _read_rules(place: int, prefix: str) -> _Chain:
    try:
        fd = open_regular(IGNORE_NAME, place)
    except (OSError, ToolFailure):
        return ()
    with os.fdopen(fd, "rb") as file:
        return (_Rules(prefix, "", _parse(file.read(IGNORE_SIZE_MAX))),)


def _rules_above(top: Path) -> _Chain:
    """The rules between the top of the repository and the root, if the root is inside one."""
    if (top / REPOSITORY_NAME).exists():
        return ()
    chain: _Chain = ()
    for folder in top.parents:
        file = folder / IGNORE_NAME
        with suppress(OSError):
            if file.is_file() and file.stat().st_size <= IGNORE_SIZE_MAX:
                above = f"{top.relative_to(folder)}/"
                chain = (_Rules("", above, _parse(file.read_bytes())), *chain)
        if (folder / REPOSITORY_NAME).exists():
            return chain
    return ()


def _parse(content: bytes) -> list[_Rule]:
    rules = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = os.fsdecode(line.removesuffix(b"\r"))
        if text.startswith("#"):
            continue
        is_kept = text.startswith("!")
        # Spaces at the end do not count, unless a backslash stands before the last of them.
        pattern = re.sub(r"(?<!\\) +\Z", "", text.removeprefix("!"))
        if pattern.strip("/"):
            rules.append(_Rule(compile_glob(pattern), is_kept, pattern.endswith("/")))
    return rules
