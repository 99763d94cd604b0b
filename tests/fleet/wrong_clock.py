"""Treadle in a process whose clock is wrong: `wrong_clock.py SECONDS ARGUMENT...`."""

from __future__ import annotations

import datetime
import runpy
import sys
import time


def set_ahead(seconds: float) -> None:
    """Whatever this process loads from now on finds this clock."""
    true, true_time = datetime.datetime, time.time
    offset = datetime.timedelta(seconds=seconds)

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, true)

    class Wrong(true, metaclass=Kind):  # type: ignore[misc, valid-type]
        __slots__ = ()  # of the size that compiled modules expect

        @classmethod
        def now(cls, zone: datetime.tzinfo | None = None) -> datetime.datetime:
            return true.now(zone) + offset

    datetime.datetime = Wrong  # type: ignore[misc]
    time.time = lambda: true_time() + seconds


if __name__ == "__main__":
    set_ahead(float(sys.argv.pop(1)))
    runpy.run_module("treadle", run_name="__main__", alter_sys=True)
