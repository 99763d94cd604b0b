"""What a thread's agent changed between two of its versions, file by file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.app.files.file_history import (
    explain_missing_states,
    find_gap,
    find_write_end,
    is_in_round,
    list_saved_states,
    list_steps,
    open_states,
    select_states,
)
from treadle.app.notices import Notify, ignore_notice
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import LoadedThread
from treadle.workspace.files.entries import Touched, touched
from treadle.workspace.files.states import FileStates

_SPAN: Final = re.compile(r"(\d*)\.\.(\d*)")


class SpanError(ValueError):
    """A text names no versions that the thread has."""


class ChangedFile(Struct, frozen=True):
    """A file as it was before and after, each by mode and object; `None` where it is absent.

    `added` and `deleted` count lines; `None` where the file is binary or was not saved.
    """

    path: str
    status: str
    old: dict[str, str] | None
    new: dict[str, str] | None
    added: int | None
    deleted: int | None
    is_binary: bool
    is_kept: bool
    by_others: bool


class FileDiff:
    """The files that the agent changed, of which those count that are not as they were.

    Args:
        found: all files that it changed.
        states: the states of the files; `None` where none are recorded.
        notice: why it is not known all that it changed; empty if it is.
    """

    def __init__(
        self, found: Sequence[Touched] = (), states: FileStates | None = None, notice: str = ""
    ) -> None:
        self._states = states
        self._changed = [one for one in found if one.change.old != one.change.new]
        self.has_states = states is not None
        self.has_touched = bool(found)
        """Whether the agent changed any file, be it as it was now."""
        self.notice = notice

    @property
    def is_empty(self) -> bool:
        """Whether every file is as it was."""
        return not self._changed

    @property
    def shared_names(self) -> list[str]:
        """The names of those that others changed between the agent's changes, or later."""
        return [one.change.name for one in self._changed if one.by_others]

    @property
    def unsaved_names(self) -> list[str]:
        """The names of those whose contents were not saved."""
        return [one.change.name for one in self._changed if not one.change.is_kept]

    async def text(self, *, is_stat: bool = False) -> bytes:
        """The unified diff, or how many lines of which files. Raises `FileStateError`."""
        return await self._run_git_diff(is_stat=is_stat)

    async def files(self) -> list[ChangedFile]:
        """The files, with the lines counted. Raises `FileStateError`."""
        counts: dict[bytes, tuple[int, int] | None] = {}
        for record in (await self._run_git_diff(is_counted=True)).split(b"\0")[:-1]:
            added, deleted, path = record.split(b"\t", 2)
            counts[path] = None if added == b"-" else (int(added), int(deleted))
        return [_make_changed_file(one, counts.get(one.change.path)) for one in self._changed]

    async def _run_git_diff(self, *, is_stat: bool = False, is_counted: bool = False) -> bytes:
        if self._states is None:
            return b""
        changes = [one.change for one in self._changed]
        return await self._states.diff_of(changes, is_stat=is_stat, is_counted=is_counted)


def _make_changed_file(touched: Touched, count: tuple[int, int] | None) -> ChangedFile:
    change = touched.change
    return ChangedFile(
        path=change.name,
        status=change.status,
        old=change.old and change.old._asdict(),
        new=change.new and change.new._asdict(),
        added=count and count[0],
        deleted=count and count[1],
        is_binary=change.is_kept and count is None,
        is_kept=change.is_kept,
        by_others=touched.by_others,
    )


async def find_diff(
    store: LocalStore,
    thread: str,
    span: str | None = None,
    *,
    folder: str | None = None,
    notify: Notify = ignore_notice,
) -> FileDiff:
    """What the agent changed.

    Args:
        store: where the thread is.
        thread: the beginning or the end of its id.
        span: `12..40`, `12..` or `..40`: after which version, up to which; by default all.
        folder: where its folder is now, if not where it was.
        notify: gets a sentence for people if some of it was never known.

    Raises:
        SpanError: the thread has no such versions, or that names none.
        FileStateError: the states of the files are gone.
        UsageError: `folder` is none.
        StoreError: the thread cannot be read.
    """
    thread_id = store.resolve(thread)
    loaded = store.load(thread_id)
    latest = loaded.fold.version
    after, through = _parse_span(span, latest)
    records = store.scan(thread_id).records
    after, through = (find_write_end(records, bound) for bound in (after, through))
    saved = list_saved_states(store, thread_id)
    if gap := find_gap(store, thread_id, after, through):
        notify(gap)
    unknown = _explain_unknown(store, loaded) if through >= latest else ""
    if not saved:
        return FileDiff(notice=unknown or explain_missing_states(loaded.fold))
    states = open_states(loaded.fold, folder)
    found = touched(await list_steps(states, select_states(saved, after, through)))
    return FileDiff([*found.values()], states, unknown)


def _explain_unknown(store: LocalStore, loaded: LoadedThread) -> str:
    """Why it is not known all that the agent changed up to now; empty if it is."""
    thread_id = loaded.fold.header.thread
    if loaded.problem:
        return f"{loaded.problem}; what the agent changed after that is not known"
    if not is_in_round(loaded.fold):
        return ""
    if store.find_holder(thread_id) is not None:
        return f"a round is under way: what it changes is not known yet: treadle watch {thread_id}"
    words = "a round is unfinished: what it has changed is not known yet"
    return f"{words}: treadle resume {thread_id}"


def _parse_span(span: str | None, latest: int) -> tuple[int, int]:
    """After which version, and up to which."""
    match = _SPAN.fullmatch(".." if span is None else span)
    if match is None:
        raise SpanError(f"{span!r} names no versions: write 12..40, 12.. or ..40")
    after, through = int(match[1] or 0), int(match[2] or latest)
    if not after <= through <= latest:
        raise SpanError(f"the thread has versions 1 to {latest}, and {span} is not in them")
    return after, through
