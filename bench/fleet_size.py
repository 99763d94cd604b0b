"""Whether the arithmetic of docs/fleet-size.md holds: many agents that mostly wait for a model.

A turn costs the database so much, measured with few agents that never wait. Of many that wait, the
cost in a second must follow: turns by turns.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import psycopg
from msgspec import Struct

from bench.postgres_turns import SYNCS
from bench.report import Row, at_least, at_most
from bench.turns import PROMPT, Model, Work
from server.databases import Postgres
from server.people import populate
from treadle import AgentConfig, PostgresStore, Session, Threads
from treadle.server.data.database import Database
from treadle.server.threads.journal_uptake import take_in_oldest_journal
from treadle.store.local_store import utc_now

SIZES: Final = tuple(int(one) for one in os.environ.get("BENCH_SIZES", "500,2000").split(","))
"""Agents."""

MODEL_S: Final = 10.0
"""How long a model takes for an answer; a turn has two."""

FEW: Final = 20
TIME_S: Final = 15.0
PAUSE_S: Final = 0.05


class _Cost(Struct, frozen=True):
    """What turns took: how many there were in how many seconds, and bytes of tables and log."""

    turns: int
    took_s: float
    table_size: int
    log_size: int
    processor_s: float
    busy: float
    """Connections that were at work, on average."""


def measure() -> list[Row]:
    """A turn of few agents, and what follows of it for many."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-size-"))
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
        with PostgresStore(url, "owner") as store:
            few = asyncio.run(_work(store, url, FEW, 0.0))
            rows: list[Row] = []
            for size in SIZES:
                rows += _compare(size, asyncio.run(_work(store, url, size, MODEL_S)), few)
            return [*rows, *_take_in(url)]
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


def _compare(size: int, many: _Cost, few: _Cost) -> list[Row]:
    """What was measured beside what the cost of a turn says."""
    wanted = size / (2 * MODEL_S)
    rate = many.turns / many.took_s
    log, log_of_few = many.log_size / many.turns, few.log_size / few.turns
    used, used_by_few = many.processor_s / many.turns, few.processor_s / few.turns
    title = f"{size:,} agents whose model takes {MODEL_S:g} s"
    return [
        at_least(
            f"{title}, turns against the arithmetic",
            rate / wanted,
            "x",
            0.95,
            f"{rate:.1f} a second, {rate * SYNCS:.0f} appends; {many.busy:.1f} connections busy",
        ),
        at_most(
            "  log written of a turn, against that of few who never wait",
            log / log_of_few,
            "x",
            1.2,
            f"{log / 1024:.1f} and {log_of_few / 1024:.1f} KiB",
        ),
        at_most(
            "  CPU of the program for a turn, against the same",
            used / used_by_few,
            "x",
            1.5,
            f"{used * 1e3:.2f} and {used_by_few * 1e3:.2f} ms",
        ),
    ]


def _take_in(url: str) -> list[Row]:
    """How fast a server makes of journals what lists and pages show."""
    database, count, began = Database(url), 0, time.perf_counter()
    while database.run(lambda db: take_in_oldest_journal(db, utc_now()), is_write=True):
        count += 1
    took_s = time.perf_counter() - began
    database.dispose()
    note = "one process takes them in, each with all that was appended since the last time"
    return [Row("  threads taken into lists by a server", count / took_s, "1/s", note=note)]


async def _work(store: PostgresStore, url: str, size: int, model_s: float) -> _Cost:
    """So many agents at once, each turn after turn, spread over the time that a turn takes."""
    threads = Threads(store)
    sessions = []
    for _ in range(size):
        writer = await asyncio.to_thread(threads.create, "bench")
        sessions.append(Session(writer, Model(model_s), Work(), AgentConfig("bench")))
    is_over, turns = False, 0

    async def go_on(number: int, session: Session) -> None:
        nonlocal turns
        await asyncio.sleep(2 * model_s * number / size)
        while not is_over:
            await session.turn(PROMPT)
            turns += 1

    working = [asyncio.create_task(go_on(*one)) for one in enumerate(sessions)]
    await asyncio.sleep(2 * model_s)  # by then each has begun
    before, first, began = _read_sizes(url), turns, time.perf_counter()
    used, busy, looking_s = _used_s(), [], 0.0
    with psycopg.connect(url, autocommit=True) as db:
        while time.perf_counter() - began < TIME_S:
            before_look = time.thread_time()
            busy.append(_count_busy(db))
            looking_s += time.thread_time() - before_look
            await asyncio.sleep(PAUSE_S)
    took_s, done, used = time.perf_counter() - began, turns - first, _used_s() - used - looking_s
    after = _read_sizes(url)
    is_over = True
    for task in working:
        task.cancel()
    await asyncio.wait(working)
    for session in sessions:
        await session.close()
    tables, log = (now - then for now, then in zip(after, before, strict=True))
    return _Cost(done, took_s, tables, log, used, sum(busy) / len(busy))


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _count_busy(db: psycopg.Connection[tuple[int]]) -> int:
    row = db.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND state <> 'idle' AND pid <> pg_backend_pid()"
    ).fetchone()
    assert row is not None
    return row[0]


def _read_sizes(url: str) -> tuple[int, int]:
    """Bytes of the database, and of the log that was ever written."""
    with psycopg.connect(url) as db:
        row = db.execute(
            "SELECT pg_database_size(current_database()), pg_current_wal_lsn() - '0/0'::pg_lsn"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
