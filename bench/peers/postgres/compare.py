"""Durable turns on PostgreSQL with three libraries: `make peers` prints the table.

A turn is: a person asks, the model calls a tool (10 ms), the tool says 1 kB, the model answers
(10 ms). Each is one process, with a database of its own on one server, on a disk.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from server.databases import Postgres

HERE = Path(__file__).parent
LIBRARIES = ("treadle", "langgraph", "dbos")
AGENTS = {1: 60, 10: 20, 100: 5, 1000: 2}
"""How many agents work at a time, and so many turns each."""


def measure(postgres: Postgres, library: str, agents: int, turns: int) -> str:
    """A cell of the table; what went wrong, if something did."""
    name = postgres.create()
    url = postgres.url(name)
    try:
        if library == "treadle":
            _prepare(url)
        before = _measure_size(url)
        program = HERE / f"{library}_turns.py"
        command = [sys.executable, str(program), url, str(agents), str(turns)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"failed: {(done.stderr.strip().splitlines() or ['?'])[-1][:80]}"
        found = json.loads(done.stdout.splitlines()[-1])
        size = (_measure_size(url) - before) / (agents * turns) / 1000
        return f"{found['per_s']:,.0f}/s, {found['processor_ms']:.1f} ms, {size:.1f} kB"
    finally:
        postgres.drop(name)


def _prepare(url: str) -> None:
    """The tables of a team's server, with its first user, whose the threads are."""
    from treadle.server.accounts import accounts
    from treadle.server.data.database import Database
    from treadle.store.local_store import utc_now

    database = Database(url)
    database.prepare()
    database.run(lambda db: accounts.make_first_user(db, utc_now()), is_write=True)
    database.dispose()


def _measure_size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def main() -> None:
    """Print the table."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-peers-"))
    folder.chmod(0o711)
    place = folder / "postgresql"
    place.mkdir(mode=0o755)
    postgres = Postgres(place)
    try:
        print("| agents at a time | " + " | ".join(LIBRARIES) + " |")
        print("|---|" + "---|" * len(LIBRARIES))
        for agents, turns in AGENTS.items():
            cells = [measure(postgres, library, agents, turns) for library in LIBRARIES]
            print(f"| {agents} | " + " | ".join(cells) + " |", flush=True)
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
