"""Times as they come in and as they are kept: UTC, six digits and `Z`; asks no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from treadle.api.error_codes import ErrorCode
from treadle.server.refusals import Refusal


def parse_time(text: str) -> str:
    """A time that somebody wrote, in the form of records.

    Raises:
        Refusal: it is no time, or says nothing of its zone, and so could be many.
    """
    try:
        found = datetime.fromisoformat(text.upper())
        if found.tzinfo is None:
            raise ValueError(text)
        return _format_time(found.astimezone(UTC))
    except (ValueError, OverflowError):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "that is no time",
            hint="times are like 2026-11-21T08:15:30Z",
        ) from None


def shift_time(at: str, *, days: int = 0, seconds: int = 0) -> str:
    """The time so much after another one; before it, if what is added is negative."""
    return _format_time(datetime.fromisoformat(at) + timedelta(days=days, seconds=seconds))


def count_seconds(at: str) -> float:
    """A time in the form of records as seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()


def _format_time(time: datetime) -> str:
    return time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
