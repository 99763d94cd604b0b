"""Fleets: what the queue costs, how fast tasks are taken in, how long the dead are missed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.report import Row, at_least, at_most
from server.databases import Postgres
from server.people import populate
from treadle.fleet.port import DEFAULT_QUEUE, JobStatus
from treadle.fleet.worker import FleetWorker
from treadle.server.data.database import Database

SUBMITTED: Final = int(os.environ.get("BENCH_SUBMITTED", "10000"))
"""Tasks that are submitted and not worked on."""

TASKS: Final = int(os.environ.get("BENCH_TASKS", "300"))
"""Tasks that are worked on, half of them without a queue."""

AT_ONCE: Final = 8
SUBMITTERS: Final = 16
DEATHS: Final = 3
PROGRAM: Final = Path(__file__).with_name("fleet_program.py")
PROMPT: Final = "please run the tool on the module and tell me what it says"


def measure() -> list[Row]:
    """All of it, on one PostgreSQL."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-fleet-"))
    folder.chmod(0o711)
    place = folder / "postgresql"
    place.mkdir(mode=0o755)
    postgres = Postgres(place)
    try:
        rows: list[Row] = []
        for part in (_work, _die, _submit):
            with _opened(postgres, folder) as url:
                rows += asyncio.run(part(url, folder))
        return rows
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _opened(postgres: Postgres, folder: Path) -> Iterator[str]:
    """A database with a user for the threads, and the program of a fleet on it."""
    url = postgres.url(postgres.create())
    database = Database(url)
    database.prepare()
    populate(database)
    database.dispose()
    os.environ.update(BENCH_URL=url, BENCH_FOLDER=str(folder))
    sys.modules.pop("bench.fleet_program", None)
    yield url
    sys.modules["bench.fleet_program"].store.close()


def _load() -> Any:
    """The program, anew for each database."""
    return import_module("bench.fleet_program")


# ---- work ----------------------------------------------------------------------------------------


async def _work(_: str, __: Path) -> list[Row]:
    """The same tasks by a worker, and by a program that has no queue."""
    program = _load()
    await _work_without_queue(program, AT_ONCE)  # plans, connections, pages
    alone_s = await _work_without_queue(program, TASKS)
    for number in range(TASKS):
        await program.worker.submit(PROMPT, key=f"task {number}")
    stop, worker = asyncio.Event(), program.fleet.make_worker()
    began = time.perf_counter()
    running = asyncio.create_task(worker.run((DEFAULT_QUEUE,), AT_ONCE, stop))
    await _until(lambda: _have_been_left(worker, TASKS))  # to list all jobs would cost as much
    took_s = time.perf_counter() - began
    stop.set()
    await running
    states = [one.status for one in await program.fleet.jobs()]
    assert states == [JobStatus.DONE] * TASKS
    await program.scheduler.close()
    return [
        Row(
            f"tasks of one call by a worker, {AT_ONCE} at a time",
            TASKS / took_s,
            "1/s",
            note=f"{took_s / TASKS * 1e3:.1f} ms each",
        ),
        at_most(
            "  against the same tasks in a program without a queue",
            took_s / alone_s,
            "x",
            1.5,
            f"{(took_s - alone_s) / TASKS * 1e3:.1f} ms more each",
        ),
    ]


async def _work_without_queue(program: Any, count: int) -> float:
    numbers = iter(range(count))

    async def go_on() -> None:
        for _ in numbers:
            await program.worker.run(PROMPT)

    began = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    return time.perf_counter() - began


async def _have_been_left(worker: FleetWorker, count: int) -> bool:
    return worker.done_count >= count


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await holds():  # noqa: ASYNC110  a database is asked
            await asyncio.sleep(0.02)


# ---- deaths --------------------------------------------------------------------------------------


async def _die(_: str, folder: Path) -> list[Row]:
    """A worker is killed in a call; another one, which has time, goes on."""
    program = _load()
    workers = [_start(), _start()]
    missed = []
    for number in range(DEATHS):
        (folder / "begun").unlink(missing_ok=True)
        (folder / "hold").touch()
        task = await program.waiter.submit("Wait.", key=f"death {number}")
        await _until(lambda: _have_begun(folder, 1))
        first = int((folder / "begun").read_text())
        [dead] = [one for one in workers if one.pid == first]
        dead.send_signal(signal.SIGKILL)
        died = time.perf_counter()
        dead.wait()
        await _until(lambda: _have_begun(folder, 2))
        missed.append(time.perf_counter() - died)
        (folder / "hold").unlink()
        await task.result()
        workers.remove(dead)
        workers.append(_start())
    for one in workers:
        one.kill()
        one.wait()
    await program.scheduler.close()
    limit = program.STALLED_S
    return [
        at_most(
            "a killed worker's task goes on, against the silence that is waited for",
            statistics.median(missed) / limit,
            "x",
            2,
            f"{statistics.median(missed):.1f} s after the kill, {limit:g} s of silence allowed",
        )
    ]


async def _have_begun(folder: Path, count: int) -> bool:
    place = folder / "begun"
    return place.exists() and len(place.read_text().splitlines()) >= count


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "treadle", "worker", f"{PROGRAM}:fleet"]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    assert "a worker of" in worker.stderr.readline()
    return worker


# ---- what is submitted ---------------------------------------------------------------------------


async def _submit(url: str, _: Path) -> list[Row]:
    """Many tasks from one program, beside two bare commits of as many bytes for each."""
    program = _load()
    before = _read_size(url)
    numbers = iter(range(SUBMITTED))

    async def go_on() -> None:
        for number in numbers:
            await program.worker.submit(PROMPT, key=f"task {number}")

    began = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(SUBMITTERS)))
    rate = SUBMITTED / (time.perf_counter() - began)
    grown = (_read_size(url) - before) / SUBMITTED
    began = time.perf_counter()
    states = await program.fleet.jobs()
    listed = time.perf_counter() - began
    assert len(states) == SUBMITTED
    await program.scheduler.close()
    bare = await _commit_bare(url)
    return [
        at_least(
            f"{SUBMITTED:,} tasks submitted by {SUBMITTERS} callers, against two bare commits each",
            rate / bare,
            "x",
            0.2,
            f"{rate:,.0f} and {bare:,.0f} in a second",
        ),
        Row("  the database grows by", grown / 1024, "KiB each"),
        Row("  all of them listed", listed, "s"),
    ]


async def _commit_bare(url: str) -> float:
    """Pairs of commits in a second, by as many callers."""
    numbers = iter(range(SUBMITTED // 5))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY, line text)")

    async def go_on() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
            for _ in numbers:
                for _ in range(2):
                    await db.execute("INSERT INTO bare (line) VALUES (%s)", ("x" * 700,))

    began = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(SUBMITTERS)))
    return SUBMITTED // 5 / (time.perf_counter() - began)


def _read_size(url: str) -> int:
    with psycopg.connect(url) as db:
        row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])
