"""Takes a text out of the saved states of files, so that it can be stopped anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from treadle.errors import FileStateError, StoreError
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import drafts_folder, replace_file
from treadle.workspace.files.objects import Objects
from treadle.workspace.files.rewrite import StateRewrite, purge, rewrite_chain
from treadle.workspace.files.states import REFS
from treadle.workspace.git import Repository

OLD_STATE_REFS: Final = "refs/treadle-scrub/"
"""Keeps the old states of a thread until its journal names the new ones: a scrub that was stopped
in between finds by them which new state is which."""

REMOVAL_LIST: Final = "treadle/scrub.json"
"""In a repository, while old states are being removed: what is to go. A scrub that was stopped
then knows by it what is left to remove, when nothing else leads there any more."""


class FileStateRewriter:
    """Implements `treadle.store.upkeep.scrub.FileStateScrubber`.

    Args:
        change: takes the text out of the contents of a file.
    """

    def __init__(self, change: Callable[[bytes], bytes]) -> None:
        self._change = change
        self._done: list[tuple[str, Objects, StateRewrite]] = []
        self.has_changed = False
        """Whether a state held the text."""
        self.problems: list[str] = []
        """What could not be reached, in sentences."""

    def rewrite(self, thread_id: str, workspace: str, commits: Sequence[str]) -> Mapping[str, str]:
        """See `FileStates`."""
        objects = Objects(Repository(workspace))
        try:
            done = asyncio.run(self._rewrite(thread_id, objects, commits))
        except FileStateError as error:
            if commits:
                text = f"the saved files of {thread_id} in {workspace}: {error}"
                self.problems.append(text)
            return {}
        self._done.append((thread_id, objects, done))
        self.has_changed = self.has_changed or bool(done.contents or done.named)
        if done.left_out:
            count = f"{done.left_out} file{'s' if done.left_out > 1 else ''}"
            self.problems.append(
                f"the saved files of {thread_id} in {workspace} are without {count} now: "
                "the text was in the name, and no other name was free"
            )
        return {**done.trees, **done.commits}

    async def _rewrite(
        self, thread_id: str, objects: Objects, commits: Sequence[str]
    ) -> StateRewrite:
        ref, kept = REFS + thread_id, OLD_STATE_REFS + thread_id
        tip, before = await objects.types([], own=[ref, kept])
        if before is None and tip is not None:
            await objects.set_ref(kept, tip[0], known=[tip[0]])
        old = before or tip
        asked = commits if old is None else [*commits, old[0]]
        return await rewrite_chain(objects, ref, asked, self._change)

    def remove_old(self) -> None:
        """See `FileStates`."""
        try:
            left = asyncio.run(self._remove_old())
        except (FileStateError, StoreError) as error:
            self.problems.append(f"old states of files could not be removed: {error}")
            return
        for reason in sorted(set(left.values())):
            count = sum(one == reason for one in left.values())
            self.problems.append(f"{count} contents or lists of files in the repository: {reason}")

    async def _remove_old(self) -> Mapping[str, str]:
        repositories: dict[Path, tuple[Objects, list[StateRewrite]]] = {}
        for _, objects, done in self._done:
            folder = (await objects.layout()).common_dir
            repositories.setdefault(folder, (objects, []))[1].append(done)
        for folder, (_, all_done) in repositories.items():
            before = _read_list(folder)
            self.has_changed = self.has_changed or bool(before.contents or before.named)
            all_done.append(before)
            joined = _merge_results(all_done)
            if joined.contents or joined.named:
                path = folder / REMOVAL_LIST
                path.parent.mkdir(mode=0o700, exist_ok=True)
                replace_file(PosixDisk(), str(path), msgspec.json.encode(joined))
        # A fork has the states of its base: first nothing keeps any of them, then all can go.
        for thread_id, objects, _ in self._done:
            await objects.set_ref(OLD_STATE_REFS + thread_id, None)
        left: dict[str, str] = {}
        for folder, (objects, all_done) in repositories.items():
            left.update(
                await purge(objects, await _drop_absent_trees(objects, _merge_results(all_done)))
            )
            _remove_list(folder)
        return left


def _read_list(folder: Path) -> StateRewrite:
    """What a scrub that was stopped was about to remove."""
    try:
        return msgspec.json.decode((folder / REMOVAL_LIST).read_bytes(), type=StateRewrite)
    except (FileNotFoundError, msgspec.DecodeError):
        return StateRewrite({}, {}, frozenset())


def _remove_list(folder: Path) -> None:
    (folder / REMOVAL_LIST).unlink(missing_ok=True)
    for empty in (Path(drafts_folder(str(folder / REMOVAL_LIST))), (folder / REMOVAL_LIST).parent):
        with suppress(OSError):
            empty.rmdir()


async def _drop_absent_trees(objects: Objects, done: StateRewrite) -> StateRewrite:
    """Without the old trees that are gone already."""
    names = list(done.trees)
    found = zip(names, await objects.types(names), strict=True)
    kept = {name: done.trees[name] for name, one in found if one is not None}
    return StateRewrite(done.commits, kept, done.contents, done.named)


def _merge_results(all_done: Sequence[StateRewrite]) -> StateRewrite:
    """What was done to several threads, as if they were one: they share old states."""
    return StateRewrite(
        {old: new for done in all_done for old, new in done.commits.items()},
        {old: new for done in all_done for old, new in done.trees.items()},
        frozenset().union(*(done.contents for done in all_done)),
        frozenset().union(*(done.named for done in all_done)),
    )
