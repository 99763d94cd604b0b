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
from treadle.store.blobs import ASIDE, blob_of
from treadle.store.disk import FileStat
from treadle.store.drafts import drafts_of
from treadle.store.folders import ADOPTED, JOURNAL, LOCK, SENDING, SNAPSHOT
from treadle.store.journal import told_as
from treadle.store.live import forget_live
from treadle.store.local import LocalStore
from treadle.store.safe_rename import add_name
from treadle.store.upkeep.lone_locks import lone_locks, remove_lone_lock
from treadle.store.upkeep.references import Mentions, mentions_of
from treadle.store.upkeep.trash import Trash, TrashedThread

YOUNG: Final = timedelta(hours=1)
"""A blob or a draft younger than this is left alone: somebody may be about to name or rename it."""

_NO_CONTENTS: Final = frozenset(suffix[1:] for suffix in (LOCK, ADOPTED, SENDING))
"""Files beside a thread that name nothing."""

Keeps = Callable[[str], str]
"""(thread) -> why it must not go yet, for people; empty if it may."""

Drop = Callable[[TrashedThread], str]
"""(thread) -> why what else is kept for it could not be let go of; empty if it is gone."""


class Leftover(Struct, frozen=True):
    """A file or folder that nothing needs: its path, and its size in bytes."""

    path: str
    size: int


class Plan(Struct, frozen=True):
    """What would be removed, and what would not and why.

    `threads` stand in the order in which they go: a fork before what it goes on from. `drafts` are
    what a process that died was writing, and the locks of threads that are gone. `caches` are
    folders: those of commands whose workspace is gone or has not been used for long.
    """

    threads: tuple[TrashedThread, ...] = ()
    blobs: tuple[Leftover, ...] = ()
    drafts: tuple[Leftover, ...] = ()
    quarantine: tuple[Leftover, ...] = ()
    kept: tuple[str, ...] = ()
    caches: tuple[Leftover, ...] = ()

    @property
    def size(self) -> int:
        """How many bytes that frees."""
        return sum(
            one.size
            for part in (self.threads, self.blobs, self.drafts, self.quarantine, self.caches)
            for one in part
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.threads or self.blobs or self.drafts or self.quarantine or self.caches)


class Choice(Struct, frozen=True):
    """What a person wants removed.

    `days_min` leaves threads alone that came to the trash later than so many days ago.
    `has_quarantine` takes what was cut off torn journals too, which is evidence.
    """

    days_min: float = 0.0
    has_quarantine: bool = False


class Garbage:
    """What nothing needs any more.

    Args:
        store: where to look.
        keeps: asked of each thread in the trash, too.
    """

    def __init__(self, store: LocalStore, keeps: Keeps = lambda _: "") -> None:
        self._store = store
        self._keeps = keeps
        self._folders = store.folders
        self._disk = store.folders.disk
        self._trash = Trash(store)

    # ---- looking -------------------------------------------------------------------------------

    def plan(self, choice: Choice = Choice()) -> Plan:  # noqa: B008  frozen
        """What would go now. Changes nothing, and reads every file of every thread.

        Raises:
            StoreError: a file cannot be read, so that nobody knows what it names.
        """
        return self._plan(choice, None)

    def _plan(self, choice: Choice, agreed: frozenset[str] | None) -> Plan:
        """With `agreed`, of threads only those of these ids."""
        blobs = self._stats(self._folders.blobs)
        names = frozenset(map(blob_of, blobs)) - {""}
        named = self._mentions(names)
        kept: list[str] = []
        doomed = {
            line.id: line
            for line in (self._trash.lines() if agreed != frozenset() else ())
            if (agreed is None or line.id in agreed) and self._is_wanted(line, choice, kept)
        }
        order = _forks_first(doomed, named, kept)
        quarantine = self._quarantine(choice)
        gone = set(order) | {os.path.basename(one.path) for one in quarantine}
        needed = {blob for owner, one in named.items() if owner not in gone for blob in one.blobs}
        return Plan(
            tuple(doomed[thread_id] for thread_id in order),
            self._unneeded_blobs(blobs, needed, kept),
            tuple(self._old_drafts()),
            quarantine,
            tuple(kept),
        )

    def _is_wanted(self, line: TrashedThread, choice: Choice, kept: list[str]) -> bool:
        if choice.days_min:
            oldest = datetime.fromisoformat(self._store.now()) - timedelta(days=choice.days_min)
            if not line.trashed_at or datetime.fromisoformat(line.trashed_at) > oldest:
                since = line.trashed_at[:10] or "nobody knows when"
                kept.append(f"thread {line.id}: in the trash since {since}")
                return False
        if self._store.holder(line.id) is not None:
            kept.append(f"thread {line.id}: another process has it open")
            return False
        if why := self._keeps(line.id):
            kept.append(f"thread {line.id}: {why}")
            return False
        return True

    def _mentions(self, blobs: frozenset[str]) -> dict[str, Mentions]:
        """What is named, by who names it: a thread's id, or the name of another file.

        The threads are looked at again after the trash: none must be missed because it moved.
        """
        found: dict[str, Mentions] = {}
        folders = self._folders
        for folder in (folders.threads, folders.trash, folders.threads):
            stats = self._stats(folder)
            self._refuse_strangers(folder, stats)
            for name in stats:
                thread_id, _, suffix = name.partition(".")
                is_spare = suffix == SNAPSHOT[1:] and thread_id + JOURNAL in stats
                if suffix not in _NO_CONTENTS and not is_spare:
                    self._add(found, thread_id, os.path.join(folder, name), blobs)
        kept = (folders.quarantine, folders.branches)
        for folder in (_drafts(folders.threads), _drafts(folders.trash), *kept):
            for name, status in self._stats(folder).items():
                self._add(found, name, os.path.join(folder, name), blobs)
                # It may be a thread that is being taken in. The end of a journal is no fork.
                if folder == folders.quarantine or not self._is_young(status):
                    found[name] = Mentions(found[name].blobs)
        return found

    def _refuse_strangers(self, folder: str, stats: dict[str, FileStat]) -> None:
        """What has a journal's name and cannot be read as a file may name anything."""
        with told_as("list", folder):
            names = self._disk.list(folder)
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(JOURNAL) and name not in stats and self._disk.stat(path) is None:
                raise StoreError(
                    f"{path} is no plain file: nobody knows what it names",
                    hint="nothing was removed; move it away",
                )

    def _add(
        self, found: dict[str, Mentions], owner: str, path: str, blobs: frozenset[str]
    ) -> None:
        new, old = mentions_of(self._disk, path, blobs), found.get(owner, Mentions())
        found[owner] = Mentions(old.blobs | new.blobs, old.bases | new.bases)

    def _unneeded_blobs(
        self, stats: dict[str, FileStat], needed: set[str], kept: list[str]
    ) -> tuple[Leftover, ...]:
        blobs = {blob_of(name): status for name, status in sorted(stats.items())}
        found = {name: blobs[name] for name in sorted(blobs.keys() - needed - {""})}
        old = {name: status for name, status in found.items() if not self._is_young(status)}
        if young_count := len(found) - len(old):
            plural = "" if young_count == 1 else "s"
            kept.append(
                f"{young_count} large output{plural}: from the last hour, so that a session may be "
                "about to name them"
            )
        return self._leftovers(self._folders.blobs, old)

    def _old_drafts(self) -> Iterator[Leftover]:
        for folder in (self._folders.threads, self._folders.trash, self._folders.blobs):
            stats = self._stats(_drafts(folder))
            old = {name: found for name, found in stats.items() if not self._is_young(found)}
            yield from self._leftovers(_drafts(folder), old)
        for path, found in lone_locks(self._folders):
            if not self._is_young(found):
                yield Leftover(path, found.size)

    def _quarantine(self, choice: Choice) -> tuple[Leftover, ...]:
        folder = self._folders.quarantine
        return self._leftovers(folder, self._stats(folder)) if choice.has_quarantine else ()

    def _leftovers(self, folder: str, stats: dict[str, FileStat]) -> tuple[Leftover, ...]:
        return tuple(Leftover(os.path.join(folder, name), stats[name].size) for name in stats)

    def _stats(self, folder: str) -> dict[str, FileStat]:
        with told_as("list", folder):
            return self._disk.stats(folder)

    def _is_young(self, found: FileStat) -> bool:
        """Younger than `YOUNG`, or from a time that is still to come."""
        oldest = datetime.fromisoformat(self._store.now()) - YOUNG
        return found.mtime_ns / 1e9 > oldest.timestamp()

    # ---- removing ------------------------------------------------------------------------------

    def remove(self, plan: Plan, choice: Choice, drop: Drop) -> Plan:
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
        with self._trash.held():
            self._trash.settle()
            self._put_back_blobs()
            agreed = frozenset(line.id for line in plan.threads)
            seen = self._stats(self._folders.threads)
            now = self._plan(choice, agreed)
            kept = list(dict.fromkeys((*plan.kept, *now.kept)))
            threads = self._remove_threads(now.threads, drop, kept, seen)
            # What is named is looked up anew: a thread may have been kept after all.
            rest = self._plan(choice, frozenset())
            return Plan(
                threads,
                self._remove_blobs(_agreed(rest.blobs, plan.blobs)),
                self._remove_files(_agreed(rest.drafts, plan.drafts)),
                self._remove_files(_agreed(rest.quarantine, plan.quarantine)),
                tuple(kept),
            )

    def _remove_threads(
        self,
        lines: tuple[TrashedThread, ...],
        drop: Drop,
        kept: list[str],
        seen: dict[str, FileStat],
    ) -> tuple[TrashedThread, ...]:
        """In their order; what a thread goes on from that was kept is kept too.

        `seen` are the files among the threads as they stood before it was looked up who needs whom.
        """
        done: list[TrashedThread] = []
        needed: set[str] = set()
        for line in lines:
            path = self._folders.path(line.id, JOURNAL, in_trash=True)
            bases = mentions_of(self._disk, path).bases
            why = "a fork that was kept goes on from it" if line.id in needed else ""
            why = why or self._remove_thread(line, drop, seen)
            if why:
                kept.append(f"thread {line.id}: {why}")
                needed |= bases
            else:
                done.append(line)
        return tuple(done)

    def _remove_thread(self, line: TrashedThread, drop: Drop, seen: dict[str, FileStat]) -> str:
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
            if fork := self._fork_since(line.id, seen):
                return f"{fork} goes on from it"
            why = drop(line)
            if why:
                return why
            forget_live(self._store.places, line.id)
            for suffix in (SNAPSHOT, JOURNAL):
                path = self._folders.path(line.id, suffix, in_trash=True)
                with told_as("remove", path):
                    if self._disk.stat(path) is not None:
                        self._disk.unlink(path)
                        self._disk.sync_folder(self._folders.trash)
            # Last, so that a thread that comes back after a power cut is not taken for one's own.
            mark = self._folders.path(line.id, ADOPTED)
            with told_as("remove", mark):
                if self._disk.stat(mark) is not None:
                    self._disk.unlink(mark)
        finally:
            self._disk.close(lock)
        return ""

    def _fork_since(self, thread_id: str, seen: dict[str, FileStat]) -> str:
        """A fork of it whose journal is not what was seen; empty if there is none.

        There is none in the trash that was not seen: whoever moves threads has to wait.
        """
        folder = self._folders.threads
        for name, status in self._stats(folder).items():
            if not name.endswith(JOURNAL) or status == seen.get(name):
                continue
            if thread_id in mentions_of(self._disk, os.path.join(folder, name)).bases:
                return name.removesuffix(JOURNAL)
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
        with told_as("remove blobs in", folder):
            for one in leftovers:
                if not add_name(self._disk, one.path, one.path + ASIDE):
                    self._disk.rename(one.path, one.path + ASIDE)
            if leftovers:
                self._disk.sync_folder(folder)
            for one in leftovers:
                if self._is_wanted_again(one.path):
                    self._put_back(one.path)
                else:
                    done.append(one)
            for one in done:
                self._take_name(one.path + ASIDE)
            if leftovers:
                self._disk.sync_folder(folder)
        return tuple(done)

    def _is_wanted_again(self, path: str) -> bool:
        """Take the blob's name; whether somebody has touched it or made it anew before that."""
        named, aside = self._disk.stat(path), self._disk.stat(path + ASIDE)
        if named is not None:
            if aside is None or named.inode != aside.inode:
                return True
            self._disk.unlink(path)
        aside = self._disk.stat(path + ASIDE)
        return aside is not None and self._is_young(aside)

    def _put_back(self, path: str) -> None:
        """Let the blob have its name, durably, and nothing else."""
        if self._disk.stat(path) is None and not add_name(self._disk, path + ASIDE, path):
            self._disk.rename(path + ASIDE, path)
        self._disk.sync_folder(os.path.dirname(path))
        self._take_name(path + ASIDE)

    def _take_name(self, path: str) -> None:
        if self._disk.stat(path) is not None:
            self._disk.unlink(path)

    def _put_back_blobs(self) -> None:
        """What an earlier run had put aside when it died counts as not removed."""
        folder = self._folders.blobs
        with told_as("mend", folder):
            for aside in self._disk.list(folder):
                if aside.endswith(ASIDE) and (name := blob_of(aside)):
                    self._put_back(os.path.join(folder, name))

    def _remove_files(self, leftovers: tuple[Leftover, ...]) -> tuple[Leftover, ...]:
        for one in leftovers:
            with told_as("remove", one.path):
                if one.path.endswith(LOCK):
                    remove_lone_lock(self._folders, one.path)
                elif self._disk.stat(one.path) is not None:
                    self._disk.unlink(one.path)
        for folder in sorted({os.path.dirname(one.path) for one in leftovers}):
            with told_as("sync", folder):
                self._disk.sync_folder(folder)
        return leftovers


def _drafts(folder: str) -> str:
    return drafts_of(os.path.join(folder, "_"))


def _agreed(found: tuple[Leftover, ...], plan: tuple[Leftover, ...]) -> tuple[Leftover, ...]:
    """Those of them that somebody was told of, with their size now."""
    paths = {one.path for one in plan}
    return tuple(one for one in found if one.path in paths)


def _forks_first(
    doomed: dict[str, TrashedThread], named: dict[str, Mentions], kept: list[str]
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
