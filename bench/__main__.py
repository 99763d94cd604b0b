"""`make bench`: print the table, write `bench/results.json`. Nothing here fails a build.

`make bench B="turns pages"` measures some parts. `B=--keep` adds the run to `bench/history.jsonl`;
`B=--compare` tells which ratios are worse by a fifth than in the runs kept there, and fails then.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bench import (
    chat,
    commits,
    fleet,
    fleet_size,
    machine,
    model_requests,
    pages,
    postgres_turns,
    redaction,
    startup,
    streams,
    sync,
    task,
    terminal,
    threads,
    turns,
    writers,
)
from bench.history import find_regressions, keep_run, print_regressions, read_history
from bench.report import Row, print_table, write_json

RESULTS = Path(__file__).parent / "results.json"

PARTS: Final[Mapping[str, Callable[[], list[Row]]]] = MappingProxyType(
    {
        "machine": machine.measure,
        "task": task.measure,
        "turns": turns.measure_turns,
        "kept": turns.measure_kept,
        "startup": startup.measure,
        "model_requests": model_requests.measure,
        "streams": streams.measure,
        "chat": chat.measure,
        "terminal": terminal.measure,
        "many_threads": turns.measure_fleet,
        "idle": turns.measure_idle,
        "parallel_tools": turns.measure_parallel_tools,
        "threads": threads.measure,
        "commits": commits.measure,
        "sync": sync.measure,
        "pages": pages.measure,
        "writers": writers.measure,
        "postgres_turns": postgres_turns.measure,
        "fleet": fleet.measure,
        "fleet_size": fleet_size.measure,
        "redaction": redaction.measure,
    }
)


def main() -> int:
    """Measure everything, or some parts, in one run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--keep", action="store_true", help="add the run to the history")
    parser.add_argument("--compare", action="store_true", help="with the history")
    asked = parser.parse_args()
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    rows = [row for name in asked.parts or PARTS for row in PARTS[name]()]
    print_table(rows)
    write_json(rows, RESULTS)
    runs = read_history()
    if asked.keep:
        keep_run(rows)
    if not asked.compare:
        return 0
    found = find_regressions(rows, runs)
    print_regressions(found, len(runs))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
