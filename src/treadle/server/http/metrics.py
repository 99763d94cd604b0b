"""What a server counts, in the form of Prometheus; of several processes together."""

from __future__ import annotations

import os
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Where the library keeps the numbers of several processes; it looks once, when it is imported."""

METRICS_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_DURATIONS_S: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The numbers of one application.

    Labels are templates of routes, methods and statuses, all of them bounded sets.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        labels = ("method", "route", "status")
        self.requests = Counter("treadle_requests", "Requests answered.", labels, registry=own)
        self.durations = Histogram(
            "treadle_request_seconds",
            "From the headers of a request to the end of its answer.",
            ("method", "route"),
            buckets=_DURATIONS_S,
            registry=own,
        )
        self.pushes = Counter("treadle_pushes", "Pushes of records that succeeded.", registry=own)
        self.pushed_size = Counter(
            "treadle_pushed_bytes", "Bytes of these, unpacked.", registry=own
        )
        self.conflicts = Counter("treadle_conflicts", "Requests refused with 409.", registry=own)
        self.database_errors = Counter(
            "treadle_database_errors", "Requests that the database failed.", registry=own
        )
        self.refused = Counter(
            "treadle_refused", "Requests refused, by code.", ("code",), registry=own
        )
        self.streams = Gauge(
            "treadle_open_streams",
            "Streams of changes that are open.",
            multiprocess_mode="livesum",
            registry=own,
        )
        if not os.environ.get(FOLDER_VARIABLE):
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)

    def render(self) -> bytes:
        """All of it, of all processes of the server."""
        if os.environ.get(FOLDER_VARIABLE):
            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            return generate_latest(together)
        return generate_latest(self.registry)


def forget_process(process_id: int) -> None:
    """A process of the server has ended: what it had open is open no more."""
    if os.environ.get(FOLDER_VARIABLE):
        mark_process_dead(process_id)  # type: ignore[no-untyped-call]
