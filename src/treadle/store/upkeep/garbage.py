"""What may be removed for good, and removing it. Never by itself: a person is told what, first.

Two things must never happen: a fork without what it goes on from, and a record that names a blob
which is gone. So forks go before their bases, threads before the blobs they name, and a blob only
after every file that could name it has been read. Stopped anywhere, it is simply done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from treadle.errors import StoreError, ThreadBusyError, UnknownThreadError
from treadle.store.blobs import REMOVAL_SUFFIX, parse_blob_name
from treadle.store.disk import FileStat
from treadle.store.file_replacement import drafts_folder
from treadle.store.folders import (
    ADOPTION_SUFFIX,
    JOURNAL_SUFFIX,
    LOCK_SUFFIX,
    SEND_LOCK_SUFFIX,
    SNAPSHOT_SUFFIX,
)
from treadle.store.journal import convert_os_errors
from treadle.store.live_answer import remove_live_answer
from treadle.store.local_store import LocalStore
from treadle.store.safe_rename import add_hard_link
from treadle.store.thread_requests import ThreadRequests
from treadle.store.upkeep.orphaned_locks import list_orphaned_locks, remove_orphaned_lock
from treadle.store.upkeep.references import FileReferences, find_references
from treadle.store.upkeep.trash import Trash, TrashedThread

AGE_MIN: Final = timedelta(hours=1)
"""A blob or a draft younger than this is left alone: somebody may be about to name or rename it."""

_EMPTY_SUFFIXES: Final = frozenset(
    suffix[1:] for suffix in (LOCK_SUFFIX, ADOPTION_SUFFIX, SEND_LOCK_SUFFIX)
)
"""Files beside a thread that name nothing."""

FindKeepReason = Callable[[str], str]
"""(thread) -> why it must not go yet, for people; empty if it may."""

DropThread = Callable[[TrashedThread], str]
"""(thread) -> why what else is kept for it could not be let go of; empty if it is gone."""


class Leftover(Struct, frozen=True):
    """A file or folder that nothing needs: its path, and its size in bytes."""

    path: str
    size: int


class GarbagePlan(Struct, frozen=True):
    """What would be removed, and what would not and why.

    `threads` stand in the order in which they go: a fork before what it goes on from. `drafts` are
    what a process that died was writing, and the locks of threads that are gone. `caches` are
    folders: those of commands whose workspace is gone or has not been used for long. `scratch` are
    the folders that commands of threads kept which go, are gone, or were not used for long.
    """

    threads: tuple[TrashedThread, ...] = ()
    blobs: tuple[Leftover, ...] = ()
    drafts: tuple[Leftover, ...] = ()
    quarantine: tuple[Leftover, ...] = ()
    kept: tuple[str, ...] = ()
    caches: tuple[Leftover, ...] = ()
    scratch: tuple[Leftover, ...] = ()

    @property
    def size(self) -> int:
        """How many bytes that frees."""
        return sum(one.size for part in self._parts for one in part)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not any(self._parts)

    @property
    def _parts(self) -> tuple[tuple[TrashedThread | Leftover, ...], ...]:
        files = self.blobs, self.drafts, self.quarantine, self.caches, self.scratch
        return (self.threads, *files)


class GarbageOptions(Struct, frozen=True):
    """What a person wants removed.

    `days_min` leaves threads alone that came to the trash later than so many days ago.
    `has_quarantine` takes what was cut off torn journals too, which is evidence.
    """

    days_min: float = 0.0
    has_quarantine: bool = False


class GarbageCollector:
    """What nothing needs any more.

    Args:
        store: where to look.
        keeps: asked of each thread in the trash, too.
    """

    def __init__(self, store: LocalStore, keeps: FindKeepReason = lambda _: "") -> None:
        self._store = store
        self._keeps = keeps
        self._folders = store.folders
        self._disk = store.folders.disk
        self._trash = Trash(store)

    # ---- looking -------------------------------------------------------------------------------

    def plan(self, choice: GarbageOptions = GarbageOptions()) -> GarbagePlan:  # noqa: B008  frozen
        """What would go now. Changes nothing, and reads every file of every thread.

        Raises:
            StoreError: a file cannot be read, so that nobody knows what it names.
        """
        return self._make_plan(choice, None)

    def _make_plan(self, choice: GarbageOptions, agreed: frozenset[str] | None) -> GarbagePlan:
        """With `agreed`, of threads only those of these ids."""
        blobs = self._read_stats(self._folders.blobs)
        names = frozenset(map(parse_blob_name, blobs)) - {""}
        named = self._find_all_references(names)
        kept: list[str] = []
        doomed = {
            line.id: line
            for line in (self._trash.list_threads() if agreed != frozenset() else ())
            if (agreed is None or line.id in agreed) and self._is_removable(line, choice, kept)
        }
        order = _order_forks_first(doomed, named, kept)
        quarantine = self._list_quarantine(choice)
        gone = set(order) | {os.path.basename(one.path) for one in quarantine}
        needed = {blob for owner, one in named.items() if owner not in gone for blob in one.blobs}
        return GarbagePlan(
            tuple(doomed[thread_id] for thread_id in order),
            self._select_unneeded_blobs(blobs, needed, kept),
            tuple(self._list_old_drafts()),
            quarantine,
            tuple(kept),
        )

    def _is_removable(self, line: TrashedThread, choice: GarbageOptions, kept: list[str]) -> bool:
        if choice.days_min:
            oldest = datetime.fromisoformat(self._store.now()) - timedelta(days=choice.days_min)
            if not line.trashed_at or datetime.fromisoformat(line.trashed_at) > oldest:
                since = line.trashed_at[:10] or "nobody knows when"
                kept.append(f"thread {line.id}: in the trash since {since}")
                return False
        if self._store.find_holder(line.id) is not None:
            kept.append(f"thread {line.id}: another process has it open")
            return False
        if why := self._keeps(line.id):
            kept.append(f"thread {line.id}: {why}")
            return False
        return True

    def _find_all_references(self, blobs: frozenset[str]) -> dict[str, FileReferences]:
        """What is named, by who names it: a thread's id, or the name of another file.

        The threads are looked at again after the trash: none must be missed because it moved.
        """
        found: dict[str, FileReferences] = {}
        folders = self._folders
        for folder in (folders.threads, folders.trash, folders.threads):
            stats = self._read_stats(folder)
            self._refuse_unreadable_journals(folder, stats)
            for name in stats:
                thread_id, _, suffix = name.partition(".")
                is_spare = suffix == SNAPSHOT_SUFFIX[1:] and thread_id + JOURNAL_SUFFIX in stats
                if suffix not in _EMPTY_SUFFIXES and not is_spare:
                    self._add_references(found, thread_id, os.path.join(folder, name), blobs)
        kept = (folders.quarantine, folders.branches)
        for folder in (_drafts_folder(folders.threads), _drafts_folder(folders.trash), *kept):
            for name, status in self._read_stats(folder).items():
                self._add_references(found, name, os.path.join(folder, name), blobs)
                # It may be a thread that is being taken in. The end of a journal is no fork.
                if folder == folders.quarantine or not self._is_young(status):
                    found[name] = FileReferences(found[name].blobs)
        return found

    def _refuse_unreadable_journals(self, folder: str, stats: dict[str, FileStat]) -> None:
        """What has a journal's name and cannot be read as a file may name anything."""
        with convert_os_errors("list", folder):
            names = self._disk.list(folder)
        for name in names:
            path = os.path.join(folder, name)
            if (
                name.endswith(JOURNAL_SUFFIX)
                and name not in stats
                and self._disk.stat(path) is None
            ):
                raise StoreError(
                    f"{path} is no plain file: nobody knows what it names",
                    hint="nothing was removed; move it away",
                )

    def _add_references(
        self, found: dict[str, FileReferences], owner: str, path: str, blobs: frozenset[str]
    ) -> None:
        new, old = find_references(self._disk, path, blobs), found.get(owner, FileReferences())
        found[owner] = FileReferences(old.blobs | new.blobs, old.bases | new.bases)

    def _select_unneeded_blobs(
        self, stats: dict[str, FileStat], needed: set[str], kept: list[str]
    ) -> tuple[Leftover, ...]:
        blobs = {parse_blob_name(name): status for name, status in sorted(stats.items())}
        found = {name: blobs[name] for name in sorted(blobs.keys() - needed - {""})}
        old = {name: status for name, status in found.items() if not self._is_young(status)}
        if young_count := len(found) - len(old):
            plural = "" if young_count == 1 else "s"
            kept.append(
                f"{young_count} large output{plural}: from the last hour, so that a session may be "
                "about to name them"
            )
        return self._make_leftovers(self._folders.blobs, old)

    def _list_old_drafts(self) -> Iterator[Leftover]:
        for folder in (self._folders.threads, self._folders.trash, self._folders.blobs):
            stats = self._read_stats(_drafts_folder(folder))
            old = {name: found for name, found in stats.items() if not self._is_young(found)}
            yield from self._make_leftovers(_drafts_folder(folder), old)
        for path, found in list_orphaned_locks(self._folders):
            if not self._is_young(found):
                yield Leftover(path, found.size)

    def _list_quarantine(self, choice: GarbageOptions) -> tuple[Leftover, ...]:
        folder = self._folders.quarantine
        return (
            self._make_leftovers(folder, self._read_stats(folder)) if choice.has_quarantine else ()
        )

    def _make_leftovers(self, folder: str, stats: dict[str, FileStat]) -> tuple[Leftover, ...]:
        return tuple(Leftover(os.path.join(folder, name), stats[name].size) for name in stats)

    def _read_stats(self, folder: str) -> dict[str, FileStat]:
        with convert_os_errors("list", folder):
            return self._disk.stats(folder)

    def _is_young(self, found: FileStat) -> bool:
        """Younger than `AGE_MIN`, or from a time that is still to come."""
        oldest = datetime.fromisoformat(self._store.now()) - AGE_MIN
        return found.mtime_ns / 1e9 > oldest.timestamp()

    # ---- removing ------------------------------------------------------------------------------

    def remove(self, plan: GarbagePlan, choice: GarbageOptions, drop: DropThread) -> GarbagePlan:
        """Remove what the plan names, as far as it still may go, and nothing else.

        Args:
            plan: what a person has agreed to.
            choice: what it was made for.
            drop: lets go of what else is kept for a thread, which stays if that fails.

        Returns:
            What was removed, and what was kept and why.

        Raises:
            StorageBusyError: another process moves or removes threads.
            StoreError: it was stopped there; everything that is left is whole.
        """
        with self._trash.hold_lock():
            self._trash.finish_moves()
            self._restore_blobs()
            agreed = frozenset(line.id for line in plan.threads)
            seen = self._read_stats(self._folders.threads)
            now = self._make_plan(choice, agreed)
            kept = list(dict.fromkeys((*plan.kept, *now.kept)))
            threads = self._remove_threads(now.threads, drop, kept, seen)
            # What is named is looked up anew: a thread may have been kept after all.
            rest = self._make_plan(choice, frozenset())
            return GarbagePlan(
                threads,
                self._remove_blobs(_select_agreed(rest.blobs, plan.blobs)),
                self._remove_files(_select_agreed(rest.drafts, plan.drafts)),
                self._remove_files(_select_agreed(rest.quarantine, plan.quarantine)),
                tuple(kept),
            )

    def _remove_threads(
        self,
        lines: tuple[TrashedThread, ...],
        drop: DropThread,
        kept: list[str],
        seen: dict[str, FileStat],
    ) -> tuple[TrashedThread, ...]:
        """In their order; what a thread goes on from that was kept is kept too.

        `seen` are the files among the threads as they stood before it was looked up who needs whom.
        """
        done: list[TrashedThread] = []
        needed: set[str] = set()
        for line in lines:
            path = self._folders.path(line.id, JOURNAL_SUFFIX, in_trash=True)
            bases = find_references(self._disk, path).bases
            why = "a fork that was kept goes on from it" if line.id in needed else ""
            why = why or self._remove_thread(line, drop, seen)
            if why:
                kept.append(f"thread {line.id}: {why}")
                needed |= bases
            else:
                done.append(line)
        return tuple(done)

    def _remove_thread(
        self, line: TrashedThread, drop: DropThread, seen: dict[str, FileStat]
    ) -> str:
        """Why it was kept; empty if it is gone. The journal goes last and names the rest till then.

        What else is kept for it goes first, since afterwards nobody knows of it any more.
        """
        try:
            lock = self._store.lock(line.id)
        except ThreadBusyError:
            return "another process has it open"
        try:
            if not self._is_in_trash(line.id):
                return "it is not in the trash any more"
            # Whoever makes a fork from now on sees the lock, and takes it back.
            if fork := self._find_new_fork(line.id, seen):
                return f"{fork} goes on from it"
            why = drop(line)
            if why:
                return why
            remove_live_answer(self._store.places, line.id)
            ThreadRequests(self._disk, self._store.places, line.id).remove_all()
            for suffix in (SNAPSHOT_SUFFIX, JOURNAL_SUFFIX):
                path = self._folders.path(line.id, suffix, in_trash=True)
                with convert_os_errors("remove", path):
                    if self._disk.stat(path) is not None:
                        self._disk.unlink(path)
                        self._disk.sync_folder(self._folders.trash)
            # Last, so that a thread that comes back after a power cut is not taken for one's own.
            mark = self._folders.path(line.id, ADOPTION_SUFFIX)
            with convert_os_errors("remove", mark):
                if self._disk.stat(mark) is not None:
                    self._disk.unlink(mark)
        finally:
            self._disk.close(lock)
        return ""

    def _find_new_fork(self, thread_id: str, seen: dict[str, FileStat]) -> str:
        """A fork of it whose journal is not what was seen; empty if there is none.

        There is none in the trash that was not seen: whoever moves threads has to wait.
        """
        folder = self._folders.threads
        for name, status in self._read_stats(folder).items():
            if not name.endswith(JOURNAL_SUFFIX) or status == seen.get(name):
                continue
            if thread_id in find_references(self._disk, os.path.join(folder, name)).bases:
                return name.removesuffix(JOURNAL_SUFFIX)
        return ""

    def _is_in_trash(self, thread_id: str) -> bool:
        try:
            return self._folders.find(thread_id)[1]
        except UnknownThreadError:
            return False

    def _remove_blobs(self, leftovers: tuple[Leftover, ...]) -> tuple[Leftover, ...]:
        """Remove those that nobody has asked for at the last moment.

        A session that keeps the same bytes touches the blob. So the name is taken away first, and
        the time looked at then; until it is decided, the other name leads to it.
        """
        done: list[Leftover] = []
        folder = self._folders.blobs
        with convert_os_errors("remove blobs in", folder):
            for one in leftovers:
                if not add_hard_link(self._disk, one.path, one.path + REMOVAL_SUFFIX):
                    self._disk.rename(one.path, one.path + REMOVAL_SUFFIX)
            if leftovers:
                self._disk.sync_folder(folder)
            for one in leftovers:
                if self._unlink_and_check_use(one.path):
                    self._restore_blob(one.path)
                else:
                    done.append(one)
            for one in done:
                self._unlink_if_present(one.path + REMOVAL_SUFFIX)
            if leftovers:
                self._disk.sync_folder(folder)
        return tuple(done)

    def _unlink_and_check_use(self, path: str) -> bool:
        """Take the blob's name; whether somebody has touched it or made it anew before that."""
        named, aside = self._disk.stat(path), self._disk.stat(path + REMOVAL_SUFFIX)
        if named is not None:
            if aside is None or named.inode != aside.inode:
                return True
            self._disk.unlink(path)
        aside = self._disk.stat(path + REMOVAL_SUFFIX)
        return aside is not None and self._is_young(aside)

    def _restore_blob(self, path: str) -> None:
        """Let the blob have its name, durably, and nothing else."""
        if self._disk.stat(path) is None and not add_hard_link(
            self._disk, path + REMOVAL_SUFFIX, path
        ):
            self._disk.rename(path + REMOVAL_SUFFIX, path)
        self._disk.sync_folder(os.path.dirname(path))
        self._unlink_if_present(path + REMOVAL_SUFFIX)

    def _unlink_if_present(self, path: str) -> None:
        if self._disk.stat(path) is not None:
            self._disk.unlink(path)

    def _restore_blobs(self) -> None:
        """What an earlier run had put aside when it died counts as not removed."""
        folder = self._folders.blobs
        with convert_os_errors("mend", folder):
            for aside in self._disk.list(folder):
                if aside.endswith(REMOVAL_SUFFIX) and (name := parse_blob_name(aside)):
                    self._restore_blob(os.path.join(folder, name))

    def _remove_files(self, leftovers: tuple[Leftover, ...]) -> tuple[Leftover, ...]:
        for one in leftovers:
            with convert_os_errors("remove", one.path):
                if one.path.endswith(LOCK_SUFFIX):
                    remove_orphaned_lock(self._folders, one.path)
                elif self._disk.stat(one.path) is not None:
                    self._disk.unlink(one.path)
        for folder in sorted({os.path.dirname(one.path) for one in leftovers}):
            with convert_os_errors("sync", folder):
                self._disk.sync_folder(folder)
        return leftovers


def _drafts_folder(folder: str) -> str:
    return drafts_folder(os.path.join(folder, "_"))


def _select_agreed(found: tuple[Leftover, ...], plan: tuple[Leftover, ...]) -> tuple[Leftover, ...]:
    """Those of them that somebody was told of, with their size now."""
    paths = {one.path for one in plan}
    return tuple(one for one in found if one.path in paths)


def _order_forks_first(
    doomed: dict[str, TrashedThread], named: dict[str, FileReferences], kept: list[str]
) -> list[str]:
    """The threads that may go, each before what it goes on from.

    What a thread that stays goes on from stays too, and what that goes on from, and so on.
    """
    forks: dict[str, set[str]] = {}
    for owner, mentions in named.items():
        for base in mentions.bases:
            forks.setdefault(base, set()).add(owner)
    order: dict[str, None] = {}
    left = dict.fromkeys(doomed)
    while ready := [one for one in left if forks.get(one, set()) <= order.keys()]:
        order.update(dict.fromkeys(ready))
        for one in ready:
            del left[one]
    for one in left:
        names = ", ".join(sorted(forks[one] - order.keys()))
        kept.append(f"thread {one}: {names} goes on from it")
    return list(order)
