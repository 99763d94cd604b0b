"""The threads of a store that a program has brought: begun, found, opened, forked, listed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias, TypeVar, Unpack

from msgspec.structs import replace

from treadle.core.messages import BlobRef
from treadle.errors import (
    BuildError,
    DamagedJournalError,
    MissingBlobError,
    ReadOnlyThreadError,
    StoreError,
    UnknownThreadError,
)
from treadle.store.held_journal_writer import HeldJournalWriter
from treadle.store.id_beginnings import make_thread_id
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.port import HeldJournal, Store
from treadle.store.summaries import ListFilters, list_summaries
from treadle.store.thread_follower import JournalChange
from treadle.store.thread_keys import check_key
from treadle.store.thread_outputs import ThreadOutputs
from treadle.store.thread_reader import LoadedThread, ThreadReader, find_stop_reason
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import FORMAT_VERSION, Base, ThreadCreated
from treadle.thread.fold import CHAT, ThreadFold
from treadle.thread.history import Rest
from treadle.thread.record import (
    Head,
    JournalCondition,
    JournalScan,
    JournalScanner,
    Record,
    encode_batch,
)

Begun = TypeVar("Begun")


class _StoreSource:
    """The journals of a store, for a `ThreadReader`. It has neither snapshots nor branches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def locate(self, thread_id: str) -> str:
        return thread_id

    def locate_base(self, base: Base) -> str:
        return base.thread

    def find_merged_base(self, base: Base) -> list[Record] | None:
        return None

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        yield from self._store.read(path, offset)

    def has_head(self, path: str, head: Head) -> bool:
        return False

    def read_snapshot(self, path: str) -> bytes:
        return b""


class _StoreBlobs:
    """The large outputs in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, data: bytes) -> BlobRef:
        name = sha256(data).hexdigest()
        with convert_os_errors("keep", name, len(data)):
            self._store.keep_blob(name, data)
        return BlobRef(name, len(data))

    def read(self, ref: BlobRef) -> bytes:
        with convert_os_errors("read", ref.sha256):
            data = self._store.load_blob(ref.sha256)
        if data is None or sha256(data).hexdigest() != ref.sha256:
            what = "gone" if data is None else "damaged"
            raise MissingBlobError(
                f"the whole output is {what}: {ref.sha256}",
                hint="the thread has its beginning and its end",
            )
        return data


class Threads:
    """The threads of any `Store`, as `LocalStore` has those of a folder.

    Args:
        store: where they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reader = ThreadReader(_StoreSource(store))
        self._outputs = ThreadOutputs(self._reader, _StoreBlobs(store))

    def __eq__(self, other: object) -> bool:
        """Whether these are the threads of the same store: two agents may have brought it."""
        return isinstance(other, Threads) and other._store is self._store

    def __hash__(self) -> int:
        """As `==`."""
        return id(self._store)

    def now(self) -> str:
        """The clock, in the form of records."""
        return self._store.now()

    # ---- writing -----------------------------------------------------------------------------

    def create(
        self,
        creator: str,
        *,
        machine: str = CHAT,
        is_private: bool = False,
        parent: tuple[str, str, int] | None = None,
        first: Sequence[Entry] = (),
        redact: Callable[[str], str] | None = None,
    ) -> ThreadWriter:
        """A new thread, durable when this returns. See `LocalStore.create`."""
        of, call, depth = parent or (None, None, 0)
        header = ThreadCreated(
            FORMAT_VERSION,
            make_thread_id(),
            machine,
            creator,
            is_private=is_private,
            parent=of,
            parent_call=call,
            depth=depth,
        )
        writer = self._begin(ThreadFold(header), first, redact)
        assert writer is not None  # there was no key to be taken
        return writer

    def open_by_key(
        self,
        key: str,
        creator: str,
        *,
        machine: str = CHAT,
        first: Sequence[Entry] = (),
        redact: Callable[[str], str] | None = None,
    ) -> ThreadWriter:
        """The thread of a program's own name. See `LocalStore.open_by_key`."""
        check_key(key)
        if (found := self.find_key(key)) is not None:
            return self.open(found)
        header = ThreadCreated(FORMAT_VERSION, make_thread_id(), machine, creator, key=key)
        writer = self._begin(ThreadFold(header), first, redact)
        return self.open(self._find_taken(key)) if writer is None else writer

    def add(
        self,
        key: str,
        creator: str,
        *,
        machine: str,
        first: Sequence[Entry],
        redact: Callable[[str], str] | None,
    ) -> ThreadFold:
        """What a new thread holds, which nobody holds open; or the one that has the key already.

        A store may have a `begin_unheld`, which takes what `begin` does and says whether it did: to
        hold a journal and to give it free at once are two writes more.
        """
        if key:
            check_key(key)
        header = ThreadCreated(FORMAT_VERSION, make_thread_id(), machine, creator, key=key)
        fold = ThreadFold(header)
        begin = getattr(self._store, "begin_unheld", self._begin_and_close)
        is_new, _ = self._record_first(fold, first, redact, begin)
        return fold if is_new else self.load(self._find_taken(key)).fold

    def _begin_and_close(self, thread_id: str, data: bytes, key: str) -> bool:
        held = self._store.begin(thread_id, data, key)
        if held is not None:
            held.close()
        return held is not None

    def _find_taken(self, key: str) -> str:
        """The thread that has a key which a new one was not given."""
        if (found := self.find_key(key)) is None:
            raise StoreError(
                f"the store has given the key {key!r} to a thread that it does not find",
                hint="treadle.store_conformance tells what is wrong with a store",
            )
        return found

    def fork(
        self,
        thread_id: str,
        version: int | None = None,
        *,
        creator: str,
        first: Sequence[Entry] = (),
        redact: Callable[[str], str] | None = None,
    ) -> ThreadWriter:
        """A new thread that goes on from a version of another one. See `LocalStore.fork`."""
        records = self.scan(thread_id).records
        last = len(records) if version is None else version
        if not 1 <= last <= len(records):
            raise UnknownThreadError(
                f"thread {thread_id} has versions 1 to {len(records)}, not {last}"
            )
        fold, problem = self._reader.fold_records(records[:last])
        if problem:
            raise ReadOnlyThreadError(problem)
        header = replace(
            fold.header,
            format=FORMAT_VERSION,
            thread=make_thread_id(),
            creator=creator,
            parent=None,
            parent_call=None,
            depth=0,
            is_private=fold.is_private,
            base=Base(thread_id, last, records[last - 1].id),
            key="",
        )
        writer = self._begin(fold.make_fork(header), first, redact)
        assert writer is not None  # as above
        return writer

    def _begin(
        self, fold: ThreadFold, first: Sequence[Entry], redact: Callable[[str], str] | None
    ) -> ThreadWriter | None:
        """Begin a thread of which nothing is recorded; `None` if another one has its key."""
        held, head = self._record_first(fold, first, redact, self._store.begin)
        return None if held is None else self._make_writer(fold, held, head)

    def _record_first(
        self,
        fold: ThreadFold,
        first: Sequence[Entry],
        redact: Callable[[str], str] | None,
        begin: Callable[[str, bytes, str], Begun],
    ) -> tuple[Begun, Head]:
        """Record a thread's first entries; what `begin` gives, and where they end."""
        header = fold.header
        entries = [encode_entry(header), *(encode_entry(entry, redact) for entry in first)]
        data, head = encode_batch(Head(), self.now(), [event for _, event in entries])
        with convert_os_errors("create", header.thread, len(data)):
            begun = begin(header.thread, data, header.key)
        for seq, (entry, _) in enumerate(entries, 1):
            fold.apply(seq, head.at, entry)
        return begun, head

    def open(self, thread_id: str) -> ThreadWriter:
        """An existing thread, for its one writer. See `LocalStore.open`."""
        with convert_os_errors("open", thread_id):
            held = self._store.hold(thread_id)
        try:
            records: list[Record] = []
            loaded = self._reader.load(thread_id, kept=records)
            if loaded.condition is JournalCondition.CORRUPT:
                name = f"the journal of {thread_id}"
                raise DamagedJournalError(name, loaded.head.size, loaded.problem)
            if loaded.problem:
                raise ReadOnlyThreadError(loaded.problem)
            note = ""
            if loaded.condition is JournalCondition.TORN:
                with convert_os_errors("cut the torn end of", thread_id):
                    kept = held.cut(loaded.head.size)
                note = "an unfinished write was cut off" + (f" and kept in {kept}" if kept else "")
            stopped = "" if loaded.fold.is_idle else find_stop_reason(records)
        except BaseException:
            held.close()
            raise
        writer = self._make_writer(loaded.fold, held, loaded.head)
        writer.note, writer.stopped = note, stopped
        return writer

    def _make_writer(self, fold: ThreadFold, held: HeldJournal, head: Head) -> ThreadWriter:
        journal = HeldJournalWriter(held, fold.header.thread, head)
        return ThreadWriter(None, self.now, fold, journal, -1, "", self._outputs)

    # ---- reading -----------------------------------------------------------------------------

    def find_key(self, key: str) -> str | None:
        """The thread of a program's own name; `None` if there is none."""
        with convert_os_errors("read", key):
            return self._store.find_key(key)

    def load(self, thread_id: str, version: int | None = None) -> LoadedThread:
        """The thread as it stands, or as it stood at `version`. See `LocalStore.load`."""
        return self._reader.load(thread_id, version)

    def scan(self, thread_id: str) -> JournalScan:
        """All intact records of a thread's own journal, and what follows them."""
        return self._reader.scan(thread_id)

    def load_initial_fold(self, thread_id: str) -> ThreadFold:
        """The fold before any of the thread's own records."""
        return self._reader.read_from_start(thread_id)[0]

    def list_rests(self, thread_id: str) -> list[Rest]:
        """The places in a thread's own records where nothing was open."""
        return self._reader.list_rests(thread_id)

    def ids(self) -> Sequence[str]:
        """All threads, newest first (ids begin with their time)."""
        with convert_os_errors("list", "threads"):
            return sorted(self._store.ids(), reverse=True)

    def list(self, **wanted: Unpack[ListFilters]) -> list[ThreadSummary]:
        """A line for each thread, last changed first; reads all of them.

        Args:
            **wanted: which ones, see `ListFilters`; all if not said.
        """
        return list_summaries(self._reader, self.ids(), wanted)

    def follow(self, thread_id: str) -> JournalFollower:
        """What reads a thread's records as they come."""
        return JournalFollower(self._store, thread_id)


class JournalFollower:
    """Reads the records of a thread in a store as they come, each once."""

    def __init__(self, store: Store, thread_id: str) -> None:
        self._store = store
        self._thread_id = thread_id
        self._head = Head()

    def read_new(self) -> Iterator[Record | JournalChange]:
        """What is new since the last time, which may be nothing; to be read to its end.

        Raises:
            UnknownThreadError: there is no such thread.
            DamagedJournalError: what stands there now cannot be an unfinished append.
            DiskError: the store refused.
        """
        scanner = JournalScanner(self._head)
        with convert_os_errors("read", self._thread_id):
            for piece in self._store.read(self._thread_id, self._head.size):
                records = scanner.feed(piece)
                self._head = scanner.head
                yield from records
        found = scanner.end()
        if found.condition is JournalCondition.CORRUPT:
            name = f"the journal of {self._thread_id}"
            raise DamagedJournalError(name, found.head.size, found.reason)


AnyThreads: TypeAlias = LocalStore | Threads
"""The threads of a folder, or of another store."""


def get_organization_finder(threads: AnyThreads) -> Callable[[], str] | None:
    """What finds the organization whose threads these are, where the store has a user with one."""
    store = threads._store if isinstance(threads, Threads) else None
    return getattr(store, "find_organization", None)


def find_threads(store: object) -> AnyThreads:
    """The threads of a store.

    `LocalStore` has its own ways to them, which know its snapshots, its trash and what other
    machines have written.

    Raises:
        BuildError: it is no store.
    """
    if isinstance(store, LocalStore | Threads):
        return store
    missing = [name for name in _METHODS if not callable(getattr(store, name, None))]
    if missing:
        raise BuildError(
            f"{store!r} is no store: it has no {', '.join(missing)}",
            hint='LocalStore("folder"), or a class with the methods of treadle.Store',
        )
    kept: Store = store  # type: ignore[assignment]  # as was looked at
    return Threads(kept)


def is_slow(store: AnyThreads) -> bool:
    """Whether a program has brought this store: it may be over a network."""
    return isinstance(store, Threads)


_METHODS = [name for name in vars(Store) if not name.startswith("_")]
