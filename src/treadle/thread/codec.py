"""Events and facts to JSON bytes and back: the border every value crosses before it is believed.

What the machine is fed is what was decoded from the bytes that go to disk, so that a replay cannot
see anything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeGuard, get_args

import msgspec

from treadle.core.events import (
    DURABLE,
    Compacted,
    CompactionFailed,
    DurableEvent,
    LlmEvent,
    PostToolsHookCompleted,
    ToolCompleted,
    name_of,
)
from treadle.core.llm import Usage
from treadle.core.task.events import TASK_EVENTS, StateCompleted, StateFailed, TaskEvent
from treadle.errors import InternalError, TreadleError
from treadle.thread.facts import Fact, Renamed
from treadle.thread.record import check_event_size, replace_surrogates

Event: TypeAlias = DurableEvent | TaskEvent
"""What moves a machine and is stored."""

_FREE: Final = "extra"
"""The field under which a custom graph keeps what it likes."""

Entry: TypeAlias = Event | Fact
"""What a record can hold: an event of the machine, or a fact about the thread."""

_EVENT_KINDS: Final[frozenset[type]] = frozenset(get_args(Event))


def is_event(entry: Entry) -> TypeGuard[Event]:
    """Whether it is an event of a machine, and no fact.

    By a set: `isinstance` asks each class of so long a union, for a microsecond.
    """
    return type(entry) in _EVENT_KINDS


def get_usage(entry: Entry) -> Usage | None:
    """What a record says that was used of models; `None` if nothing."""
    find = _USAGE_OF.get(type(entry))
    return None if find is None else find(entry)


_USAGE_OF: Final[Mapping[type, Callable[[Any], Usage | None]]] = {
    LlmEvent.Completed: attrgetter("response.usage"),
    LlmEvent.Error: attrgetter("error.usage"),
    CompactionFailed: attrgetter("error.usage"),
    PostToolsHookCompleted: attrgetter("usage"),
    ToolCompleted: attrgetter("usage"),
    Compacted: attrgetter("usage"),
    StateCompleted: attrgetter("usage"),
    StateFailed: attrgetter("usage"),
    Renamed: attrgetter("usage"),
}
"""Where each kind of entry says what was used."""


VOCABULARY: Final = " ".join(sorted(map(name_of, (*DURABLE, *TASK_EVENTS, *Fact.__args__))))
"""The kinds of entries that this version knows."""

_SHOWN: Final = b'"attachments":[{"kind":'
_TAG: Final = re.compile(rb'\{"type":"[a-z_]+')
_TAG_WITH_ATTACHMENTS: Final = re.compile(rb'(\{"type":"[a-z_]+)\+attachments"')
"""What ends the type of an entry with attachments. Programs from before there were any would pass
over that field, and go on without the pictures; a type that they do not know stops them, and they
show the thread up to there."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes | msgspec.Raw], Entry]] = msgspec.json.Decoder(Entry).decode
"""Made by the import, which one thread does: two that make decoders of the same types at a time end
the process with a segmentation fault. It takes 9 ms, and threads that workers open come at once."""


class UnknownEntryError(TreadleError):
    """A record holds what this version cannot fold; a newer Treadle wrote it."""


def encode_entry(entry: Entry, redact: Callable[[str], str] | None = None) -> tuple[Entry, bytes]:
    """The bytes to store, and the entry as those bytes say it.

    Args:
        entry: as it arrived; its text may hold lone surrogates and known secrets.
        redact: replaces known secrets in a text; applied to every text the entry holds.

    Raises:
        UsageError: it is longer than a record can be; nothing was stored.
        InternalError: the entry cannot be stored as JSON; nothing was.
    """
    try:
        data = _to_json(entry)
        if redact is not None:
            text = data.decode()
            if redact(text) != text:
                data = _encode(_map_texts(msgspec.json.decode(data), redact))
        check_event_size(len(data))
        return _decode_any(data), data
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise InternalError(f"{type(entry).__qualname__} cannot be stored: {error}") from error


def _to_json(entry: Entry) -> bytes:
    try:
        data = _encode(entry)
    except UnicodeEncodeError:
        data = _encode(replace_surrogates(msgspec.to_builtins(entry)))
    return _TAG.sub(rb"\g<0>+attachments", data, count=1) if holds_attachments(data) else data


def strip_attachment_mark(tag: str) -> str:
    """The type of an entry, whether or not it carries attachments: for who reads JSON alone."""
    return tag.removesuffix("+attachments")


def holds_attachments(data: bytes) -> bool:
    """Whether something in this JSON, as this program writes it, carries attachments."""
    return _SHOWN in data


def _map_texts(value: Any, change: Callable[[str], str], key: str = "", free: bool = False) -> Any:
    """The value with every text changed; `free` where the keys are somebody's own words."""
    if isinstance(value, str):
        return value if key == "type" and not free else change(value)
    if isinstance(value, dict):
        return {
            change(name) if free else name: _map_texts(item, change, name, free or name == _FREE)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_map_texts(item, change, free=free) for item in value]
    return value


def _decode_any(data: bytes | msgspec.Raw) -> Entry:
    try:
        return _decode(data)
    except msgspec.DecodeError:
        plain = _TAG_WITH_ATTACHMENTS.sub(rb'\1"', bytes(data), count=1)
        if plain == bytes(data):
            raise
    return _decode(plain)


def decode_entry(data: bytes | msgspec.Raw) -> Entry:
    """The event or fact of a record.

    Raises:
        UnknownEntryError: this version does not know it; the bytes stay as they are.
    """
    try:
        return _decode_any(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnknownEntryError(f"a record this version cannot read: {error}") from error
