"""The server and sync: each job against what the same rows, or bytes, cost without it."""

from __future__ import annotations

import http.client
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from bench.processor import read_used
from bench.report import Row, at_least, at_most, median_s
from bench.threads import _journal, _turn
from server.besieging import besieged
from server.databases import Postgres
from server.serving import Served
from sync.proxy import proxied
from treadle.api.marks import Mark
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.record import scan_journal

PUSHES = int(os.environ.get("BENCH_PUSHES", "200"))
"""Pushes by one client, for each database."""

BATCH = 10
MESSAGES = int(os.environ.get("BENCH_MESSAGES", "5000"))
CLIENTS = 50
HALF_OPEN = int(os.environ.get("BENCH_HALF_OPEN", "1000"))

_ids = count(1)


def measure() -> list[Row]:
    """All of it, on both databases."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-sync-"))
    postgres = Postgres(_for_postgres(folder))  # on the same disk as SQLite
    try:
        rows: list[Row] = []
        for dialect in ("sqlite", "postgresql"):
            name = "" if dialect == "sqlite" else postgres.create()
            url = f"sqlite:///{folder}/server.db" if not name else postgres.url(name)
            with _serving(url, folder / dialect) as served:
                rows += _pushes(dialect, served, url, folder)
                rows += _crowd(dialect, served)
                if dialect == "sqlite":
                    rows += _one_more_turn(served, folder)
        with _serving(f"sqlite:///{folder}/half.db", folder / "half") as served:
            rows += _half_open(served)
        return rows
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


def _for_postgres(folder: Path) -> Path:
    """Its user, which is another one if this is root, may go through to it."""
    folder.chmod(0o711)
    place = folder / "postgresql"
    place.mkdir(mode=0o755)
    return place


@contextmanager
def _serving(url: str, home: Path) -> Iterator[Served]:
    served = Served(url, home, "--rate", "0")
    try:
        served.start()
        yield served
    finally:
        served.kill()


class _Pusher:
    """A client of one thread that sends prepared batches over one connection."""

    def __init__(self, served: Served, pushes: int) -> None:
        self._token = served.owner_token()
        self._thread = f"T-00000000-0000-7000-8000-{next(_ids):012x}"
        random = Random(self._thread)
        entries = [one for number in range(pushes * 2) for one in _turn(random, number)]
        data = _journal(self._thread, entries[: pushes * BATCH - 3])
        self._lines = data.splitlines(keepends=True)
        self._records = scan_journal(data).records
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        self._at = 0
        self.took: list[float] = []

    def push(self) -> None:
        """The next batch."""
        base = Mark() if not self._at else self._mark(self._at)
        end = self._at + BATCH
        start = time.perf_counter()
        self._connection.request(
            "POST",
            f"/api/threads/{self._thread}/records",
            b"".join(self._lines[self._at : end]),
            {
                "authorization": f"Bearer {self._token}",
                "content-type": "application/x-ndjson",
                "if-match": base.tag,
            },
        )
        answer = self._connection.getresponse()
        said = answer.read()
        assert answer.status in (200, 201), said
        self.took.append(time.perf_counter() - start)
        self._at = end

    def _mark(self, seq: int) -> Mark:
        return Mark(seq, self._records[seq - 1].hash)

    def search(self) -> None:
        """Look for a word."""
        headers = {"authorization": f"Bearer {self._token}"}
        self._connection.request("GET", "/api/threads/search?q=loom", headers=headers)
        answer = self._connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said

    def rows(self) -> list[list[tuple[str, int, str, str, str]]]:
        """The same batches as rows."""
        return [
            [
                (self._thread, one.seq, one.hash, one.at, line.decode())
                for one, line in zip(
                    self._records[at : at + BATCH], self._lines[at : at + BATCH], strict=True
                )
            ]
            for at in range(0, len(self._lines) // BATCH * BATCH, BATCH)
        ]

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


def _raw(url: str) -> Callable[[list[tuple[Any, ...]]], None]:
    """What commits a batch of rows to the same database, as durably, with nothing around it."""
    table = (
        "CREATE TABLE raw (thread_id text, seq bigint, hash text, at text, line text, "
        "PRIMARY KEY (thread_id, seq))"
    )
    if url.startswith("sqlite:"):
        lite = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        lite.execute("PRAGMA journal_mode=WAL").fetchall()
        lite.execute("PRAGMA synchronous=FULL")
        lite.execute(table)

        def commit_lite(rows: list[tuple[Any, ...]]) -> None:
            lite.execute("BEGIN IMMEDIATE")
            lite.executemany("INSERT INTO raw VALUES (?, ?, ?, ?, ?)", rows)
            lite.execute("COMMIT")

        return commit_lite
    connection = psycopg.connect(url)
    connection.execute(table.encode())
    connection.commit()

    def commit(rows: list[tuple[Any, ...]]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO raw VALUES (%s, %s, %s, %s, %s)", rows)
        connection.commit()

    return commit


def _pushes(dialect: str, served: Served, url: str, folder: Path) -> list[Row]:
    pusher = _Pusher(served, PUSHES)
    pusher.push()
    before = read_used(served.pid)
    for _ in range(PUSHES - 1):
        pusher.push()
    pusher.search()  # which ends when the texts of all pushes are taken in
    pusher.close()
    now = read_used(served.pid)
    cost_ms = (now.processor_s - before.processor_s) * 1e3 / (PUSHES - 1)
    written = (now.written - before.written) / 1e3 / (PUSHES - 1)
    pushing = sorted(pusher.took)[len(pusher.took) // 2]
    commit, batches = _raw(url), iter(pusher.rows())
    before = read_used(os.getpid())
    raw = median_s(lambda: commit(next(batches)), PUSHES - 1)
    bare = (read_used(os.getpid()).written - before.written) / 1e3 / (PUSHES - 1)
    used = [at_most(f"  processor of the server, {dialect}", cost_ms, "ms", 3)]
    if dialect == "sqlite":
        size = sum(map(len, pusher.rows()[0][0][4:])) * BATCH / 1e3
        note = f"a push has about {size:.1f} kB; bare commits of its rows write {bare:.0f} kB"
        used.append(at_most("  written by the server, sqlite", written, "kB", 30, note))
    return [
        Row(f"pushes of {BATCH} records, {dialect}", 1 / pushing, "/s"),
        at_least(
            f"  as a ratio to raw commits of the rows, {dialect}",
            raw / pushing,
            "x",
            0.05,
            f"{raw * 1e3:.2f} ms raw, {pushing * 1e3:.2f} ms over HTTP",
        ),
        *used,
    ]


def _crowd(dialect: str, served: Served) -> list[Row]:
    """Fifty clients at once against one."""
    each = max(PUSHES // 10, 4)
    alone = _Pusher(served, each * 5)
    start = time.perf_counter()
    for _ in range(each * 5):
        alone.push()
    rate_alone = each * 5 / (time.perf_counter() - start)
    pushers = [_Pusher(served, each) for _ in range(CLIENTS)]
    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(_push_all, pusher, each) for pusher in pushers]:
            done.result()
    rate = CLIENTS * each / (time.perf_counter() - start)
    took = sorted(one for pusher in pushers for one in pusher.took)
    for pusher in (alone, *pushers):
        pusher.close()
    p99, p99_alone = took[len(took) * 99 // 100], sorted(alone.took)[len(alone.took) * 99 // 100]
    return [
        at_least(
            f"{CLIENTS} clients against one, pushes per second, {dialect}",
            rate / rate_alone,
            "x",
            0.8,
            f"{rate:,.0f} and {rate_alone:,.0f} per second",
        ),
        Row(
            f"  p99 of a push among {CLIENTS}, {dialect}",
            p99 * 1e3,
            "ms",
            note=f"{p99_alone * 1e3:.1f} ms alone",
        ),
    ]


def _push_all(pusher: _Pusher, times: int) -> None:
    for _ in range(times):
        pusher.push()


def _one_more_turn(served: Served, folder: Path) -> list[Row]:
    """What a sync sends and receives for one more turn on a long thread."""
    from treadle.sync.client import HttpRemote
    from treadle.sync.credentials import Account
    from treadle.sync.cursors import Cursors
    from treadle.sync.engine import SyncEngine
    from treadle.sync.send_queue import PendingSyncStore

    home = folder / "home"
    store = LocalStore(Places(home / "data", home / "state", home / "config"))
    random = Random(7)
    entries = [one for number in range(MESSAGES // 4) for one in _turn(random, number)]
    thread = store.adopt(
        _journal(f"T-00000000-0000-7000-8000-{next(_ids):012x}", entries)
    ).header.thread
    with proxied(served.port) as proxy:
        account = Account(url=proxy.url, token=served.owner_token(), user="owner")
        with HttpRemote(account) as remote:
            disk = store.folders.disk
            engine = SyncEngine(
                store,
                remote,
                Cursors(disk, store.places, proxy.url, remote.me().user),
                PendingSyncStore(disk, store.places),
                now=store.now,
                random=Random(1).random,
                find_secrets=lambda data: [],
            )
            engine.sync()
            writer = store.open(thread)
            whole = writer.head.size
            for entry in _turn(random, MESSAGES):
                writer.stage(entry)
            writer.commit()
            turn = writer.head.size - whole
            writer.close()
            before = len(proxy.exchanges)
            start = time.perf_counter()
            engine.sync()
            took = time.perf_counter() - start
            news = proxy.exchanges[before:]
    wire = sum(len(one.sent) + len(one.received) for one in news)
    return [
        at_most(
            f"bytes on the wire for one more turn on {MESSAGES:,} messages",
            wire / turn,
            "x turn",
            3,
            f"{wire:,} bytes in {len(news)} requests, the turn has {turn:,}, "
            f"the thread {whole:,}; {took * 1e3:.0f} ms",
        )
    ]


def _half_open(served: Served) -> list[Row]:
    """Connections that never finish what they began, while somebody asks properly."""
    siege = besieged(served.port, served.owner_token(), HALF_OPEN)
    assert siege.closed_count == HALF_OPEN
    assert siege.dripped == 408
    return [
        at_most(f"{HALF_OPEN:,} half-open connections are closed after", siege.closed_s, "s", 12),
        at_most(
            "  p99 of good requests meanwhile, and while a body drips",
            siege.p99_s * 1e3,
            "ms",
            200,
            f"{len(siege.took_s):,} asked",
        ),
    ]
