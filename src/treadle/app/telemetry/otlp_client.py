"""Sends what a collector is told: bounded in time and size, and every failure one of two errors.

A collector may be another program, or somebody in between. So its answer is read up to a bound, no
redirect is followed (it would carry the keys to where nobody wanted them), and it has so much time
for each request.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import httpx2
import msgspec

from treadle.app.telemetry.otlp_settings import OtlpSettings
from treadle.errors import RemoteError, RemoteRefusedError, RemoteUnavailableError
from treadle.models.catalog import is_loopback_host
from treadle.version import __version__

CONNECT_S_MAX: Final = 5.0
ANSWER_SIZE_MAX: Final = 64 * 1024
_SHOWN_LENGTH_MAX: Final = 200
_RETRYABLE_STATUSES: Final = frozenset((408, 425, 429, 502, 503, 504))


def send_otlp(settings: OtlpSettings, traces: Iterable[bytes], metrics: Iterable[bytes]) -> None:
    """Send bodies of OTLP JSON. What was sent before one of them failed stays sent.

    Raises:
        RemoteUnavailableError: nobody answers, or not in time, or asks to come back later.
        RemoteRefusedError: the collector does not take it.
    """
    for url, headers, bodies in (
        (settings.traces_url, settings.traces_headers, traces),
        (settings.metrics_url, settings.metrics_headers, metrics),
    ):
        if url:
            _send_bodies(url, headers, bodies, settings.timeout_s)


def _send_bodies(
    url: str, headers: Mapping[str, str], bodies: Iterable[bytes], timeout_s: float
) -> None:
    host = httpx2.URL(url).host
    sent = {
        **headers,
        "content-type": "application/json",
        "user-agent": f"treadle/{__version__}",
        "accept-encoding": "identity",
    }
    # What is for this machine goes through no proxy: it would leave the machine.
    transport = httpx2.HTTPTransport() if is_loopback_host(host) else None
    limits = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S_MAX))
    try:
        with httpx2.Client(timeout=limits, transport=transport, headers=sent) as client:
            connection = _Connection()
            for body in bodies:
                _send(client, connection, url, body, timeout_s)
    except (httpx2.TimeoutException, TimeoutError):
        raise RemoteUnavailableError(f"the collector at {host} does not answer in time") from None
    except (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError) as error:
        raise RemoteUnavailableError(f"the collector at {host} cannot be reached") from error
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise RemoteRefusedError("nothing can be sent to the collector's address") from error


class _Connection:
    """What requests go over. It is cut when the time of one is over.

    A limit of httpx is one for each read, and headers may come byte by byte for ever.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._is_cut = False

    def begin_request(self, timeout_s: float) -> threading.Timer:
        """The clock of a request, which runs; `cancel` it."""
        self._is_cut = False
        clock = threading.Timer(timeout_s, self._cut)
        clock.daemon = True
        clock.start()
        return clock

    def trace(self, _: str, info: Mapping[str, Any]) -> None:
        """Take note of a connection, or of its encrypted form. See `trace` of httpcore."""
        find = getattr(info.get("return_value"), "get_extra_info", None)
        if find is not None:
            self._socket = find("socket")
        self.check()

    def check(self) -> None:
        """Raise `TimeoutError` if the time is over."""
        if self._is_cut:
            raise TimeoutError

    def _cut(self) -> None:
        self._is_cut = True
        with suppress(OSError, TypeError):
            # Not an SSL socket's own way, which would change it under who reads from it.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # type: ignore[arg-type]


def _send(
    client: httpx2.Client, connection: _Connection, url: str, body: bytes, timeout_s: float
) -> None:
    clock = connection.begin_request(timeout_s)
    try:
        status, answer = _exchange(client, connection, url, body)
    except httpx2.HTTPError:
        connection.check()  # that it was cut, is why
        raise
    finally:
        clock.cancel()
    if not httpx2.codes.is_success(status):
        raise _make_status_error(status, httpx2.URL(url).host)
    _check_partial_success(answer)


def _exchange(
    client: httpx2.Client, connection: _Connection, url: str, body: bytes
) -> tuple[int, bytes]:
    answer, traced = bytearray(), {"trace": connection.trace}
    with client.stream("POST", url, content=body, extensions=traced) as response:
        for piece in response.iter_raw():
            answer += piece
            if len(answer) > ANSWER_SIZE_MAX:
                break  # whatever it says, it does not need so many words
        return response.status_code, bytes(answer)


def _make_status_error(status: int, host: str) -> RemoteError:
    text = f"the collector at {host} answers {status}"
    if status in _RETRYABLE_STATUSES:
        return RemoteUnavailableError(text)
    return RemoteRefusedError(text, status=status)


def _check_partial_success(answer: bytes) -> None:
    """Raise if the collector says that it has left something out."""
    try:
        told: Any = msgspec.json.decode(answer) if answer else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # it has answered that all is well, in another form
    partial = told.get("partialSuccess") if isinstance(told, dict) else None
    if not isinstance(partial, dict):
        return
    count = partial.get("rejectedSpans") or partial.get("rejectedDataPoints")
    if count in (None, 0, "0", ""):
        return
    why = str(partial.get("errorMessage") or "it does not say why")
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in why)
    shown = shown[:_SHOWN_LENGTH_MAX]
    raise RemoteRefusedError(f"the collector has left out {str(count)[:20]} of it: {shown}")
