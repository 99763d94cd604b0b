"""Durable turns with three libraries, in a folder and on PostgreSQL, as `make peers` prints them.

A turn is: a person asks, the model calls a tool (10 ms), the tool says 1 kB, the model answers
(10 ms). Each is one process, with a folder or a database of its own, on a disk.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg

from server.databases import Postgres

HERE = Path(__file__).parent
LIBRARIES = ("treadle", "langgraph", "dbos")
LOCAL_LIBRARIES = ("treadle", "langgraph")
AGENTS = {1: 60, 10: 20, 100: 10, 1000: 2}
"""How many agents work at a time, and so many turns each; their first one makes them."""


def measure(postgres: Postgres, library: str, agents: int, turns: int) -> str:
    """A cell of the table of PostgreSQL; what went wrong, if something did."""
    name = postgres.create()
    url = postgres.url(name)
    try:
        if library == "treadle":
            _prepare(url)
        before = _measure_size(url)
        return _run(library, url, agents, turns, lambda: _measure_size(url) - before)
    finally:
        postgres.drop(name)


def measure_local(folder: Path, library: str, agents: int, turns: int) -> str:
    """A cell of the table of folders."""
    place = folder / f"{library}-{agents}"
    place.mkdir()

    def measure_size() -> int:
        return sum(one.stat().st_size for one in place.rglob("*") if one.is_file())

    return _run(library, str(place), agents, turns, measure_size)


def _run(library: str, place: str, agents: int, turns: int, grown: Callable[[], int]) -> str:
    command = [sys.executable, str(HERE / f"{library}_turns.py"), place, str(agents), str(turns)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['?'])[-1][:80]}"
    found = json.loads(done.stdout.splitlines()[-1])
    size = grown() / (agents * turns) / 1000
    return f"{found['per_s']:,.0f}/s, {found['processor_ms']:.1f} ms, {size:.1f} kB"


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


def print_table(libraries: tuple[str, ...], cell: Callable[[str, int, int], str]) -> None:
    """A line for each number of agents."""
    print("\n| agents at a time | " + " | ".join(libraries) + " |")
    print("|---|" + "---|" * len(libraries))
    for agents, turns in AGENTS.items():
        cells = [cell(library, agents, turns) for library in libraries]
        print(f"| {agents} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-peers-"))
    folder.chmod(0o711)
    place = folder / "postgresql"
    place.mkdir(mode=0o755)
    postgres = Postgres(place)
    try:
        print_table(LOCAL_LIBRARIES, lambda *cell: measure_local(folder, *cell))
        print_table(LIBRARIES, lambda *cell: measure(postgres, *cell))
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
