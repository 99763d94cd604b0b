"""The outputs that are kept beside a thread, for whoever works on it: put in, and found by call."""

from __future__ import annotations

from typing import Protocol

from treadle.core.messages import BlobRef
from treadle.store.thread_reader import ThreadReader, decode_header
from treadle.thread.branches import decode_merged_entries
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Merged
from treadle.thread.output_references import find_kept_output
from treadle.thread.record import Record


class KeptBytes(Protocol):
    """Where large outputs are kept; `Blobs` has them in a folder."""

    def keep(self, data: bytes) -> BlobRef:
        """Keep bytes, durably when this returns."""
        ...

    def read(self, ref: BlobRef) -> bytes:
        """The bytes, checked against their name."""
        ...


class ThreadOutputs:
    """What is kept beside threads.

    Args:
        reader: of the threads.
        blobs: where it is kept.
    """

    def __init__(self, reader: ThreadReader, blobs: KeptBytes) -> None:
        self._reader = reader
        self._blobs = blobs

    def keep(self, data: bytes) -> BlobRef:
        """See `Blobs.keep`."""
        return self._blobs.keep(data)

    def read(self, ref: BlobRef) -> bytes:
        """See `Blobs.read`."""
        return self._blobs.read(ref)

    def read_for_call(self, thread_id: str, call_id: str) -> bytes | None:
        """What is kept of a call of a thread, or of what it was forked from; `None`: nothing.

        Raises:
            StoreError: the disk refused, or what is named is gone.
        """
        version: int | None = None
        while True:
            records = self._reader.scan(thread_id).records[:version]
            for record in reversed(records):
                if b'"sha256"' in bytes(record.event) and (ref := _find_blob_ref(record, call_id)):
                    return self._blobs.read(ref)
            base = decode_header(records[0]).base if records else None
            if base is None:
                return None
            thread_id, version = base.thread, base.version


def _find_blob_ref(record: Record, call_id: str) -> BlobRef | None:
    """What a record names as the output of a call; of a merge, one of the branch's."""
    try:
        entry = decode_entry(record.event)
    except UnknownEntryError:
        return None
    for one in decode_merged_entries(entry) if isinstance(entry, Merged) else (entry,):
        if (kept := find_kept_output(one)) is not None and kept[0] == call_id:
            return kept[1]
    return None
