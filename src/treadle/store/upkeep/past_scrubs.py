"""What journals say of the scrubs that have changed them: whether a fork was missed by one."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Base, Scrubbed
from treadle.thread.record import Record


def has_missed_scrub(base: Base, records: Sequence[Record]) -> bool:
    """Whether a fork knows its base as that was just before a scrub, which proves what it is now.

    So it is with a fork whose maker died at the moment in which it would have seen that.

    Args:
        base: what the fork knows.
        records: those of the thread it goes on from, as they are.
    """
    if not 1 <= base.version < len(records):
        return False
    said = _scrubbed(records[base.version])
    return said is not None and said.before == base.hash


def was_scrubbed(records: Sequence[Record]) -> bool:
    """Whether a scrub has ever changed these records."""
    return any(map(_scrubbed, records))


def _scrubbed(record: Record) -> Scrubbed | None:
    """The record, if it says that the thread was scrubbed."""
    if b'"scrubbed"' not in bytes(record.event):
        return None
    try:
        entry = decode_entry(record.event)
    except UnknownEntryError:
        return None
    return entry if isinstance(entry, Scrubbed) else None
