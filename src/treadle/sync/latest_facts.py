"""Which side's title, pin, tags, values and sharing hold after a merge: what was said last. Pure.

A merge is folded behind the server's records, so all that it holds would win, however old it is.
It therefore says once more what the server's branch said later. The fold needs no clock for that,
and a merge that an older version has written stays what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from msgspec.structs import replace

from treadle.thread.branches import encode_branch_event, flatten_records
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import (
    BranchRecord,
    ExtraSet,
    Merged,
    Pinned,
    Renamed,
    Shared,
    Tagged,
)
from treadle.thread.record import Record


def add_latest_facts(merge: Merged, theirs: Iterable[Record]) -> Merged:
    """A merge whose last records say again what would be overwritten by something older.

    Args:
        merge: our branch, as it is to be recorded behind theirs.
        theirs: the server's records after the last one that both have, in order.
    """
    again = _find_facts_to_repeat([*flatten_records(theirs), *merge.records])
    return replace(merge, records=(*merge.records, *again)) if again else merge


def _find_facts_to_repeat(folded: Sequence[BranchRecord]) -> list[BranchRecord]:
    """What is to follow records that are folded in this order, so that the latest hold."""
    last_place: dict[str, int] = {}
    again: list[BranchRecord] = []
    # An earlier merge may have said a record again: where it stands last is what counts.
    places = {one.hash: (one.at, place, one) for place, one in enumerate(folded)}.values()
    for _, place, record in sorted(places, key=itemgetter(0, 1)):
        fields = _list_fields(record)
        if any(last_place.get(field, place) > place for field in fields):
            again.append(record)
            place = len(folded)
        last_place |= {field: max(place, last_place.get(field, place)) for field in fields}
    return again


def _list_fields(record: BranchRecord) -> set[str]:
    """What a record replaces. A model's title gives way to a person's at any time: no field."""
    try:
        entry = decode_entry(encode_branch_event(record))
    except UnknownEntryError:
        return set()
    match entry:
        case Renamed(by="person"):
            return {"title"}
        case Pinned():
            return {"pin"}
        case Tagged():
            return {f"tag {tag}" for tag in (*entry.added, *entry.removed)}
        case ExtraSet():
            return {f"extra {key}" for key in entry.extra}
        case Shared():
            said = {"visibility": entry.visibility, "support": entry.with_support}
            return {name for name, value in said.items() if value is not None}
    return set()
