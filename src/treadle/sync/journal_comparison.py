"""How two journals of one thread stand to each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from hashlib import sha256
from typing import Final

from msgspec import Struct

from treadle.api.marks import Mark
from treadle.sync.thread_comparison import decode_scrub
from treadle.thread.facts import Scrubbed
from treadle.thread.record import Record


class JournalRelation(Enum):
    """What two journals have to do with each other."""

    SAME = "same"
    BEHIND = "behind"
    """Theirs is ours and more."""
    AHEAD = "ahead"
    """Ours is theirs and more."""
    DIVERGED = "diverged"
    SCRUBBED_THERE = "scrubbed_there"
    """Theirs is ours as a scrub has left it, and more."""
    SCRUBBED_HERE = "scrubbed_here"
    STRANGERS = "strangers"
    """They have not even the first record in common."""


class JournalComparison(Struct, frozen=True):
    """How they stand, and how many records both have, in whatever wording."""

    relation: JournalRelation
    count: int


def compare_journals(
    ours: Sequence[Record], theirs: Sequence[Record], acked: Mark
) -> JournalComparison:
    """Compare two journals, each from record 1.

    Args:
        ours: this machine's.
        theirs: the server's.
        acked: the last record that both are known to have had.
    """
    count = 0
    for mine, other in zip(ours, theirs, strict=False):
        if mine.hash != other.hash:
            break
        count += 1
    if count == len(ours):
        return JournalComparison(
            JournalRelation.SAME if count == len(theirs) else JournalRelation.BEHIND, count
        )
    if count == len(theirs):
        return JournalComparison(JournalRelation.AHEAD, count)
    both = _count_matching(ours, theirs, count, is_same=_is_same)
    if both > count:
        here, there = _list_scrub_ids(ours), _list_scrub_ids(theirs)
        # The server's chain stands, also where both were scrubbed.
        is_ours = bool(here - there) and not there - here
        return JournalComparison(
            JournalRelation.SCRUBBED_HERE if is_ours else JournalRelation.SCRUBBED_THERE, both
        )
    return _compare_old_journals(ours, theirs, acked, count)


def _compare_old_journals(
    ours: Sequence[Record], theirs: Sequence[Record], acked: Mark, count: int
) -> JournalComparison:
    """Compare journals that older programs may have scrubbed, which let the ids of records go.

    A scrub leaves numbers, times and kinds of records as they were, up to the last one before it.
    That another machine says so is no proof: what has not that shape is another branch, and what
    is ours is kept.
    """
    said_there = [said for one in theirs[count:] if (said := _decode_old_scrub(one))]
    places = {record.hash: record.seq for record in ours}
    if said_there:
        alike = _count_matching(ours, theirs, count)
        known = [places[said.before] for said in said_there if said.before in places]
        if alike > count and alike >= max(known, default=0):
            return JournalComparison(JournalRelation.SCRUBBED_THERE, alike)
    if any(_decode_old_scrub(one) for one in ours[count:]):
        alike = _count_matching(ours, theirs, count)
        has_acked = 0 < acked.seq <= len(theirs) and theirs[acked.seq - 1].hash == acked.hash
        alike = max(alike, acked.seq if has_acked and acked.seq <= len(ours) else 0)
        if alike > count:
            return JournalComparison(JournalRelation.SCRUBBED_HERE, alike)
    return JournalComparison(
        JournalRelation.DIVERGED if count else JournalRelation.STRANGERS, count
    )


def _list_scrub_ids(records: Sequence[Record]) -> set[str]:
    """The scrubs that these records have seen, by their ids."""
    return {one.id for one in records if decode_scrub(one)}


def _decode_old_scrub(record: Record) -> Scrubbed | None:
    """What it says of a scrub by an older program."""
    said = decode_scrub(record)
    return None if said is None or said.keeps_ids else said


def _is_same(mine: Record, other: Record) -> bool:
    return mine.id == other.id


def _accept_any(mine: Record, other: Record) -> bool:
    return True


def _count_matching(
    ours: Sequence[Record],
    theirs: Sequence[Record],
    count: int,
    is_same: Callable[[Record, Record], bool] = _accept_any,
) -> int:
    """How many records are the same but for what a scrub takes out, from the first on."""
    for mine, other in zip(ours[count:], theirs[count:], strict=False):
        if not is_same(mine, other):
            break
        if (mine.at, _record_type(mine)) != (
            other.at,
            _record_type(other),
        ) or not _may_be_same_record(mine, other):
            break
        count += 1
    return count


def _may_be_same_record(mine: Record, other: Record) -> bool:
    """Whether two records are the same, or one of them may be what a scrub has made of the other.

    Two machines may record something of one kind at one time; then neither bears a scrub's marks.
    """
    one, two = bytes(mine.event), bytes(other.event)
    return one == two or any(mark in one or mark in two for mark in _SCRUB_MARKERS)


_SCRUB_MARKERS: Final = (b"[REDACTED:", b'"sha256"', b'"commit"', b'"base"')
"""What stands in a record that a scrub has changed: its label, or the name of what has moved."""


def _record_type(record: Record) -> bytes:
    """What a record says that it is: its first field, or all of it if that is another one."""
    return bytes(record.event).partition(b",")[0]


_LABEL: Final = re.compile(rb"\[REDACTED:[^\]]*\]")
_SCRUBBED_FIELDS: Final = re.compile(rb'"(?:sha256|commit|tree|size)":(?:"[0-9a-f]*"|\d+)')
"""What a scrub changes besides texts."""


def find_reappeared_records(ours: Sequence[Record], theirs: Sequence[Record]) -> dict[str, str]:
    """The records in which theirs shows what a scrub has taken out of ours.

    Args:
        ours: our records.
        theirs: the same ones, as the server has them.

    Returns:
        For the id of each what `digest` makes of their event.
    """
    return {
        other.id: compute_event_digest(bytes(other.event))
        for mine, other in zip(ours, theirs, strict=True)
        if _shows_scrubbed_text(bytes(other.event), bytes(mine.event))
    }


def compute_event_digest(event: bytes) -> str:
    """What tells an event from what a scrub makes of it."""
    return sha256(event).hexdigest()[:32]


def _shows_scrubbed_text(theirs: bytes, ours: bytes) -> bool:
    """Whether a text that has a label in ours stands in theirs: ours is not theirs with more."""
    if not _LABEL.search(ours):
        return False
    ours, theirs = _SCRUBBED_FIELDS.sub(b"", ours), _SCRUBBED_FIELDS.sub(b"", theirs)
    first, *rest = _LABEL.split(theirs)
    if not rest:
        return ours != theirs
    *middle, last = rest
    if not ours.startswith(first) or not ours.endswith(last):
        return True
    place, end = len(first), len(ours) - len(last)
    for piece in middle:
        found = ours.find(piece, place, end)
        if found < 0:
            return True
        place = found + len(piece)
    return place > end
