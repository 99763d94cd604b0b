"""What the states of files take that git keeps for threads: bytes that no branch needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.store.index.filters import Filters
from treadle.store.index.lookup import Index
from treadle.store.local import LocalStore
from treadle.workspace.files.states import REFS
from treadle.workspace.git import Absence, Absent, Repository

REPOSITORY_COUNT_MAX: Final = 50
"""Repositories that are asked; git reads all that their states hold, which takes time."""


class StateRoom(Struct, frozen=True):
    """What states take: in how many repositories, how many bytes, and what is not counted."""

    repositories: int = 0
    size: int = 0
    skipped: tuple[str, ...] = ()


def state_room(store: LocalStore, thread_id: str | None = None) -> StateRoom:
    """What the states of all threads take, those in the trash too, or of one thread.

    What several threads have is there once, and counts for each of them.

    Raises:
        StoreError: the threads cannot be listed.
    """
    folders = _folders(store)
    if thread_id is not None:
        folders = {one: ids & {thread_id} for one, ids in folders.items() if thread_id in ids}
    return asyncio.run(_measure(folders)) if folders else StateRoom()


def _folders(store: LocalStore) -> dict[str, set[str]]:
    """The threads by the folder they work in."""
    if not (store.folders.ids(in_trash=False) or store.folders.ids(in_trash=True)):
        return {}  # so that no index is made for nothing
    index = Index(store)
    try:
        lines = [*index.threads(), *index.threads(Filters(is_trashed=True))]
    finally:
        index.close()
    found: dict[str, set[str]] = {}
    for line in lines:
        if line.workspace_root is not None:
            found.setdefault(line.workspace_root, set()).add(line.id)
    return found


async def _measure(folders: Mapping[str, set[str]]) -> StateRoom:
    repositories: dict[Path, tuple[Repository, set[str]]] = {}
    skipped: list[str] = []
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
        refs = await _refs(repository, ids)
        if not refs:
            continue
        found = await _size(repository, refs)
        if isinstance(found, str):
            skipped.append(f"{place}: {found}")
        else:
            count, size = count + 1, size + found
    return StateRoom(count, size, tuple(skipped))


async def _refs(repository: Repository, ids: set[str]) -> list[str]:
    """Those of these threads: another store may keep states in the same repository."""
    ran = await repository.read("for-each-ref", "--format=%(refname)", REFS)
    names = ran.out.decode("utf-8", "replace").splitlines()
    return [name for name in names if name.removeprefix(REFS) in ids]


async def _size(repository: Repository, refs: Sequence[str]) -> int | str:
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
