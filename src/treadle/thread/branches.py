"""What another branch of a thread holds, as `Merged` keeps it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from treadle.core.events import Steered, ToolCompleted, UserInput
from treadle.core.llm import Usage
from treadle.thread.codec import (
    Entry,
    UnknownEntryError,
    decode_entry,
    get_usage,
    strip_attachment_mark,
)
from treadle.thread.facts import (
    Annotated,
    BackgroundEnded,
    BranchRecord,
    CommandShown,
    ExtraSet,
    GitObserved,
    Merged,
    Pinned,
    Renamed,
    Shared,
    Tagged,
)
from treadle.thread.record import Record
from treadle.thread.undelivered_input import UndeliveredInput, UserCommand

_MERGE: Final = b'"merged'
"""How the type of a merge begins, with and without attachments; other words may begin so too."""

MetadataFact: TypeAlias = Renamed | Tagged | Pinned | Annotated | ExtraSet | Shared
"""What people and programs add to a thread."""


def encode_branch_event(record: BranchRecord) -> bytes:
    """The JSON of a record's event, as another journal could hold it."""
    return msgspec.json.encode(record.event)


def decode_merged_entries(merged: Merged) -> Iterator[Entry]:
    """What the records of a branch say; those that this version does not know are passed over."""
    for record in merged.records:
        try:
            yield decode_entry(encode_branch_event(record))
        except UnknownEntryError:
            continue


class BranchContents(Struct, frozen=True):
    """What a branch brings besides its messages.

    `usage` is what it used of models, `heads` the commits it saw, `ended` the commands of people
    that ended there, `untold` those of them, or begun, that no message told the model of. `said`
    holds on whichever branch it was said; what was allowed there does not. `running` are commands
    in the background, by call, whose end is not recorded there, `ends` those that were not told.
    """

    usage: Usage
    heads: tuple[str, ...]
    said: tuple[MetadataFact, ...]
    ended: tuple[CommandShown, ...]
    untold: tuple[UserCommand, ...]
    running: Mapping[str, str]
    ends: tuple[BackgroundEnded, ...]


def read_branch_contents(merged: Merged) -> BranchContents:
    """What the records of a branch say that counts in the thread they were merged into."""
    usage, heads, said = Usage(), [], []
    unheard, ended = UndeliveredInput(), []
    for entry in decode_merged_entries(merged):
        if isinstance(entry, MetadataFact):
            said.append(entry)
        else:
            usage = usage + (get_usage(entry) or Usage())
        if isinstance(entry, GitObserved) and entry.head:
            heads.append(entry.head)
        elif isinstance(entry, UserCommand):
            unheard.add_command(entry)
            if isinstance(entry, CommandShown):
                ended.append(entry)
        elif isinstance(entry, UserInput | Steered):
            unheard.forget_told()
        elif isinstance(entry, ToolCompleted):
            unheard.follow_result(entry)
        elif isinstance(entry, BackgroundEnded):
            unheard.add_end(entry)
    return BranchContents(
        usage,
        tuple(heads),
        tuple(said),
        tuple(ended),
        unheard.commands,
        unheard.running,
        unheard.ends,
    )


def list_ended_command_ids(entry: Entry) -> Iterator[str]:
    """The ids of the commands of people whose end a record holds, by itself or in a merge."""
    for one in decode_merged_entries(entry) if isinstance(entry, Merged) else (entry,):
        if isinstance(one, CommandShown):
            yield one.id


def flatten_records(records: Iterable[Record]) -> Iterator[BranchRecord]:
    """The records as a branch, each once: a merge among them is what it merged.

    So no branch is put into a branch, and a record has its id wherever it has come from.
    """
    for record in records:
        plain: dict[str, Any] = msgspec.json.decode(record.event)
        is_merge = strip_attachment_mark(str(plain.get("type"))) == "merged"
        merged = _decode_merge(record) if is_merge else None
        if merged is None:
            yield BranchRecord(record.seq, record.at, record.id, plain)
        else:
            yield from merged.records


def _decode_merge(record: Record) -> Merged | None:
    try:
        entry = decode_entry(record.event)
    except UnknownEntryError:
        return None
    return entry if isinstance(entry, Merged) else None


def collect_merged_branch(
    records: Iterable[Record], version: int, last_hash: str
) -> list[Record] | None:
    """A branch that was merged into a thread, from record 1, as whoever forked it knew it.

    Args:
        records: the thread's own, in order from the first.
        version: the last record that is wanted.
        last_hash: its id.

    Returns:
        The records both have, and the branch's own as a merge has them; `None` if none has all.
    """
    known: list[Record] = []
    for record in records:
        merged = _decode_merge(record) if _MERGE in bytes(record.event) else None
        if merged is not None and 1 <= merged.version <= len(known):
            branch = _list_branch_records(merged, version, last_hash)
            if branch is not None and known[merged.version - 1].is_at(merged.version, merged.hash):
                return known[: merged.version] + branch
        known.append(record)
    return None


def _list_branch_records(merged: Merged, version: int, last_hash: str) -> list[Record] | None:
    """The records of a branch up to one; `None` if some of them are elsewhere."""
    some = merged.records[: max(0, version - merged.version)]
    numbers = [one.seq for one in some]
    if (
        not some
        or numbers != [*range(merged.version + 1, version + 1)]
        or some[-1].hash != last_hash
    ):
        return None
    return [Record(one.seq, one.at, Raw(encode_branch_event(one)), one.hash) for one in some]


def map_events_by_id(records: Iterable[Record]) -> dict[str, bytes]:
    """The events of all records that are in a journal, by themselves or in a merge."""
    found: dict[str, bytes] = {}
    for record in records:
        found[record.id] = bytes(record.event)
        if _MERGE in found[record.id]:
            found.update((one.hash, encode_branch_event(one)) for one in flatten_records([record]))
    return found


def collect_record_ids(records: Iterable[Record]) -> set[str]:
    """The ids of all records that are in a journal, by themselves or in a merge."""
    return set(map_events_by_id(records))
