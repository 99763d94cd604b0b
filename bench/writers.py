"""Several processes that push into one PostgreSQL: what they reach, and what they wait for."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event
from typing import Final

import psycopg

from bench.report import Row, at_most
from core.samples import answer, said
from server.chains import chain, index_all, send
from server.databases import Postgres
from server.people import People, populate
from treadle.server.context import Principal
from treadle.server.data.database import Database
from treadle.server.http.services import INDEX_GATHER_S

TIME_S: Final = float(os.environ.get("BENCH_WRITERS_TIME_S", "5"))
THREADS: Final = 8
PROCESSES: Final = (1, 2, 4)
SAMPLE_TIME_S: Final = 0.01


def measure() -> list[Row]:
    """Pushes per second of one, two and four processes, and which part of them waits for a lock."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-writers-"))
    folder.chmod(0o711)
    place = folder / "postgresql"
    place.mkdir(mode=0o755)
    postgres = Postgres(place)
    try:
        name = postgres.create()
        url = postgres.url(name)
        database = Database(url)
        database.prepare()
        owner = populate(database)["owner"]
        database.dispose()
        rows: list[Row] = []
        for processes in PROCESSES:
            rows += _run(url, owner, processes)
        return rows
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


def _run(url: str, owner: Principal, processes: int) -> list[Row]:
    command = [sys.executable, "-m", "bench.writers", url, str(owner.user_id)]
    command += [str(owner.organization_id)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    waits: Counter[str] = Counter()
    with psycopg.connect(url, autocommit=True) as watching:
        while any(one.poll() is None for one in running):
            for kind, event in watching.execute(
                "SELECT coalesce(wait_event_type, 'CPU'), coalesce(wait_event, '') "
                "FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
            ):
                waits[f"{kind}:{event}"] += 1
            with suppress(subprocess.TimeoutExpired):
                running[-1].wait(SAMPLE_TIME_S)
    pushes = sum(int(one.communicate()[0]) for one in running)
    locked = sum(number for kind, number in waits.items() if kind.startswith("Lock:"))
    part = 100 * locked / max(1, sum(waits.values()))
    note = ", ".join(f"{kind} {number}" for kind, number in waits.most_common(4))
    title = f"PostgreSQL, {processes} processes"
    return [
        Row(f"{title}, pushes", pushes / TIME_S, "1/s"),
        at_most(f"{title}, active samples that wait for a lock", part, "%", 30, note),
    ]


def _push_on(url: str, user_id: int, organization_id: int) -> int:
    database = Database(url, pool_size=THREADS)
    people = People(database, {"owner": Principal(user_id, "owner", organization_id, "acme")})
    until = time.monotonic() + TIME_S

    def one_thread(_: int) -> int:
        made = chain(secrets.randbits(40), [])
        send(people, made)
        for number in count():
            if time.monotonic() > until:
                return number
            before, made = made.mark, made.more((said(f"{number}"), answer("yes")))
            send(people, made, before)
        return 0

    done = Event()

    def index() -> None:
        """Behind the pushes, as a server does it."""
        while not done.is_set():
            index_all(database)
            done.wait(INDEX_GATHER_S)

    with ThreadPoolExecutor(THREADS + 1) as pool:
        indexing = pool.submit(index)
        pushes = sum(pool.map(one_thread, range(THREADS)))
        done.set()
        indexing.result()
    return pushes


if __name__ == "__main__":
    print(_push_on(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
