"""Times of other programs, in the form of records: UTC, six digits, `Z`. Asks no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""No session of an agent is older; what says so does not know its time."""

_MILLISECONDS_FROM: Final = 100_000_000_000
"""A number above this counts milliseconds, as JavaScript does, not seconds."""


def parse_timestamp(value: Any) -> str:
    """The time that a record of another program names; empty if it names none.

    Args:
        value: ISO 8601 text (without a zone it is UTC), or a number of seconds or milliseconds.
    """
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MILLISECONDS_FROM else value
            found = datetime.fromtimestamp(seconds, UTC)
        else:
            return ""
    except (ValueError, OverflowError, OSError):
        return ""
    return found.isoformat(timespec="microseconds")[:-6] + "Z" if found >= _EARLIEST else ""


def to_milliseconds(at: str) -> int:
    """Milliseconds from 1970 to a time in the form of records; 0 if it is empty."""
    return int(datetime.fromisoformat(at).timestamp() * 1000) if at else 0
