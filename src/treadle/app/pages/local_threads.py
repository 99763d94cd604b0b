"""The threads on this machine's disk, as pages show them."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from anyio import to_thread
from msgspec import Struct

from treadle.app.exchange.thread_export import read_journal_parts
from treadle.app.threads.outputs import read_output
from treadle.app.threads.short_ids import list_short_ids
from treadle.app.threads.thread_lists import list_threads, search_threads
from treadle.app.threads.thread_watch import ThreadWatch
from treadle.core.messages import BlobRef
from treadle.errors import UnknownThreadError
from treadle.exchange.journal_files import JournalPart
from treadle.exchange.readable_thread import ReadableThreadBuilder
from treadle.pages.ports import FoundRow, LiveState, RowFilters, ShownThread, ThreadRow, ThreadRows
from treadle.pages.site import HEARTBEAT_S
from treadle.pages.thread_cells import cut_pieces, make_cells
from treadle.pages.thread_family import find_family_ids
from treadle.store.index.filters import ThreadFilters
from treadle.store.local_store import LocalStore
from treadle.thread.document import ThreadSummary
from treadle.thread.ids import ShortIds, is_thread_id
from treadle.thread.record import Head

KEPT_THREADS_MAX: Final = 4
"""Threads that are kept as they were read: a long one takes seconds, and is turned over page by
page."""
WATCHES_MAX: Final = 64
LOOK_S: Final = 0.3
"""Between two looks at a thread that somebody watches."""
LIST_LOOK_S: Final = 1.0
"""Between two looks at the list: each asks how every journal stands."""
LISTED_COUNT: Final = 50
"""Threads that are looked at in the list."""

State = TypeVar("State")


class _KeptThread(Struct, frozen=True):
    """A thread as it was read, how its journals were on the disk before, and what goes on with it.

    `heads` are the ends of the journals it was read from, its own last.
    """

    shown: ShownThread
    journals: tuple[str, ...]
    stamps: tuple[tuple[int, int, int], ...]
    heads: tuple[Head, ...]
    builder: ReadableThreadBuilder


class LocalThreads:
    """See `PageSource`.

    Args:
        store: the threads of this machine.
        is_stopping: whether whoever watches is to be let go.
    """

    def __init__(self, store: LocalStore, is_stopping: Callable[[], bool]) -> None:
        self._store = store
        self._is_stopping = is_stopping
        self._kept: OrderedDict[tuple[str, int | None], _KeptThread] = OrderedDict()
        self._watches: OrderedDict[str, ThreadWatch] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def visitor(self) -> None:
        """See `PageSource`."""
        return None

    @property
    def has_readers(self) -> bool:
        """See `PageSource`. Nobody else reads here."""
        return False

    @property
    def is_live(self) -> bool:
        """See `PageSource`."""
        return True

    def list_rows(self, filters: RowFilters, start: int, count: int) -> ThreadRows:
        """See `PageSource`."""
        wanted = ThreadFilters(
            state=filters.state or None,
            remote=filters.repo or None,
            branch=filters.branch or None,
            tags=(filters.tag,) if filters.tag else (),
            model=filters.model or None,
        )
        found = list_threads(self._store, wanted, limit=start + count)
        ids = list_short_ids(self._store)
        rows = [_make_row(line, ids) for line in found.threads[start:]]
        return ThreadRows(rows, found.count)

    def search(self, words: str, count: int) -> Sequence[FoundRow]:
        """See `PageSource`."""
        found = search_threads(self._store, words, limit=count)
        ids = list_short_ids(self._store)
        return [
            FoundRow(
                _make_row(hit.thread, ids),
                hit.kind,
                cut_pieces(hit.snippet, hit.ranges),
                hit.count,
            )
            for hit in found.hits
        ]

    def read_thread(self, thread_id: str, version: int | None = None) -> ShownThread:
        """See `PageSource`."""
        thread_id = self._check(thread_id)
        place = thread_id, version
        with self._lock:
            kept = self._kept.get(place)
        if kept is not None and self._stamp(kept.journals) == kept.stamps:
            return kept.shown
        journals = self._list_journals(thread_id)
        stamps = self._stamp(journals)
        parts = read_journal_parts(self._store, thread_id, version)
        with self._lock:
            kept = self._kept.pop(place, None)  # nobody else goes on with it
        builder, shown = _tell(parts, kept)
        heads = tuple(part.head for part in parts)
        with self._lock:
            self._kept[place] = _KeptThread(shown, journals, stamps, heads, builder)
            self._kept.move_to_end(place)
            while len(self._kept) > KEPT_THREADS_MAX:
                self._kept.popitem(last=False)
        return shown

    def read_blob(self, thread_id: str, ref: BlobRef) -> bytes:
        """See `PageSource`."""
        self._check(thread_id)
        return self._store.read_blob(ref)

    def read_journals(self, thread_id: str) -> Sequence[JournalPart]:
        """See `PageSource`."""
        return read_journal_parts(self._store, self._check(thread_id))

    def list_family(self, thread_id: str) -> Sequence[ThreadRow]:
        """See `PageSource`."""
        thread_id = self._check(thread_id)
        listed = list_threads(self._store, ThreadFilters(), limit=None).threads
        lines = {line.id: line for line in listed}
        if thread_id not in lines:
            return ()
        ids = list_short_ids(self._store)
        return [_make_row(lines[one], ids) for one in find_family_ids(lines, thread_id)]

    def read_output(self, thread_id: str, call_id: str) -> bytes:
        """See `PageSource`."""
        return read_output(self._store, self._check(thread_id), call_id).encode("utf-8", "replace")

    async def follow_list(self) -> AsyncGenerator[None]:
        """See `PageSource`. Those that changed last stand first, but for few that are pinned."""
        look = partial(list_threads, self._store, limit=LISTED_COUNT)
        async for _ in self._follow(look, LIST_LOOK_S):
            yield

    def follow(
        self, thread_id: str, *, with_thread: bool = False
    ) -> AsyncGenerator[LiveState | None]:
        """See `PageSource`. A page here has forms of its own, and is fetched: few look at it."""
        thread_id = self._check(thread_id)
        return self._follow(partial(self._read_state, thread_id), LOOK_S)

    async def _follow(
        self, look: Callable[[], State], pause_s: float
    ) -> AsyncGenerator[State | None]:
        """What looks find, when it is another than before; `None` now and then if it is not."""
        state, silence_s = None, 0.0
        while True:
            found = await to_thread.run_sync(look)
            if found != state or silence_s >= HEARTBEAT_S:
                yield None if found == state else found
                state, silence_s = found, 0.0
            if self._is_stopping():
                return
            await asyncio.sleep(pause_s)
            silence_s += pause_s

    def _read_state(self, thread_id: str) -> LiveState:
        """How far a thread is. Costs little: it is asked several times a second."""
        with self._lock:
            watch = self._watches.pop(thread_id, None) or ThreadWatch(self._store, thread_id)
            self._watches[thread_id] = watch
            while len(self._watches) > WATCHES_MAX:
                self._watches.popitem(last=False)
            deque(watch.poll_records(), maxlen=0)
            if watch.is_over:
                del self._watches[thread_id]
                raise UnknownThreadError(f"thread {thread_id} is gone")
            is_held = self._store.find_holder(thread_id) is not None
            live = next(watch.poll_live(), None) if is_held else None
            return LiveState(watch.version, "" if live is None else live.text)

    def _check(self, thread_id: str) -> str:
        """Paths on the disk are made of ids: nothing else becomes one."""
        if not is_thread_id(thread_id):
            raise UnknownThreadError("that is the id of no thread")
        return thread_id

    def _list_journals(self, thread_id: str) -> tuple[str, ...]:
        """The files of a thread and of those it goes on from."""
        found, wanted = [], thread_id
        while wanted:
            path, _ = self._store.folders.find(wanted)
            found.append(path)
            base = self._store.load_initial_fold(wanted).header.base
            wanted = "" if base is None else base.thread
        return tuple(found)

    def _stamp(self, journals: Sequence[str]) -> tuple[tuple[int, int, int], ...]:
        """How files stand: a scrub gives a journal another file, an append another size."""
        stamps = []
        for path in journals:
            try:
                found = Path(path).stat()
            except OSError:
                return ()
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
        return tuple(stamps)


def _tell(
    parts: Sequence[JournalPart], earlier: _KeptThread | None
) -> tuple[ReadableThreadBuilder, ShownThread]:
    """Tell a thread, or go on with what was told of it, if its records still are the same."""
    builder, own = ReadableThreadBuilder(), parts[-1].records
    if earlier is not None:
        heads, end = tuple(part.head for part in parts[:-1]), earlier.heads[-1]
        if (
            earlier.heads[:-1] == heads
            and end.seq <= len(own)
            and own[end.seq - 1].hash == end.hash
        ):
            builder = earlier.builder
            builder.add_records(own[end.seq :], is_own=True)
            return builder, ShownThread(builder.build())
    for part in parts:
        builder.add_records(part.records, is_own=part is parts[-1])
    return builder, ShownThread(builder.build())


def _make_row(line: ThreadSummary, ids: ShortIds) -> ThreadRow:
    cells = make_cells(line, ids)
    return ThreadRow(
        line, line.id, cells.id, cells.title, cells.state, cells.folder, cells.branch, cells.age
    )
