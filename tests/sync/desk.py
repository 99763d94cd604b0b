"""A server in memory that keeps the contract, for tests of the engine; and machines beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import count
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lab.model_disk import ModelDisk
from lab.script import places
from store.shelf import CREATOR, Clock
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import Me, ThreadHead, ThreadHeads
from treadle.errors import RemoteConflictError, RemoteRefusedError, RemoteUnavailableError
from treadle.store.local_store import LocalStore
from treadle.store.record_adoption import split_journal_lines
from treadle.store.thread_reader import apply_records, decode_header
from treadle.sync.cursors import Cursors
from treadle.sync.engine import SyncEngine
from treadle.sync.ports import Remote, Sendable
from treadle.sync.send_queue import PendingSyncStore
from treadle.thread.branches import collect_merged_branch
from treadle.thread.codec import Entry
from treadle.thread.facts import Scrubbed
from treadle.thread.fold import ThreadFold
from treadle.thread.record import JournalCondition, Record, scan_journal

URL: Final = "https://desk.test"
USER: Final = "ada"
PAGE: Final = 3


class Kept(Struct):
    """What the server has of a thread."""

    data: bytes = b""
    change: int = 0
    is_purged: bool = False
    is_deleted: bool = False
    outputs: dict[str, bytes] = {}

    @property
    def records(self) -> list[Record]:
        return scan_journal(self.data).records

    @property
    def mark(self) -> Mark:
        found = scan_journal(self.data).head
        return Mark(found.seq, found.hash)


class Desk:
    """The server. `calls` holds what it was asked, `received` all bytes and names it was sent."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.change = 0
        self.stamps: dict[int, str] = {0: ""}
        self.calls: list[str] = []
        self.received: list[bytes] = []
        self.body_size_max = 2**30
        self.before: Callable[[str, str], None] = lambda _what, _thread: None
        """Called before the server does what it is asked."""
        self.after: Callable[[str, str], None] = lambda _what, _thread: None
        """Called after it has, before the answer arrives."""

    def records(self, thread_id: str) -> list[Record]:
        return self.kept[thread_id].records

    def remote(self) -> DeskRemote:
        return DeskRemote(self)

    def backup(self) -> Callable[[], None]:
        """A backup of all that is here now; calling it puts that back."""
        old = dict(self.kept), self.change, dict(self.stamps)

        def put_back() -> None:
            self.kept, self.change, self.stamps = dict(old[0]), old[1], dict(old[2])

        return put_back

    def keep(self, thread_id: str, kept: Kept) -> None:
        """Something has changed; what it was tells its number from any other of that number."""
        self.change += 1
        self.kept[thread_id] = replace(kept, change=self.change)
        self.stamps[self.change] = digest(thread_id.encode() + kept.data)[:16]

    def fold(self, data: bytes) -> ThreadFold:
        return self._fold(scan_journal(data).records)

    def _fold(self, records: list[Record]) -> ThreadFold:
        header = decode_header(records[0])
        if header.base is None:
            fold = ThreadFold(header)
        else:
            base = self.kept.get(header.base.thread)
            records_of_base = [] if base is None else base.records
            known = records_of_base[: header.base.version]
            if not known or not known[-1].is_at(header.base.version, header.base.hash):
                merged = collect_merged_branch(
                    records_of_base, header.base.version, header.base.hash
                )
                if merged is None:
                    raise refused(ErrorCode.UNFOLDABLE)
                known = merged
            fold = self._fold(known).make_fork(header)
        assert not apply_records(fold, records)
        return fold


class DeskRemote:
    """Implements `Remote`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def url(self) -> str:
        return URL

    def me(self) -> Me:
        return Me(USER, "looms", "member", False, False, "laptop")

    def push(self, thread: Sendable, base: Mark) -> ThreadHead:
        answer = None
        for piece in thread.lines(base):
            answer = self._post(thread.thread_id, piece, base)
            base = Mark(answer.version, answer.hash)
        if answer is None:
            answer = self._post(thread.thread_id, b"", base)
        return answer

    def _post(self, thread_id: str, piece: bytes, base: Mark) -> ThreadHead:
        with self._asked("push", thread_id, piece):
            self._measure(piece)
            kept = self._desk.kept.get(thread_id, Kept())
            stands = Mark() if kept.is_purged else kept.mark
            if stands == base:
                data = (b"" if kept.is_purged else kept.data) + piece
                found = scan_journal(data)
                if found.condition is not JournalCondition.CLEAN or not found.records:
                    raise refused(ErrorCode.BROKEN_CHAIN)
                fold = self._desk.fold(data)
                if fold.is_private:
                    raise refused(ErrorCode.REFUSED_PRIVATE)
                if piece:
                    self._put(thread_id, replace(kept, data=data), fold)
            elif not piece or piece not in kept.data or not _follows(kept, base):
                raise RemoteConflictError("it is elsewhere", seq=stands.seq, hash=stands.hash)
            return self._head(thread_id)

    def replace(self, thread: Sendable, base: Mark) -> ThreadHead:
        data = b"".join(thread.lines(Mark()))
        with self._asked("replace", thread.thread_id, data):
            self._measure(data)
            kept = self._desk.kept.get(thread.thread_id, Kept())
            if kept.data == data:
                return self._head(thread.thread_id)
            if kept.mark != base:
                raise RemoteConflictError("moved", seq=kept.mark.seq, hash=kept.mark.hash)
            found = scan_journal(data)
            assert found.condition is JournalCondition.CLEAN
            assert any(b'"scrubbed"' in bytes(one.event) for one in found.records), Scrubbed
            self._put(thread.thread_id, replace(kept, data=data), self._desk.fold(data))
            return self._head(thread.thread_id)

    def put_blob(self, thread: Sendable, sha256: str) -> None:
        data = thread.blob(sha256)
        with self._asked("put_blob", thread.thread_id, data):
            if thread.thread_id not in self._desk.kept:
                raise refused(ErrorCode.NOT_FOUND)
            self._desk.kept[thread.thread_id].outputs[sha256] = data

    def purge(self, thread_id: str) -> None:
        with self._asked("purge", thread_id):
            if thread_id in self._desk.kept:
                self._desk.keep(thread_id, Kept(is_purged=True))

    def heads(self, after: int, stamp: str = "") -> ThreadHeads:
        with self._asked("heads", ""):
            known = self._desk.stamps.get(after)
            is_reset = after > self._desk.change or bool(stamp and stamp != known)
            after = 0 if is_reset else after
            kept = sorted(self._desk.kept.items(), key=lambda one: one[1].change)
            found = [self._head(name) for name, one in kept if one.change > after]
            page = tuple(found[:PAGE])
            is_last = len(found) <= PAGE
            change = self._desk.change if is_last else page[-1].change
            return ThreadHeads(page, change, is_last, self._desk.stamps[change], is_reset)

    def records(self, thread_id: str, after: Mark) -> Iterator[bytes]:
        # All threads here are the one user's, who may be named.
        thread_id = thread_id.partition("@")[0]
        with self._asked("records", thread_id):
            kept = self._desk.kept.get(thread_id)
            if kept is None or kept.is_purged:
                raise refused(ErrorCode.NOT_FOUND)
            if after.seq and not _follows(kept, after):
                raise RemoteConflictError("another", seq=kept.mark.seq, hash=kept.mark.hash)
            data = b"".join(split_journal_lines(kept.data)[after.seq :])
        for start in range(0, len(data), 100):
            yield data[start : start + 100]

    def get_blob(self, thread_id: str, sha256: str) -> bytes | None:
        with self._asked("get_blob", thread_id):
            return self._desk.kept[thread_id].outputs.get(sha256)

    def _put(self, thread_id: str, kept: Kept, fold: ThreadFold) -> None:
        self._desk.keep(thread_id, replace(kept, is_purged=False, is_deleted=fold.is_trashed))

    def _measure(self, body: bytes) -> None:
        if len(body) > self._desk.body_size_max:
            raise refused(ErrorCode.TOO_LARGE)

    def _head(self, thread_id: str) -> ThreadHead:
        kept = self._desk.kept[thread_id]
        mark = kept.mark
        return ThreadHead(
            thread_id, mark.seq, mark.hash, kept.change, kept.is_deleted, kept.is_purged
        )

    def _asked(self, what: str, thread_id: str, data: bytes = b"") -> _Asked:
        self._desk.calls.append(f"{what} {thread_id}".strip())
        self._desk.received += [thread_id.encode(), data]
        return _Asked(self._desk, what, thread_id)


class _Asked:
    def __init__(self, desk: Desk, what: str, thread_id: str) -> None:
        self.desk, self.what, self.thread_id = desk, what, thread_id

    def __enter__(self) -> None:
        self.desk.before(self.what, self.thread_id)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.desk.after(self.what, self.thread_id)


def _follows(kept: Kept, mark: Mark) -> bool:
    records = kept.records
    if not mark.seq:
        return True
    return mark.seq <= len(records) and records[mark.seq - 1].hash == mark.hash


def refused(code: ErrorCode) -> RemoteRefusedError:
    return RemoteRefusedError(f"the server says {code.value}", code=code.value, status=code.status)


def unreachable(_what: str = "", _thread: str = "") -> None:
    raise RemoteUnavailableError("no network")


class Machine:
    """A machine with threads: a store on a model disk, and an engine that syncs it."""

    def __init__(self, remote: Remote, number: int = 1, disk: ModelDisk | None = None) -> None:
        self.number = number
        self.disk = disk or ModelDisk()
        if disk is None:
            self.disk.make_folder("/home/data")
            self.disk.make_folder("/home/state")
        self.clock = Clock()
        self._remote = remote
        self._ids = count(1)
        self.store = LocalStore(
            places("/home"), disk=self.disk, now=self.clock, new_id=self._next_id
        )
        self.cursors = Cursors(self.disk, places("/home"), URL, USER)
        self.pending = PendingSyncStore(self.disk, places("/home"))
        self.secrets: tuple[bytes, ...] = ()
        self.engine = SyncEngine(
            self.store,
            remote,
            self.cursors,
            self.pending,
            now=self.clock,
            random=lambda: 0.5,
            find_secrets=self._looks,
            host=f"machine {number}",
        )

    def _next_id(self) -> str:
        return f"T-0190000{self.number}-0000-7000-8000-{next(self._ids):012x}"

    def _looks(self, data: Iterable[bytes]) -> list[str]:
        whole = b"".join(data)
        return [f"kind {place}" for place, one in enumerate(self.secrets) if one in whole]

    def begin(self, *batches: tuple[Entry, ...], is_private: bool = False) -> str:
        writer = self.store.create(CREATOR, workspace="/w", is_private=is_private)
        thread_id = writer.thread_id
        writer.close()
        self.go_on(thread_id, *batches)
        return thread_id

    def go_on(self, thread_id: str, *batches: tuple[Entry, ...]) -> None:
        writer = self.store.open(thread_id)
        for batch in batches:
            for entry in batch:
                writer.stage(entry)
            writer.commit()
        writer.close()

    def journal(self, thread_id: str) -> bytes:
        path, _ = self.store.folders.find(thread_id)
        return self.disk.read(path)

    def said(self, thread_id: str) -> list[str]:
        return [message.content for message in self.store.load(thread_id).fold.conversation]

    def hashes(self, thread_id: str) -> set[str]:
        return {one.hash for one in scan_journal(self.journal(thread_id)).records}


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()
