"""Folds of threads: from memory if they are there, or from a snapshot and the records after it.

What a fold is made of is told by the mark it stands at, whose hash covers every record up to
there. So a fold in memory is right for its mark for ever, whether or not the transaction that made
it was committed; a thread that stands at another mark does not find it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.server.data.schema import IS_REWRITTEN, changes, documents, records, threads
from treadle.server.refusals import Refusal
from treadle.thread.branches import collect_merged_branch
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.facts import Base, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, Record
from treadle.thread.snapshot import decode_snapshot, encode_snapshot, restore_fold

CACHE_SIZE_MAX: Final = 64 * 1024 * 1024
"""The bytes of the records whose folds are kept in memory."""

SNAPSHOT_TAIL_SIZE_MIN: Final = 256 * 1024
"""As on the machine of a client: a snapshot is made anew when the records after it are longer than
both 256 KiB and the snapshot."""

BASE_COUNT_MAX: Final = 1000
"""A fork of a fork of a fork ... goes on no deeper."""

READ_COUNT: Final = 500
"""So many records are read from the database at a time."""

_decode_line: Final = msgspec.json.Decoder(Record).decode

USAGE_MAX: Final = 2**53
"""More tokens than this were never used; no sum of them leaves 64 bits."""


class CachedFold(Struct):
    """A fold, and how far it is ahead of its snapshot. Whoever has it, has it alone.

    `key` is that of the thread's row: several people may have a thread of one id. `size` counts the
    bytes of all records in it, `tail_size` those after the snapshot. `rewrite` is the last change,
    as a fork was folded, in which what it goes on from was rewritten.
    """

    key: str
    fold: ThreadFold
    mark: Mark
    size: int = 0
    tail_size: int = 0
    snapshot_size: int = 0
    rewrite: int = 0

    def add_record(self, record: Record, size: int) -> Entry:
        """Apply one more record of so many bytes.

        Raises:
            Refusal: unfoldable; the fold must not be used any more.
        """
        try:
            entry = decode_entry(record.event)
            if isinstance(entry, ThreadCreated) and record.seq > 1:
                raise UnknownEntryError("a thread is created twice")
            self.fold.apply(record.seq, record.at, entry)
        except UnknownEntryError as error:
            raise make_unfoldable_refusal(record.seq, error.message) from None
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            # What a forged record does to a fold; no program that folds before it writes made it.
            raise make_unfoldable_refusal(
                record.seq, f"it makes no sense ({type(error).__name__})"
            ) from error
        used = self.fold.usage
        if max(used.input_tokens, used.output_tokens, used.unpriced_tokens) > USAGE_MAX:
            raise make_unfoldable_refusal(record.seq, "it uses more tokens than there are")
        self.mark = Mark(record.seq, record.hash)
        self.size += size
        self.tail_size += size
        return entry

    @property
    def is_snapshot_due(self) -> bool:
        """Whether reading the records after the snapshot takes longer than it should."""
        return self.tail_size > max(SNAPSHOT_TAIL_SIZE_MIN, self.snapshot_size)


class FoldCache:
    """Folds by key of the thread and mark, the least recently used leaving first. Safe for threads.

    Args:
        size_max: how many bytes of records they may stand for.
    """

    def __init__(self, size_max: int = CACHE_SIZE_MAX) -> None:
        self._size_max = size_max
        self._lock = Lock()
        self._folds: OrderedDict[tuple[str, Mark], CachedFold] = OrderedDict()
        self._size = 0

    def pop(self, key: str, mark: Mark) -> CachedFold | None:
        """The fold at this mark, which leaves the cache with it."""
        with self._lock:
            found = self._folds.pop((key, mark), None)
            self._size -= 0 if found is None else found.size
            return found

    def put(self, folded: CachedFold) -> None:
        """Keep a fold that the caller uses no longer; too large ones are not kept."""
        with self._lock:
            old = self._folds.pop((folded.key, folded.mark), None)
            self._size -= 0 if old is None else old.size
            if folded.size > self._size_max:
                return
            self._folds[folded.key, folded.mark] = folded
            self._size += folded.size
            while self._size > self._size_max:
                _, dropped = self._folds.popitem(last=False)
                self._size -= dropped.size

    def remove_thread(self, key: str) -> None:
        """Drop all folds of a thread, those of its earlier versions too."""
        with self._lock:
            for place in [place for place in self._folds if place[0] == key]:
                self._size -= self._folds.pop(place).size

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._folds.clear()
            self._size = 0


FOLD_CACHE: Final = FoldCache()
"""The folds that this process has in memory."""


def load_fold(db: Connection, key: str, mark: Mark) -> CachedFold:
    """The fold of a thread of records at a mark that it has.

    The caller has it alone, and puts it into `FOLD_CACHE` when he needs it no longer.

    Raises:
        Refusal: unfoldable; a newer version of the server has taken it, or its base is gone.
    """
    found = FOLD_CACHE.pop(key, mark)
    if found is None or found.fold.header.base is None:
        return found or _read_fold(db, key, mark)
    # Its mark says nothing of what it goes on from: another process may have taken a text out.
    is_new = found.rewrite == _find_last_rewrite(db, key)
    return found if is_new else _read_fold(db, key, mark)


def _find_last_rewrite(db: Connection, key: str) -> int:
    mine = and_(changes.c.thread_id == key, IS_REWRITTEN)
    return db.execute(select(func.max(changes.c.change)).where(mine)).scalar_one() or 0


def make_initial_fold(
    db: Connection, key: str, header: ThreadCreated, base_key: str | None
) -> CachedFold:
    """The fold before the first record of a thread: empty, or the base's for a fork.

    Args:
        db: the transaction.
        key: of the thread.
        header: what its first record says.
        base_key: the key of its base; `None` if it has none.

    Raises:
        Refusal: unfoldable; the base is not what the fork knew, or this version cannot fold it.
    """
    if header.base is None or base_key is None:
        return _start_fold(None, key, header)
    if header.base.thread == header.thread:
        raise make_missing_base_refusal()
    mark = find_base_mark(db, base_key, header.base)
    if mark is None:
        gone = Mark(header.base.version, header.base.hash)
        return _start_fold(_read_fold(db, base_key, gone), key, header)
    folded = load_fold(db, base_key, mark)
    above = _start_fold(folded, key, header)
    FOLD_CACHE.put(folded)
    return above


def find_base_key(
    db: Connection, base: Base, owner_id: int | None, *conditions: ColumnElement[bool]
) -> str | None:
    """The key of the thread that a fork goes on from; `None` if it is not here.

    Several people may have a thread of this id; whichever has the record that the fork knew has
    the same ones before it, for its hash says so. A merge may have taken that record out of the
    thread: what it says of another branch is its owner's word, and counts for him alone.

    Args:
        db: the transaction.
        base: what the fork goes on from.
        owner_id: whose the fork is.
        conditions: on `schema.threads`: which of them may be looked at.
    """
    is_own = threads.c.owner_id == owner_id
    at = and_(
        records.c.thread_id == threads.c.key,
        records.c.seq == base.version,
        # A scrub has changed the hash of the record, and not its id.
        or_(
            records.c.hash == base.hash,
            records.c.line.contains(f',"id":"{base.hash}","hash":"', autoescape=True),
        ),
    )
    query = (
        select(threads.c.key)
        .outerjoin(records, at)
        .where(threads.c.id == base.thread, threads.c.kind == "records", *conditions)
        .where(or_(is_own, records.c.seq.is_not(None)))
        .order_by(records.c.seq.is_(None), is_own.desc(), threads.c.key)
        .limit(1)
    )
    return db.execute(query).scalar_one_or_none()


def has_mark(db: Connection, key: str, mark: Mark) -> bool:
    """Whether a thread has this record."""
    return find_mark(db, key, mark.seq) == mark


def find_base_mark(db: Connection, key: str, base: Base) -> Mark | None:
    """Where the record that a fork goes on from stands now; `None` if its thread has it not."""
    for record, _ in read_records(db, key, base.version - 1, base.version):
        if record.is_at(base.version, base.hash):
            return Mark(record.seq, record.hash)
    return None


def find_mark(db: Connection, key: str, seq: int) -> Mark | None:
    """The mark of a thread's record; `None` if it has no such one."""
    at = and_(records.c.thread_id == key, records.c.seq == seq)
    found = db.execute(select(records.c.hash).where(at)).scalar_one_or_none()
    return None if found is None else Mark(seq, found)


def store_snapshot(db: Connection, folded: CachedFold) -> None:
    """Store the snapshot of a fold in place of the last one; the one at version 1 stays.

    A fork has one there, so that it stands by itself if its base is removed.
    """
    seq, chain_hash = folded.mark.seq, folded.mark.hash
    fold = folded.fold
    body = encode_snapshot(fold, Head(seq, chain_hash, fold.updated_at, max(1, folded.size)))
    mine = documents.c.thread_id == folded.key
    is_old = or_(documents.c.version > 1, documents.c.version == seq)
    db.execute(delete(documents).where(mine, is_old))
    db.execute(
        insert(documents).values(
            thread_id=folded.key, version=seq, hash=chain_hash, body=body.decode()
        )
    )
    folded.tail_size, folded.snapshot_size = 0, len(body)


def _read_fold(db: Connection, key: str, mark: Mark) -> CachedFold:
    """From the database, base by base: the lowest one that has a snapshot comes first."""
    way: list[tuple[str, Mark, ThreadCreated, list[Record] | None]] = []
    folded = None
    while folded is None:
        if len(way) > BASE_COUNT_MAX:
            raise make_missing_base_refusal()
        branch = None
        if not has_mark(db, key, mark):
            branch = _read_branch(db, key, mark)
        elif (folded := _restore_snapshot(db, key, mark.seq)) is not None:
            way.append((key, mark, folded.fold.header, None))
            break
        header = _read_header(db, key)
        way.append((key, mark, header, branch))
        if header.base is None:
            break
        base: Base = header.base
        below = find_base_key(db, base, find_owner(db, key))
        if below is None:
            raise make_missing_base_refusal()
        key, mark = below, find_base_mark(db, below, base) or Mark(base.version, base.hash)
    for own_key, at, header, branch in reversed(way):
        if folded is None or folded.key != own_key:
            folded = _start_fold(folded, own_key, header)
        own = read_records(db, own_key, folded.mark.seq, at.seq)
        for record, size in own if branch is None else _add_sizes(branch):
            folded.add_record(record, size)
        if folded.mark != at:  # it was removed while it was read
            raise make_missing_base_refusal()
    assert folded is not None
    if folded.fold.header.base is not None:
        folded.rewrite = _find_last_rewrite(db, folded.key)
    return folded


def find_owner(db: Connection, key: str) -> int | None:
    """Whose a thread is."""
    return db.execute(select(threads.c.owner_id).where(threads.c.key == key)).scalar_one_or_none()


def _read_branch(db: Connection, key: str, mark: Mark) -> list[Record]:
    """The records up to one that is on a branch which gave way: a merge in the thread has them.

    Raises:
        Refusal: unfoldable; there is no such branch.
    """
    own = (record for record, _ in read_records(db, key, 0, SEQ_MAX))
    branch = collect_merged_branch(own, mark.seq, mark.hash)
    if branch is None:
        raise make_missing_base_refusal()
    return branch


def _add_sizes(branch: Iterable[Record]) -> Iterator[tuple[Record, int]]:
    """What they took as lines is not known any more; their events are nearly all of it."""
    for record in branch:
        yield record, len(bytes(record.event))


def _start_fold(base_fold: CachedFold | None, key: str, header: ThreadCreated) -> CachedFold:
    """The fold before the first record: empty, or that of the base."""
    try:
        if base_fold is None:
            return CachedFold(key, ThreadFold(header), Mark())
        return CachedFold(key, base_fold.fold.make_fork(header), Mark(), base_fold.size)
    except UnknownEntryError as error:
        raise make_unfoldable_refusal(1, error.message) from None


def _restore_snapshot(db: Connection, key: str, seq: int) -> CachedFold | None:
    """The fold of the newest snapshot up to there; `None` if there is none that can be used."""
    query = (
        select(documents.c.version, documents.c.hash, documents.c.body)
        .join(
            records,
            and_(
                records.c.thread_id == documents.c.thread_id,
                records.c.seq == documents.c.version,
                records.c.hash == documents.c.hash,
            ),
        )
        .where(documents.c.thread_id == key, documents.c.version <= seq)
        .order_by(documents.c.version.desc())
    )
    for version, chain_hash, body in db.execute(query):
        data = body.encode()
        snapshot = decode_snapshot(data)
        fold = None if snapshot is None else restore_fold(snapshot)
        if snapshot is not None and fold is not None:
            return CachedFold(
                key, fold, Mark(version, chain_hash), snapshot.head.size, 0, len(data)
            )
    return None


def _read_header(db: Connection, key: str) -> ThreadCreated:
    for record, _ in read_records(db, key, 0, 1):
        return decode_header(record)
    raise make_missing_base_refusal()


def decode_header(first: Record) -> ThreadCreated:
    """What record 1 says.

    Raises:
        Refusal: unfoldable; it creates no thread.
    """
    try:
        header = decode_entry(first.event)
    except UnknownEntryError as error:
        raise make_unfoldable_refusal(1, error.message) from None
    if not isinstance(header, ThreadCreated):
        raise make_unfoldable_refusal(1, "it does not create a thread")
    return header


def read_records(
    db: Connection, key: str, after: int, through: int
) -> Iterator[tuple[Record, int]]:
    """Records as the database has them, each with its size as a line."""
    for line in read_lines(db, key, after, through):
        yield decode_record(line), len(line) + 1


def read_lines(db: Connection, key: str, after: int, through: int) -> Iterable[bytes]:
    """The lines of a thread's records, a few at a time."""
    seq = after
    while seq < through:
        query = (
            select(records.c.seq, records.c.line)
            .where(records.c.thread_id == key)
            .where(records.c.seq > seq, records.c.seq <= through)
            .order_by(records.c.seq)
            .limit(READ_COUNT)
        )
        rows = db.execute(query).all()
        if not rows:
            return
        yield from (line.encode() for _, line in rows)
        seq = rows[-1].seq


def decode_record(line: bytes) -> Record:
    """A record that was verified when it was taken."""
    return _decode_line(line)


def make_missing_base_refusal() -> Refusal:
    """What is said of a base that is not here, is another one, or may not be seen."""
    return Refusal(
        ErrorCode.UNFOLDABLE,
        "what this thread was forked from is not here as the fork knew it",
        hint="send that thread first; its owner can",
    )


def make_unfoldable_refusal(seq: int, why: str) -> Refusal:
    """What is said of a record that this version cannot take in."""
    return Refusal(
        ErrorCode.UNFOLDABLE,
        f"record {seq} cannot be folded: {why}",
        hint="nothing was taken; the server may be older than the client",
    )
