"""The trash: threads that are shown nowhere unasked. It is left by `restore`, or by `gc` for good.

A thread gets its second name before it loses its first one, so that no crash can lose it. Where it
has both, the one among the threads counts, and what its last word is says which one goes: this is
how whoever comes next finishes the move.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from msgspec import Struct

from treadle.errors import (
    DamagedJournalError,
    DiskError,
    ReadOnlyThreadError,
    StorageBusyError,
    StoreError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX, SNAPSHOT_SUFFIX
from treadle.store.journal import convert_os_errors, sync_journal
from treadle.store.local_store import LocalStore
from treadle.store.record_adoption import drop_unfinished_line
from treadle.store.safe_rename import add_hard_link
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.codec import UnknownEntryError
from treadle.thread.facts import Restored, Trashed
from treadle.thread.fold import ThreadFold

_READ_ONLY_ERRORS: Final = (
    DamagedJournalError,
    ReadOnlyThreadError,
    UnknownEntryError,
    UnknownThreadError,
)
"""Why a thread cannot be written to. It can be moved all the same, without a record of it."""


class TrashedThread(Struct, frozen=True, omit_defaults=True):
    """A line of the trash.

    `trashed_at` is empty where no record says it: the thread could not be written to. `size` is in
    bytes, without blobs.
    """

    id: str
    trashed_at: str
    size: int
    title: str | None = None
    workspace_root: str | None = None
    problem: str = ""


class ThreadMove(Struct, frozen=True):
    """A thread that was moved, the sub-agents' threads that went with it, and what else to say."""

    id: str
    children: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _ThreadToMove(Struct):
    """A thread under its lock; without a writer if nothing can be recorded, and why so."""

    id: str
    writer: ThreadWriter | None = None
    problem: str = ""


class Trash:
    """The trash of a store.

    Args:
        store: whose threads it holds.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._folders = store.folders
        self._disk = store.folders.disk

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep other processes from moving and removing threads meanwhile.

        Raises:
            StorageBusyError: another one does.
            DiskError: there can be no lock here.
        """
        trash = self._folders.trash
        path = trash + LOCK_SUFFIX
        with convert_os_errors("make", trash):
            self._disk.make_folder(trash)
        with convert_os_errors("lock", path):
            lock = self._disk.lock(path)
        if lock is None:
            raise StorageBusyError(
                "another process moves or removes threads", hint="wait until it ends"
            )
        try:
            yield
        finally:
            self._disk.close(lock)

    # ---- looking -------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The threads in it, newest first."""
        between = set(self.list_unfinished_moves())
        return [
            thread_id
            for thread_id in self._folders.ids(in_trash=True)
            if thread_id not in between or self._is_trashed(thread_id)
        ]

    def list_unfinished_moves(self) -> list[str]:
        """Threads whose move has not ended, newest first: they have a name in both folders."""
        outside = set(self._folders.ids())
        return [one for one in self._folders.ids(in_trash=True) if one in outside]

    def list_threads(self) -> list[TrashedThread]:
        """What is in it, last trashed first. A damaged thread says so and never stops the list."""
        lines = [self._make_line(thread_id) for thread_id in self.ids()]
        return sorted(lines, key=lambda line: (line.trashed_at, line.id), reverse=True)

    def _make_line(self, thread_id: str) -> TrashedThread:
        size = sum(
            found.size
            for suffix in (JOURNAL_SUFFIX, SNAPSHOT_SUFFIX)
            if (found := self._disk.stat(self._folders.path(thread_id, suffix, in_trash=True)))
        )
        try:
            loaded = self._store.load(thread_id)
        except TreadleError as error:
            return TrashedThread(thread_id, "", size, problem=error.message)
        fold = loaded.fold
        at = fold.updated_at if fold.is_trashed else ""
        title, folder = fold.title(), fold.workspace
        return TrashedThread(thread_id, at, size, title, folder, loaded.problem)

    def find(self, text: str) -> str:
        """The one thread in the trash whose id is, or begins with, `text`.

        Raises:
            UnknownThreadError: there is none.
            AmbiguousThreadError: several do.
            UsageError: it is not in the trash.
        """
        try:
            return self._store.resolve(text, in_trash=True)
        except UnknownThreadError:
            thread_id = self._store.resolve(text)
        # Where a file has one name only, a move may have ended after its record.
        if not self._is_trashed(thread_id):
            raise UsageError(f"thread {thread_id} is not in the trash")
        return thread_id

    def _is_trashed(self, thread_id: str) -> bool:
        fold = self._load_fold(thread_id)
        return fold is not None and fold.is_trashed

    def _load_fold(self, thread_id: str) -> ThreadFold | None:
        """The thread as far as it can be read; `None` if not at all."""
        try:
            return self._store.load(thread_id).fold
        except DiskError:
            raise
        except TreadleError:
            return None

    # ---- moving --------------------------------------------------------------------------------

    def put(self, thread_ids: Sequence[str]) -> list[ThreadMove]:
        """Move threads to the trash, each with its sub-agents' threads.

        A thread that cannot be written to (damaged, or a newer program's) is moved all the same.

        Args:
            thread_ids: full ids.

        Raises:
            UnknownThreadError: there is no such thread.
            UsageError: it is there already.
            ThreadBusyError: it, or a sub-agent's, is open in another process: neither was moved.
            StorageBusyError: another process moves threads.
            StoreError: there is another thread of this id in the other place.
            DiskError: the thread is where it was, or whoever moves threads next ends this move.
        """
        return self._move_all(thread_ids, to_trash=True)

    def restore(self, thread_ids: Sequence[str]) -> list[ThreadMove]:
        """Move threads back, each with its sub-agents' threads. Raises as `put`."""
        return self._move_all(thread_ids, to_trash=False)

    def finish_moves(self) -> list[str]:
        """End the moves that a crash has cut; the lock must be held. Those that are busy wait.

        Returns:
            The threads that were moved.
        """
        done: list[str] = []
        for thread_id in self.list_unfinished_moves():
            try:
                lock = self._store.lock(thread_id)
            except ThreadBusyError:
                continue
            try:
                # What a failed sync has left may be read today and be gone tomorrow.
                sync_journal(self._disk, self._folders.find(thread_id)[0])
                held = _ThreadToMove(thread_id)
                self._move(held, to_trash=self._is_trashed(thread_id))
                done.append(thread_id)
            except DiskError:
                raise
            except StoreError:  # two different threads: nobody is asked about them here
                continue
            finally:
                self._disk.close(lock)
        return done

    def _move_all(self, thread_ids: Sequence[str], *, to_trash: bool) -> list[ThreadMove]:
        done: dict[str, ThreadMove] = {}
        gone: set[str] = set()
        with self.hold_lock():
            for thread_id in dict.fromkeys(thread_ids):
                if thread_id in gone:  # it went with the thread it works for
                    continue
                _, in_trash = self._folders.find(thread_id)
                if to_trash and in_trash:
                    raise UsageError(f"thread {thread_id} is in the trash already")
                family = self._list_with_descendants(thread_id, in_trash=in_trash)
                with ExitStack() as stack:
                    everyone = [self._lock_thread(stack, one) for one in family]
                    notes = [note for one in everyone if (note := self._move(one, to_trash))]
                gone.update(family)
                done[thread_id] = ThreadMove(thread_id, tuple(family[:-1]), tuple(notes))
            self.finish_moves()
        return list(done.values())

    def _list_with_descendants(self, thread_id: str, *, in_trash: bool) -> list[str]:
        """The thread and those of its sub-agents in the same place; who works for it before it.

        So it moves last: where a crash cuts the move, the same order again ends it.
        """
        places = set(self._folders.ids(in_trash=in_trash))
        found: dict[str, None] = {}
        todo = [thread_id]
        while todo:
            found[(one := todo.pop())] = None
            fold = self._load_fold(one)
            children = fold.children.values() if fold is not None else ()
            todo += [
                child
                for child in children
                if child in places and child not in found and self._is_child_of(child, one)
            ]
        return list(found)[::-1]

    def _is_child_of(self, child: str, parent: str) -> bool:
        fold = self._load_fold(child)
        return fold is not None and fold.header.parent == parent

    def _lock_thread(self, stack: ExitStack, thread_id: str) -> _ThreadToMove:
        try:
            writer = self._store.open_including_trash(thread_id)
        except _READ_ONLY_ERRORS as error:
            lock = self._store.lock(thread_id)
            stack.callback(self._disk.close, lock)
            return _ThreadToMove(thread_id, problem=error.message)
        stack.callback(writer.close, wants_snapshot=False)
        return _ThreadToMove(thread_id, writer)

    def _move(self, held: _ThreadToMove, to_trash: bool) -> str:
        """Give the thread its second name, record the move, take the first name.

        Returns:
            What is to be said about it; empty if nothing.
        """
        folders = (self._folders.threads, self._folders.trash)
        source, target = folders if to_trash else folders[::-1]
        names = [
            name
            for suffix in (JOURNAL_SUFFIX, SNAPSHOT_SUFFIX)
            if self._disk.stat(os.path.join(source, name := held.id + suffix)) is not None
        ]
        with convert_os_errors("move", os.path.join(source, held.id)):
            self._drop_duplicate(held.id)
            is_linked = self._link(names, source, target)
            note = self._record_move(held, to_trash=to_trash)
            if is_linked:
                self._unlink(names, source)
            else:
                self._rename(names, source, target)
        return note

    def _record_move(self, held: _ThreadToMove, *, to_trash: bool) -> str:
        """Say in the thread where it is.

        A full disk is the very reason for which threads go to the trash, so that one goes without
        the record then: where it lies says the same.
        """
        if held.writer is None:
            return f"nothing is recorded in {held.id}: {held.problem}" if held.problem else ""
        if held.writer.fold.is_trashed == to_trash:
            return ""
        try:
            held.writer.stage(Trashed() if to_trash else Restored())
            held.writer.commit()
        except DiskError as error:
            if not to_trash:
                raise
            return f"nothing is recorded in {held.id}: {error.message}"
        return ""

    def _drop_duplicate(self, thread_id: str) -> None:
        """Where a thread has two journals and not one under two names, that of the threads counts.

        The other one is dropped if all of it is in there too, but for an unfinished write.

        Raises:
            StoreError: it is not; nothing was touched.
        """
        path, other = (
            self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=in_trash)
            for in_trash in (False, True)
        )
        mine, leftover = self._disk.stat(path), self._disk.stat(other)
        if mine is None or leftover is None or mine.inode == leftover.inode:
            return
        if not self._disk.read(path).startswith(drop_unfinished_line(self._disk.read(other))):
            raise StoreError(
                f"thread {thread_id} is there twice, with different contents: {path} and {other}",
                hint="nothing was touched; move away the one that is not wanted",
            )
        self._disk.unlink(other)
        self._disk.sync_folder(self._folders.trash)

    def _link(self, names: Sequence[str], source: str, target: str) -> bool:
        """Give the files second names, durably; false where a file can have only one.

        The journal comes first and by itself: a snapshot without it would tell of lost records.
        """
        for name in names:
            if not add_hard_link(
                self._disk, os.path.join(source, name), os.path.join(target, name)
            ):
                return False
            self._disk.sync_folder(target)
        return True

    def _unlink(self, names: Sequence[str], folder: str) -> None:
        """Take the names away; the journal's last, so that no snapshot is left alone."""
        for name in reversed(names):
            self._disk.unlink(os.path.join(folder, name))
            self._disk.sync_folder(folder)

    def _rename(self, names: Sequence[str], source: str, target: str) -> None:
        """The same where a file has one name: what a snapshot holds is in the journal too."""
        self._unlink(names[1:], source)
        for name in names[:1]:
            self._disk.rename(os.path.join(source, name), os.path.join(target, name))
            self._disk.sync_folder(target)
            self._disk.sync_folder(source)
