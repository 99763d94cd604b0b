"""What the states of files take that git keeps for threads: bytes that no branch needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.local_store import LocalStore
from treadle.workspace.files.states import REFS
from treadle.workspace.git import Absence, Absent, Repository

REPOSITORY_COUNT_MAX: Final = 50
"""Repositories that are asked; git reads all that their states hold, which takes time."""


_WORKSPACE_TAGS: Final = (b'"thread_created"', b'"context_observed"')
_LINE_SIZE_MAX: Final = 256 * 1024
"""Bytes of a record that says where a thread works; what the end of a piece cuts is read again."""


class FileStateUsage(Struct, frozen=True):
    """What states take: in how many repositories, how many bytes, and what is not counted."""

    repositories: int = 0
    size: int = 0
    skipped: tuple[str, ...] = ()


def measure_file_states(store: LocalStore, thread_id: str | None = None) -> FileStateUsage:
    """What the states of all threads take, those in the trash too, or of one thread.

    What several threads have is there once, and counts for each of them.

    Raises:
        StoreError: the threads cannot be listed.
    """
    folders, unread = _find_folders(store, thread_id)
    return (
        asyncio.run(_measure_repositories(folders, unread))
        if folders or unread
        else FileStateUsage()
    )


class _WorkspaceField(Struct):
    workspace: str | None = None


class _WorkspaceRecord(Struct):
    event: _WorkspaceField


_decode: Final = msgspec.json.Decoder(_WorkspaceRecord).decode


def _find_folders(
    store: LocalStore, thread_id: str | None
) -> tuple[dict[str, set[str]], tuple[str, ...]]:
    """The threads by each folder they work in, or did, and what could not be read.

    Their journals say it. The index knows too, but is dear to make: it has all their texts.
    """
    found: dict[str, set[str]] = {}
    unread: list[str] = []
    for in_trash in (False, True):
        for one in store.folders.ids(in_trash=in_trash):
            if thread_id not in (None, one):
                continue
            path = store.folders.path(one, JOURNAL_SUFFIX, in_trash=in_trash)
            try:
                for folder in _read_workspaces(store, path):
                    found.setdefault(folder, set()).add(one)
            except FileNotFoundError:
                continue  # put away meanwhile, or only a snapshot is left
            except OSError as error:
                unread.append(f"{path}: {error.strerror}")
    return found, tuple(unread)


def _read_workspaces(store: LocalStore, path: str) -> Iterator[str]:
    rest = b""
    with closing(store.folders.disk.pieces(path)) as pieces:
        for piece in pieces:
            data = rest + piece
            for line in _find_lines(data):
                # In what somebody said, or in what damage has left, the words are no record.
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    if folder := _decode(line).event.workspace:
                        yield folder
            rest = data[-_LINE_SIZE_MAX:]


def _find_lines(data: bytes) -> Iterator[bytes]:
    """The whole lines of some bytes that may say where a thread works."""
    for words in _WORKSPACE_TAGS:
        place = data.find(words)
        while place >= 0:
            start = data.rfind(b"\n", max(place - _LINE_SIZE_MAX, 0), place) + 1
            end = data.find(b"\n", place, place + _LINE_SIZE_MAX)
            if end >= 0:
                yield data[start:end]
            place = data.find(words, place + _LINE_SIZE_MAX if end < 0 else end)


async def _measure_repositories(
    folders: Mapping[str, set[str]], unread: tuple[str, ...]
) -> FileStateUsage:
    repositories: dict[Path, tuple[Repository, set[str]]] = {}
    skipped = list(unread)
    for folder, ids in sorted(folders.items()):
        repository = Repository(folder)
        layout = await repository.layout()
        if not isinstance(layout, Absent):  # worktrees of one repository have one store of objects
            repositories.setdefault(layout.common_dir.resolve(), (repository, set()))[1].update(ids)
        elif layout.why not in (Absence.NO_FOLDER, Absence.NO_REPOSITORY):
            skipped.append(f"{folder}: {layout.text}")
    size = count = 0
    for place, (repository, ids) in repositories.items():
        if count == REPOSITORY_COUNT_MAX:
            skipped.append(f"{place}: only {REPOSITORY_COUNT_MAX} repositories are looked at")
            continue
        refs = await _list_refs(repository, ids)
        if not refs:
            continue
        found = await _measure_refs(repository, refs)
        if isinstance(found, str):
            skipped.append(f"{place}: {found}")
        else:
            count, size = count + 1, size + found
    return FileStateUsage(count, size, tuple(skipped))


async def _list_refs(repository: Repository, ids: set[str]) -> list[str]:
    """Those of these threads: another store may keep states in the same repository."""
    ran = await repository.read("for-each-ref", "--format=%(refname)", REFS)
    names = ran.out.decode("utf-8", "replace").splitlines()
    return [name for name in names if name.removeprefix(REFS) in ids]


async def _measure_refs(repository: Repository, refs: Sequence[str]) -> int | str:
    """Bytes on disk of what only these refs hold; or why that is not known."""
    head = await repository.read("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    known = ("--branches", "--tags", "--remotes", *(["HEAD"] if head.status == 0 else []))
    ran = await repository.read(
        *("rev-list", "--objects", "--disk-usage", "--stdin", "--not", *known),
        data="".join(f"{ref}\n" for ref in refs).encode(),
        environment={"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"},
    )
    out = ran.out.strip()
    if ran.status == 0 and out.isdigit():
        return int(out)
    if ran.was_ended:
        return "git took too long"
    said = ran.err.decode("utf-8", "replace").strip().partition("\n")[0]
    return said or f"git ended with status {ran.status}"
