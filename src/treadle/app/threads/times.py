"""Times as people write and read them, by the clocks of this place."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_AGO_PATTERN: Final = re.compile(r"(\d{1,5})\s*([hdw])", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_TIME_HINT: Final = "write 2026-11-21, 2026-11-21T15:30, today, yesterday, 12h, 7d or 2w"


class TimeTextError(ValueError):
    """A text means no time."""


def _parse_text(value: str, now: datetime) -> tuple[datetime, bool]:
    """The moment that a text means, and whether it is a whole day, of which it is the start."""
    text = value.strip().lower()
    found = _AGO_PATTERN.fullmatch(text)
    if found is not None:
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])}), False
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if text in _DAYS_AGO:
        return (midnight - timedelta(days=_DAYS_AGO[text])).astimezone(), True
    is_day = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None
    return datetime.fromisoformat(value.strip()).astimezone(), is_day


def utc_now() -> str:
    """The time of this machine's clock, as records have it."""
    # What only shows times does not wait for the store to be imported.
    from treadle.store import local_store

    return local_store.utc_now()


def parse_moment(text: str, now: str | None = None, *, wants_end: bool = False) -> str:
    """The moment that a person means, by the clocks of this place, as records have it.

    Args:
        text: a date, a date and time, `today`, `yesterday`, or how long ago.
        now: the clock, as records have it; by default this machine's.
        wants_end: whether of a whole day the end is meant, not the start.

    Raises:
        TimeTextError: it is no time.
    """
    try:
        clock = datetime.now(UTC) if now is None else datetime.fromisoformat(now)
        moment, is_day = _parse_text(text, clock.astimezone())
        if is_day and wants_end:
            moment = (moment.replace(tzinfo=None) + timedelta(days=1)).astimezone()
        at = moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise TimeTextError(f"{text!r} is no time: {_TIME_HINT}") from error
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_moment_end(text: str, now: str) -> str:
    """The last moment of what a person wrote: of a day, a minute or a second its end.

    Args:
        text: as for `parse_moment`.
        now: the clock, as records have it.

    Raises:
        TimeTextError: it is no time.
    """
    end = parse_moment(text, now, wants_end=True)
    unit = _find_unit(text.strip())
    if unit is None:
        return end
    last = datetime.fromisoformat(end) + unit - timedelta(microseconds=1)
    return last.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _find_unit(text: str) -> timedelta | None:
    """How far behind what `parse_moment` says the end is: it says a day's end already."""
    if text.lower() in _DAYS_AGO or re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return timedelta(0)
    found = re.fullmatch(r"\S{10}[T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:?\d{2})?", text, re.ASCII)
    return timedelta(**{"seconds" if found[1] else "minutes": 1}) if found else None


def local_time(at: str) -> str:
    """A record's time to the minute, as clocks here show it; what is no time stays as it is."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return f"{at[:16]:<16}"
