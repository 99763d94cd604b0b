"""The large outputs that are kept beside a thread: which of its records name them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from treadle.core.events import ToolCompleted
from treadle.core.tools import BlobRef
from treadle.thread.branches import decode_merged_entries
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.facts import BackgroundEnded, Merged
from treadle.thread.record import Record


def list_output_references(records: Iterable[Record]) -> Iterator[tuple[int, BlobRef]]:
    """What these records name, each with the record's number; a newer program's are passed over."""
    for record in records:
        if b'"sha256"' not in bytes(record.event):
            continue
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            continue
        for one in decode_merged_entries(entry) if isinstance(entry, Merged) else (entry,):
            kept = find_kept_output(one)
            if kept is not None:
                yield record.seq, kept[1]


def find_kept_output(entry: Entry) -> tuple[str, BlobRef] | None:
    """The call whose output a record says is kept beside the thread, and where; `None`: none."""
    if isinstance(entry, ToolCompleted):
        ref = entry.outcome.blob
    elif isinstance(entry, BackgroundEnded):
        ref = entry.blob
    else:
        return None
    return None if ref is None else (entry.call_id, ref)
