"""What is kept beside a thread: the large outputs and attachments that its records name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from treadle.core.events import Steered, ToolCompleted, UserInput
from treadle.core.messages import Attachment, BlobRef
from treadle.core.task.events import TaskGiven
from treadle.core.tools import ToolExecutionOutcome
from treadle.thread.branches import decode_merged_entries
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.facts import BackgroundEnded, InputQueued, Merged
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
        for ref in _list_references(entry):
            yield record.seq, ref


def find_kept_output(entry: Entry) -> tuple[str, BlobRef] | None:
    """The call whose output a record says is kept beside the thread, and where; `None`: none."""
    if isinstance(entry, ToolCompleted):
        ref = entry.outcome.blob
    elif isinstance(entry, BackgroundEnded):
        ref = entry.blob
    else:
        return None
    return None if ref is None else (entry.call_id, ref)


def list_attachments(entry: Entry) -> Iterator[Attachment]:
    """What the messages and results of a record carry."""
    if isinstance(entry, ToolCompleted):
        if isinstance(entry.outcome, ToolExecutionOutcome.Success):
            yield from entry.outcome.attachments
    elif isinstance(entry, UserInput | Steered | InputQueued):
        yield from entry.message.attachments
    elif isinstance(entry, TaskGiven):
        yield from entry.attachments
    elif isinstance(entry, Merged):
        for message in (*entry.messages, *entry.queued):
            yield from message.attachments
        for one in decode_merged_entries(entry):
            yield from list_attachments(one)


def _list_references(entry: Entry) -> Iterator[BlobRef]:
    for one in decode_merged_entries(entry) if isinstance(entry, Merged) else (entry,):
        if (kept := find_kept_output(one)) is not None:
            yield kept[1]
    yield from (one.blob for one in list_attachments(entry))
