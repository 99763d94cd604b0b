"""Times of records as clocks here show them."""

from __future__ import annotations

from datetime import datetime


def local_time(at: str) -> str:
    """A record's time to the minute, as clocks here show it; what is no time stays as it is."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return f"{at[:16]:<16}"
