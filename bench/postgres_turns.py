"""Durable turns on PostgreSQL, of one agent and of many, beside bare inserts of as many bytes."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import psycopg

from bench.report import Row, at_most
from bench.turns import PROMPT, Model, Work
from server.databases import Postgres
from server.people import populate
from treadle import AgentConfig, HeldJournal, PostgresStore, Session, Threads
from treadle.server.data.database import Database

AGENTS: Final = (1, 10, 100, 1000)
TIME_S: Final = 4.0
SYNCS: Final = 4
"""Appends of a turn with a tool."""


class MeasuredStore(PostgresStore):
    """Notes how long each append takes, and how many bytes it has."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "owner")
        self.appends: list[tuple[float, int]] = []

    def begin(self, thread_id: str, data: bytes, key: str = "") -> HeldJournal | None:  # type: ignore[override]
        """As ever."""
        held = super().begin(thread_id, data, key)
        return None if held is None else MeasuredJournal(held, self.appends)


class MeasuredJournal:
    """A journal of it."""

    def __init__(self, held: HeldJournal, appends: list[tuple[float, int]]) -> None:
        self._held, self._appends = held, appends
        self.cut, self.close = held.cut, held.close

    def append(self, data: bytes, size: int) -> None:
        """As ever."""
        began = time.perf_counter()
        self._held.append(data, size)
        self._appends.append((time.perf_counter() - began, len(data)))


def measure() -> list[Row]:
    """Turns per second, what a record takes at worst, and what a turn leaves in the database."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-turns-"))
    folder.chmod(0o711)
    place = folder / "postgresql"
    place.mkdir(mode=0o755)
    postgres = Postgres(place)
    try:
        url = postgres.url(postgres.create())
        database = Database(url)
        database.prepare()
        populate(database)
        database.dispose()
        with MeasuredStore(url) as store, psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY, line text)")
            asyncio.run(_work(store, 1))  # plans, connections, pages
            return [row for count in AGENTS for row in _measure(store, url, db, count)]
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


def _measure(
    store: MeasuredStore, url: str, db: psycopg.Connection[tuple[int]], count: int
) -> list[Row]:
    store.appends.clear()
    before = _read_sizes(db)
    turns, took_s = asyncio.run(_work(store, count))
    data, log = (now - then for now, then in zip(_read_sizes(db), before, strict=True))
    size = int(statistics.mean(size for _, size in store.appends))
    bare = _insert(url, min(count, 16), "x" * size)
    latencies = sorted(latency for latency, _ in store.appends)
    p99_ms = latencies[len(latencies) * 99 // 100] * 1000
    title = f"PostgreSQL, {count} agents"
    written = SYNCS * turns / took_s
    return [
        Row(f"{title}, durable turns", turns / took_s, "1/s", note=f"{turns} turns"),
        at_most(
            f"{title}, bare inserts of as many bytes to its appends",
            bare / written,
            "x",
            4 if count == 1 else 12,
            f"{bare:,.0f} and {written:,.0f} in a second",
        ),
        Row(f"{title}, an append at the 99th percentile", p99_ms, "ms"),
        Row(f"{title}, growth of the tables", data / turns / 1024, "KiB/turn"),
        Row(f"{title}, log written", log / turns / 1024, "KiB/turn"),
    ]


async def _work(store: MeasuredStore, count: int) -> tuple[int, float]:
    """So many agents at once, each turn after turn; the turns, and the seconds that they took."""
    threads = Threads(store)
    sessions = [
        Session(threads.create("bench"), Model(), Work(), AgentConfig("bench"))
        for _ in range(count)
    ]
    for session in sessions:
        await session.turn(PROMPT)
    began = time.perf_counter()

    async def go_on(session: Session) -> int:
        turns = 0
        while time.perf_counter() - began < TIME_S:
            await session.turn(PROMPT)
            turns += 1
        return turns

    turns = sum(await asyncio.gather(*map(go_on, sessions)))
    took_s = time.perf_counter() - began
    for session in sessions:
        await session.close()
    return turns, took_s


def _insert(url: str, connections: int, line: str) -> float:
    """Bare inserts with a commit each, in a second."""
    began = time.perf_counter()

    def insert(_: int) -> int:
        done = 0
        with psycopg.connect(url, autocommit=True) as db:
            while time.perf_counter() - began < TIME_S:
                db.execute("INSERT INTO bare (line) VALUES (%s)", (line,))
                done += 1
        return done

    with ThreadPoolExecutor(connections) as pool:
        return sum(pool.map(insert, range(connections))) / (time.perf_counter() - began)


def _read_sizes(db: psycopg.Connection[tuple[int]]) -> tuple[int, int]:
    """Bytes of the tables of threads with their indexes, and of the log that was ever written."""
    tables = ("records", "journals", "threads", "writers")
    sizes = [
        db.execute("SELECT pg_total_relation_size(%s)", (table,)).fetchone() for table in tables
    ]
    log = db.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    assert log is not None
    return sum(row[0] for row in sizes if row is not None), int(log[0])
