"""`make bench`: print the table, write `bench/results.json`. Nothing here fails a build."""

from __future__ import annotations

import resource
from pathlib import Path

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
from bench.report import Row, print_table, write_json

RESULTS = Path(__file__).parent / "results.json"


def main() -> None:
    """Measure everything, in one run."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    rows: list[Row] = [
        *machine.measure(),
        *task.measure(),
        *turns.measure_turns(),
        *startup.measure(),
        *model_requests.measure(),
        *streams.measure(),
        *chat.measure(),
        *terminal.measure(),
        *turns.measure_fleet(),
        *turns.measure_idle(),
        *turns.measure_parallel_tools(),
        *threads.measure(),
        *commits.measure(),
        *sync.measure(),
        *pages.measure(),
        *writers.measure(),
        *postgres_turns.measure(),
        *fleet.measure(),
        *fleet_size.measure(),
        *redaction.measure(),
    ]
    print_table(rows)
    write_json(rows, RESULTS)


if __name__ == "__main__":
    main()
