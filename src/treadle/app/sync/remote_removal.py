"""What becomes of what is kept for a thread elsewhere when it is removed: in git, on a server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from treadle.errors import TreadleError
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.trash import TrashedThread
from treadle.sync.credentials import find_account, is_logged_in
from treadle.workspace.files.states import FileStates
from treadle.workspace.git import Absence, Absent, Repository


def make_unsynced_check(store: LocalStore) -> Callable[[str], str]:
    """Says why a thread must stay until a sync: the server has a copy, and takes it for wanted.

    Only the server that this machine is logged in to counts; without one nothing stays for that.
    """
    if not is_logged_in(store.places, os.environ):
        return lambda _: ""
    from treadle.app.sync.sync_cursors import open_cursors
    from treadle.sync.thread_comparison import read_journal_end

    try:
        account = find_account(store.places, os.environ)
    except TreadleError as error:
        why = f"the server may have a copy: {error.message}"
        return lambda _: why
    if account is None:
        return lambda _: ""
    cursors = open_cursors(store, account)

    def why_not(thread_id: str) -> str:
        cursor = cursors.get(thread_id)
        if cursor is None or cursor.is_purged:
            return ""
        end = read_journal_end(store.folders.disk, store.folders.find(thread_id)[0])
        is_known = end is None or (end.seq, end.hash) == (cursor.seq, cursor.hash)
        return "" if is_known else f"{account.url} does not know yet: `treadle sync` first"

    return why_not


class ThreadFileStates(Struct, frozen=True):
    """The states of a thread's files in a folder; `why` says why they are kept, if they are."""

    thread: str
    folder: str
    why: str = ""


class FileStateRemover:
    """Finds the states of threads that are removed for good, and lets go of them.

    A repository keeps them under the thread's id, and a thread may be on a machine twice: where it
    was made, and where it was imported to. So they go only with what has recorded the last of them,
    and not with a copy that nobody has worked on.

    Args:
        store: where the threads are.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self.done: list[ThreadFileStates] = []
        """What `drop` has let go of, or left."""

    def find_states(self, lines: Sequence[TrashedThread]) -> list[ThreadFileStates]:
        """What there is for these threads; what cannot be looked at is told when it is dropped."""
        found: list[ThreadFileStates] = []
        for line in lines:
            try:
                states = asyncio.run(self._read_states(line))
            except TreadleError:
                continue
            if states is not None:
                found.append(states[0])
        return found

    def drop_states(self, line: TrashedThread) -> str:
        """Let go of a thread's; why the thread must stay, if that failed.

        Where there is no repository any more there are no states either.
        """

        async def drop() -> None:
            found = await self._read_states(line)
            if found is None:
                return
            states, tip = found
            if not states.why:
                await FileStates(states.folder, line.id).drop(tip=tip)
            self.done.append(states)

        try:
            asyncio.run(drop())
        except TreadleError as error:
            return f"the states of its files could not be let go of: {error.message}"
        return ""

    async def _read_states(self, line: TrashedThread) -> tuple[ThreadFileStates, str] | None:
        """Those of a thread, and the last of them.

        Raises:
            TreadleError: nobody can say.
        """
        for folder in self._list_folders(line):
            layout = await Repository(folder).layout()
            if not isinstance(layout, Absent):
                break
            if layout.why not in (Absence.NO_FOLDER, Absence.NO_REPOSITORY):
                raise TreadleError(f"they are in {folder}, and {layout.text}")
        else:
            return None
        tip = await FileStates(folder, line.id).tip()
        if tip is None:
            return None
        if self._store.adopted.is_foreign(line.id):
            why = (
                f"file states in {folder}: thread {line.id} was imported, they are of its original"
            )
            return ThreadFileStates(line.id, folder, why), tip
        if self._has_recorded(line.id, tip):
            return ThreadFileStates(line.id, folder), tip
        why = f"file states in {folder}: another copy of thread {line.id} goes on from them"
        return ThreadFileStates(line.id, folder, why), tip

    def _list_folders(self, line: TrashedThread) -> Iterator[str]:
        """Where it worked last; where it began, if that was a worktree which is gone."""
        if line.workspace_root is None:
            return
        yield line.workspace_root
        with suppress(TreadleError):
            yield self._store.load(line.id).fold.header.workspace or line.workspace_root

    def _has_recorded(self, thread_id: str, commit: str) -> bool:
        """Whether the thread has recorded this state; its damaged parts count too.

        A fork that has kept none of its own has the last one of what it goes on from.
        """
        path = self._store.folders.path(thread_id, JOURNAL_SUFFIX, in_trash=True)
        name = b'"commit":"%b"' % commit.encode()
        with convert_os_errors("read", path):
            try:
                found = self._store.folders.disk.read(path)
            except FileNotFoundError:
                found = b""
        own_from = self._store.adopted.find_own_version(thread_id)
        if own_from is not None:  # what is before that, another copy of the thread has as well
            return any(
                name in line and not self._store.adopted.is_foreign(thread_id, seq)
                for seq, line in enumerate(found.split(b"\n"), 1)
            )
        if name in found:
            return True
        files = self._store.load(thread_id).fold.files
        return files is not None and files.commit == commit
