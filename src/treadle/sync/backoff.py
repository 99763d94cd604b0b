"""When a server that could not be reached is tried again. Asks no clock and throws no dice."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

FIRST_DELAY_S: Final = 1.0
DELAY_S_MAX: Final = 300.0
"""Seconds until the first try again, and at most; doubling between."""

LATER_DELAY_S_MIN: Final = 30.0
"""Seconds that a later pause has at least, so that a machine asks at most twice a minute."""

SERVER_DELAY_S_MAX: Final = 3600.0
"""Seconds that a server may ask for; more is not believed."""

_DOUBLINGS_MAX: Final = 16


def compute_delay_s(failures: int, chance: float, asked_s: float | None = None) -> float:
    """Seconds until the next try.

    Args:
        failures: how often it failed in a row, at least 1.
        chance: from 0 to 1; spreads those who failed together.
        asked_s: what the server asked for.
    """
    longest = min(DELAY_S_MAX, FIRST_DELAY_S * (1 << min(max(failures - 1, 0), _DOUBLINGS_MAX)))
    sure = min(LATER_DELAY_S_MIN, longest / 2)
    spread = sure + chance * (longest - sure)
    return max(spread, min(asked_s, SERVER_DELAY_S_MAX)) if asked_s is not None else spread


def add_seconds(now: str, seconds: float) -> str:
    """A time so many seconds after another, both in the form of records."""
    at = datetime.fromisoformat(now) + timedelta(seconds=seconds)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_due(now: str, next_try_at: str) -> bool:
    """Whether a time has come. One that is too far away is from a clock that has jumped."""
    if not next_try_at or now >= next_try_at:
        return True
    try:
        left = datetime.fromisoformat(next_try_at) - datetime.fromisoformat(now)
    except (ValueError, TypeError):
        return True
    return left.total_seconds() > SERVER_DELAY_S_MAX + 1
