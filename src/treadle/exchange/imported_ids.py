"""The id of a thread that is imported: the same for the same session, wherever it is computed."""

from __future__ import annotations

from hashlib import sha256

from treadle.exchange.times import to_milliseconds
from treadle.thread.ids import PREFIX

_TIME_BITS = 48
_SEPARATOR = "\0"


def make_imported_id(source: str, session: str, started_at: str, record_count: int = 0) -> str:
    """An id of the form all ids have (RFC 9562, version 7): a time, and what chance is elsewhere.

    Args:
        source: the program.
        session: the session's id there.
        started_at: its first time, in the form of records; may be empty.
        record_count: how many records it had, where a longer one is to be another thread; else 0.
    """
    parts = [source, session, *([str(record_count)] if record_count else [])]
    digest = sha256(_SEPARATOR.join(parts).encode("utf-8", "surrogatepass")).digest()
    chance = int.from_bytes(digest[:10])
    time = to_milliseconds(started_at) & ((1 << _TIME_BITS) - 1)
    number = time << 80 | 0x7 << 76 | (chance >> 62 & 0xFFF) << 64 | 0b10 << 62
    number |= chance & ((1 << 62) - 1)
    text = f"{number:032x}"
    return f"{PREFIX}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
