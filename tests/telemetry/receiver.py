"""A collector on the loopback: takes OTLP/HTTP, and keeps what the judge makes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from telemetry.judge import parse_metrics, parse_spans, read_attributes, read_resource


class Receiver:
    """What has arrived: spans, metrics, who reported, and with which headers.

    `answer` is what it says to each request: a status and a body.
    """

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.metrics: list[Metric] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[str] = []
        self.answer: tuple[int, bytes] = (200, b"{}")
        self.arrived = threading.Event()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Keep what one request says."""
        self.headers.append(headers)
        try:
            assert headers["content-type"] == "application/json"
            if path == "/v1/traces":
                self.spans += parse_spans(body)
                self.resources.append(read_resource(body))
            else:
                assert path == "/v1/metrics"
                self.metrics += parse_metrics(body)
                self.arrived.set()
        except Exception as error:  # noqa: BLE001  told by the test
            self.faults.append(f"{type(error).__name__}: {error}")

    @property
    def names(self) -> list[str]:
        """The names of the spans, in order of time; a turn before what is below it."""
        ordered = sorted(self.spans, key=lambda one: (one.start_time_unix_nano, one.parent_span_id))
        return [span.name for span in ordered]

    def find(self, name: str) -> list[tuple[Span, dict[str, Any]]]:
        """The spans of a name, each with its attributes."""
        return [(one, read_attributes(one.attributes)) for one in self.spans if one.name == name]

    def sum_tokens(self, kind: str) -> float:
        """The tokens of a kind, as the metrics say."""
        return sum(
            point.sum
            for metric in self.metrics
            if metric.name == "gen_ai.client.token.usage"
            for point in metric.histogram.data_points
            if read_attributes(point.attributes)["gen_ai.token.type"] == kind
        )


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    """One that listens; what did not have the form of OTLP fails here."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            status, said = receiver.answer
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            if 300 <= status < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert receiver.faults == []
