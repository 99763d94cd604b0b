"""A process that works for a fleet until it is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any

from treadle.agent.fleet import Fleet
from treadle.agent.fleet_file import use_fleet
from treadle.errors import UsageError
from treadle.fleet.health import serve_health


def run_worker(
    place: str,
    queues: Sequence[str],
    concurrency: int,
    health_port: int | None,
    started: Callable[[int | None], None],
) -> None:
    """Work for a fleet until SIGTERM or SIGINT; then finish the steps at work, and hand over.

    A second signal ends the process where it is, which a crash might do as well.

    Args:
        place: `FILE.py:NAME` of the fleet.
        queues: of which jobs are taken.
        concurrency: how many tasks at a time.
        health_port: where it says how it is, on every address; 0 takes any; `None` for nowhere.
        started: is told the port.

    Raises:
        UsageError: there is no such fleet, or nobody can listen on the port.
        StoreError: the queue cannot be reached.
    """
    use_fleet(place, lambda fleet: _run(fleet, queues, concurrency, health_port, started))


async def _run(
    fleet: Fleet,
    queues: Sequence[str],
    concurrency: int,
    health_port: int | None,
    started: Callable[[int | None], None],
) -> None:
    stop, loop, worker = asyncio.Event(), asyncio.get_running_loop(), fleet.make_worker()

    def end(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)  # the next one is the system's
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)

    def describe() -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "draining": stop.is_set(),
            "running": [*worker.running],
            "done": worker.done_count,
        }

    port = None
    if health_port is not None:
        try:
            port = await serve_health(health_port, describe)
        except OSError as error:
            raise UsageError(f"nobody can listen on port {health_port}: {error}") from error
    started(port)
    await worker.run(queues, concurrency, stop)
