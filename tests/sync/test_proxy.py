"""The network that tests put between client and server does what it says, and hears all."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sync.proxy import FAULTS, Fault, proxied

BODY = b"what is sent" * 100


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append(body)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Echo)
        self.heard: list[bytes] = []

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(port: int) -> bytes | None:
    """One request; `None` if no whole answer came."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/x", BODY)
        return connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


ARRIVES = {
    Fault.NOTHING: (1, True),
    Fault.REFUSE: (0, False),
    Fault.RESET: (0, False),
    Fault.LOSE: (1, False),
    Fault.TRUNCATE: (1, False),
    Fault.DELAY: (1, True),
    Fault.DUPLICATE: (2, True),
    Fault.HOLE: (0, False),
}
"""How often a request reaches the server, and whether its answer comes back."""


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_does_to_a_request_what_it_says(fault: Fault, server: _Server) -> None:
    with proxied(server.server_port, lambda number: fault) as proxy:
        answer = ask(proxy.port)
        count, is_answered = ARRIVES[fault]
        assert (answer == BODY) is is_answered
        assert [one for one in server.heard if one == BODY] == [BODY] * count
        assert proxy.fault_count == (fault in FAULTS)


def test_every_byte_that_is_sent_is_kept_whatever_happens_to_it(server: _Server) -> None:
    plan = dict(enumerate(Fault, 1))
    with proxied(server.server_port, lambda number: plan[number]) as proxy:
        for _ in plan:
            ask(proxy.port)
        assert [one.fault for one in proxy.exchanges] == list(Fault)
        for one in proxy.exchanges:
            assert one.sent.startswith(b"POST /x HTTP/1.1\r\n"), one.fault
        assert proxy.captured().count(BODY) >= len(plan) - 2


def test_two_requests_on_one_connection_are_told_apart(server: _Server) -> None:
    with proxied(server.server_port) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        for _ in range(3):
            connection.request("POST", "/x", BODY)
            assert connection.getresponse().read() == BODY
        connection.close()
        assert proxy.connection_count == 1
        assert len(proxy.exchanges) == 3


def test_a_server_that_is_not_there_is_an_error_and_no_hang() -> None:
    with proxied(1) as proxy:
        assert ask(proxy.port) is None
