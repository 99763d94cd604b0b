"""What threads have used of models, by day and model, kept in the index so that none is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final

from msgspec import Struct

from treadle.core.llm import Usage
from treadle.core.task.events import TaskGiven
from treadle.thread.codec import Entry, get_usage
from treadle.thread.facts import Configured, Merged
from treadle.thread.record import Record
from treadle.thread.usage import SUB_AGENT, AskedModel, UsageState

USAGE_TABLE: Final = """
CREATE TABLE usage (
    number INTEGER NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    searches INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    cost TEXT,
    PRIMARY KEY (number, day, model)
) WITHOUT ROWID;
"""
_TELLING: Final = frozenset((Configured, TaskGiven, Merged))
"""Kinds of records that matter here besides those that say what was used."""

_MINUTE_SIZE: Final = len("2026-11-21T08:15")
"""Of a record's time. No day of any clock ends within a minute, and few minutes have one record."""

_COLUMNS: Final = (
    "requests, input, output, cache_read, cache_write, reasoning, unpriced, searches, estimated, "
    "cost"
)


class DayUsage(Struct, frozen=True):
    """What was used of a model on a day of the clocks here, in how many requests.

    `model` is empty where nobody knows: what was merged of another machine.
    """

    day: str
    model: str
    requests: int
    usage: Usage

    def plus(self, other: DayUsage) -> DayUsage:
        """Both, for the same day and model."""
        count = self.requests + other.requests
        return DayUsage(self.day, self.model, count, self.usage + other.usage)


class UsageCounter:
    """Adds up what the records of one thread say, in order.

    What a sub-agent used is left out of the thread it worked for: it has a thread of its own.

    Args:
        asked: who was asked before the first of them.
    """

    def __init__(self, asked: AskedModel) -> None:
        self._state = UsageState(asked)
        self._minute = self._day = ""
        self.sums: dict[tuple[str, str], DayUsage] = {}

    @property
    def asked_model(self) -> AskedModel:
        """Who is asked after the last of them."""
        return self._state.asked

    def add(self, record: Record, entry: Entry) -> None:
        """Take in a record, and what it says."""
        if type(entry) not in _TELLING and get_usage(entry) is None:
            return
        found = self._state.read_entry(record.seq, record.at, entry)
        if found is None or found.purpose == SUB_AGENT:
            return
        minute = record.at[:_MINUTE_SIZE] if record.at.endswith("Z") else ""  # of another zone
        if not minute or minute != self._minute:
            self._minute, self._day = minute, _find_day(record.at)
        new = DayUsage(self._day, found.model, 1, found.usage)
        known = self.sums.get((new.day, new.model))
        self.sums[new.day, new.model] = new if known is None else known.plus(new)


def add_usage(database: sqlite3.Connection, number: int, counter: UsageCounter) -> None:
    """Add what was counted to what is known of the thread of this number."""
    if not counter.sums:
        return
    known = {(one.day, one.model): one for one in _read(database, "WHERE number = ?", (number,))}
    for key, new in counter.sums.items():
        whole = known[key].plus(new) if key in known else new
        used = whole.usage
        row = (
            *(number, whole.day, whole.model, whole.requests),
            *(used.input_tokens, used.output_tokens, used.cache_read_tokens),
            *(used.cache_write_tokens, used.reasoning_tokens, used.unpriced_tokens),
            *(used.web_searches, used.estimated),
            None if used.cost_usd is None else str(used.cost_usd),
        )
        database.execute(
            f"INSERT OR REPLACE INTO usage (number, day, model, {_COLUMNS}) "  # noqa: S608
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )


def delete_usage(database: sqlite3.Connection, number: int) -> None:
    """Forget what a thread has used."""
    database.execute("DELETE FROM usage WHERE number = ?", (number,))


def list_day_usage(database: sqlite3.Connection, since: str) -> list[DayUsage]:
    """What all threads have used from a day on, those in the trash too; newest day first."""
    sums: dict[tuple[str, str], DayUsage] = {}
    for one in _read(database, "WHERE day >= ?", (since,)):
        known = sums.get((one.day, one.model))
        sums[one.day, one.model] = one if known is None else known.plus(one)
    return sorted(sums.values(), key=lambda one: (one.day, one.usage.total_tokens), reverse=True)


def _read(
    database: sqlite3.Connection, condition: str, values: tuple[object, ...]
) -> Iterator[DayUsage]:
    query = f"SELECT day, model, {_COLUMNS} FROM usage {condition}"  # noqa: S608  constants
    for day, model, count, *numbers, cost in database.execute(query, values):
        read, written, cached, kept, thought, unpriced, searches, estimated = numbers
        price = None if cost is None else Decimal(cost)
        used = Usage(
            read, written, bool(estimated), cached, kept, thought, price, unpriced, searches
        )
        yield DayUsage(day, model, count, used)


def _find_day(at: str) -> str:
    """The day of a record's time, by the clocks here."""
    try:
        return datetime.fromisoformat(at).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return at[:10]
