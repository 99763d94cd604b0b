"""A thread that has grown in another store: brought up to where it has got there."""

from __future__ import annotations

from treadle.errors import UsageError
from treadle.store.adoption_marks import Loan
from treadle.store.file_replacement import replace_file
from treadle.store.folder_source import FolderSource
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import ThreadReader, decode_header
from treadle.thread.record import JournalCondition, scan_journal


def update_replica(store: LocalStore, data: bytes, *, lender: str = "") -> int:
    """Bring a thread up to the end of a longer journal of it; all of it or nothing.

    The file is replaced as a whole: the records were many writes, and a power cut in the middle of
    a single one of all of them could leave what looks like damage. From then on the thread counts
    as made elsewhere.

    Args:
        store: where the thread is.
        data: the bytes of the longer journal, from record 1.
        lender: as `LocalStore.adopt` has it; one that was not borrowed there is the user's own.

    Returns:
        The version that the thread had before.

    Raises:
        UsageError: it is no intact journal, or the thread has gone on differently here.
        UnknownThreadError: there is no such thread.
        StoreError: the thread cannot be written to, as `LocalStore.open` says.
        DiskError: the thread is as it was.
    """
    found = scan_journal(data)
    records = found.records
    if not records or found.condition is not JournalCondition.CLEAN:
        raise UsageError(f"this is no intact journal: {found.reason or 'it holds no record'}")
    ThreadReader(FolderSource(store.folders)).fold_records(records)
    writer = store.open(decode_header(records[0]).thread)
    try:
        head = writer.head
        if len(records) < head.seq or records[head.seq - 1].hash != head.hash:
            raise UsageError(f"thread {writer.thread_id} has gone on differently here")
        if len(records) > head.seq:
            is_lent = lender and store.adopted.is_borrowed(writer.thread_id, head.seq, lender)
            loan = Loan(lender if is_lent else "", len(records))
            store.adopted.mark(writer.thread_id, loan=loan)
            path = store.folders.path(writer.thread_id, JOURNAL_SUFFIX)
            replace_file(store.folders.disk, path, data)
    finally:
        writer.close(wants_snapshot=False)
    return head.seq
