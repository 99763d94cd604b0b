"""Taking a text out of a journal: its records are changed and chained anew. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import UsageError
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import BranchRecord
from treadle.thread.record import GENESIS, Head, Record, hash_record, scan_journal

_FIXED: Final = frozenset(
    {"base", "commit", "hash", "machine", "parent", "sha256", "thread", "tool_name", "tree"}
)
"""Fields that name a thing. A text that is a part of such a name cannot be taken out of it."""

_OF_BRANCHES: Final = frozenset(BranchRecord.__struct_fields__)

_REFERENCE_KEYS: Final = ('"sha256"', '"commit"')
"""What stands in a record that names a thing that may have moved."""


class RecordChange(Struct, frozen=True):
    """What becomes of records.

    `redact` takes the text out of a string. `moved` gives the new names of what has one: blobs,
    commits, trees. `sizes` gives the new sizes of blobs, in bytes, by their old names.
    """

    redact: Callable[[str], str]
    moved: Mapping[str, str] = {}
    sizes: Mapping[str, int] = {}


class ScrubbedJournal(Struct, frozen=True):
    """A journal after a change: its intact records, where they end, how many are others now."""

    data: bytes
    records: list[Record]
    head: Head
    count: int


def scrub_journal(data: bytes, change: RecordChange) -> ScrubbedJournal:
    """Change the intact records of a journal. Order, times, batch marks and ids stay.

    Args:
        data: the journal's bytes, from record 1; what stands after its intact records is left out.
        change: what becomes of each record.

    Raises:
        UsageError: the text is a part of how threads are written, or of the name of a thing.
    """

    def changed(record: Record, before: bytes, after: bytes) -> bytes:
        event = _change_event(record.seq, bytes(record.event), change)
        _check_remainder(record.seq, before + event + after, change)
        return event

    return replace_events(data, changed)


def replace_events(
    data: bytes, make_event: Callable[[Record, bytes, bytes], bytes]
) -> ScrubbedJournal:
    """The intact records of a journal with other events.

    Args:
        data: the journal's bytes, from record 1.
        make_event: gives a record's new event; it gets what stands before and after the old one.
    """
    lines: list[bytes] = []
    records: list[Record] = []
    previous, last, start, count = Head(), GENESIS, 0, 0
    for record in scan_journal(data).records:
        stop = data.index(b"\n", start)
        seal = b',"hash":"%b"}' % record.hash.encode()
        body = data[start:stop].removesuffix(seal)
        start = stop + 1
        before, old, after = body.partition(bytes(record.event))
        first = b',"id":"%b"' % record.id.encode()
        after = after.removesuffix(first)
        event = make_event(record, before, after)
        count += event != old
        if event != old or previous.hash != last:
            body = before + event + after + first
        last, digest = record.hash, hash_record(previous.hash, body + b"}")
        line = b'%b,"hash":"%b"}\n' % (body, digest.encode())
        lines.append(line)
        name = record.first_hash if digest == record.hash else record.id
        records.append(Record(record.seq, record.at, msgspec.Raw(event), digest, name))
        previous = Head(record.seq, digest, record.at, previous.size + len(line))
    return ScrubbedJournal(b"".join(lines), records, previous, count)


def _change_event(seq: int, event: bytes, change: RecordChange) -> bytes:
    """The event's bytes after the change; the same ones if it holds nothing to be changed.

    What a program makes of the changed bytes must be what it made of the old ones, changed:
    otherwise the text was a part of how events are written.
    """
    text = event.decode("utf-8", "surrogateescape")
    is_moved = bool(change.moved) and any(name in text for name in _REFERENCE_KEYS)
    # Escapes may hide the text from who looks at the bytes alone.
    if not is_moved and "\\" not in text and change.redact(text) == text:
        return event
    try:
        plain = msgspec.json.decode(event)
        changed = _change_value(seq, plain, change)
        if changed == plain:
            return event
        data = msgspec.json.encode(changed)
    except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise _make_refusal(seq) from error
    try:
        entry = decode_entry(event)
    except UnknownEntryError:
        # A newer program knows what its words mean; those it writes with are not touched.
        if _list_format_words(changed) != _list_format_words(plain):
            raise _make_refusal(seq) from None
        return data
    try:
        is_same = decode_entry(data) == _change_value(seq, entry, change)
    except UnknownEntryError:
        is_same = False
    if not is_same:
        raise _make_refusal(seq)
    return data


def _change_value(seq: int, value: Any, change: RecordChange) -> Any:
    """The value with every text in it changed, and every name of what has moved."""
    if isinstance(value, str):
        return change.moved.get(value) or change.redact(value)
    if isinstance(value, BranchRecord):
        return replace(value, event=_change_branch_event(seq, value.event, change))
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        for name in _FIXED & fields.keys():
            if isinstance(fields[name], str) and change.redact(fields[name]) != fields[name]:
                raise _make_refusal(seq)
        changed = {name: _change_value(seq, item, change) for name, item in fields.items()}
        return replace(value, **_update_blob_size(fields, changed, change))
    if isinstance(value, dict) and {*value} == _OF_BRANCHES and isinstance(value["event"], dict):
        return {**value, "event": _change_branch_event(seq, value["event"], change)}
    if isinstance(value, dict):
        changed = {
            _change_value(seq, key, change): _change_value(seq, item, change)
            for key, item in value.items()
        }
        if len(changed) != len(value):
            raise _make_refusal(seq)  # two of its words would become one
        return _update_blob_size(value, changed, change)
    if isinstance(value, list | tuple):
        return type(value)(_change_value(seq, item, change) for item in value)
    return value


def _change_branch_event(seq: int, event: dict[str, Any], change: RecordChange) -> Any:
    """The event of a record of another branch: changed as one of this thread would be."""
    return msgspec.json.decode(_change_event(seq, msgspec.json.encode(event), change))


def _update_blob_size(
    before: Mapping[str, Any], changed: dict[str, Any], change: RecordChange
) -> dict[str, Any]:
    """The size goes with the blob."""
    name = before.get("sha256")
    if isinstance(name, str) and name in change.sizes:
        return {**changed, "size": change.sizes[name]}
    return changed


def _list_format_words(value: Any) -> list[str]:
    """The words a record is written with: its keys and what it says it is, in order."""
    if isinstance(value, dict):
        said = [value["type"]] if isinstance(value.get("type"), str) else []
        return [
            *value,
            *said,
            *(word for item in value.values() for word in _list_format_words(item)),
        ]
    if isinstance(value, list):
        return [word for item in value for word in _list_format_words(item)]
    return []


def _check_remainder(seq: int, body: bytes, change: RecordChange) -> None:
    """Nothing may be left of the text, such as in a number or a time. Hashes are chance."""
    text = body.decode("utf-8", "surrogateescape") + ',"id":"","hash":"'
    if change.redact(text) != text:
        raise _make_refusal(seq)


def _make_refusal(seq: int) -> UsageError:
    return UsageError(
        f"the text is a part of how threads are written: it cannot be taken out of record {seq}",
        hint="nothing was changed; give more of the secret, if there is more of it",
    )
