"""One connection: how long and how large a request may be before anything answers it.

uvicorn keeps a connection whose headers never end for ever, reads headers of any size, and never
gives up on a reader that does not read. This is its protocol with the limits added. They stand
here, below the application, because nothing above sees a request before its headers are complete.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar, Final

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Problem
from treadle.server.http.settings import ServerConfig

LINGER_SIZE_MAX: Final = 1024 * 1024
"""What is still read of a body that was refused, and thrown away, so that its sender stops."""

_FRAMING_PER_BYTE: Final = 8
"""A body may come in pieces of one byte: `1 CRLF x CRLF`."""


_HTTP_VERSIONS: Final = ("1.0", "1.1")


class _RequestRefusal(Exception):  # noqa: N818  it is an answer, not a fault
    """Ends the parsing of a request that breaks a limit."""


class LimitedConnection(HttpToolsProtocol):
    """A connection with limits; `limited` makes the class for one server.

    A timer runs from the connection, and again from the first byte of each further request, until
    headers are complete; another while a reader does not take what is under way to it. When there
    are more connections than the limit, the one that has waited longest without a whole request
    makes room; if all are at work, the new one is refused with 503.
    """

    limits: ClassVar[ServerConfig] = ServerConfig()
    waiting: ClassVar[dict[LimitedConnection, None]] = {}

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._refusal: ErrorCode = ErrorCode.BAD_REQUEST
        self._is_in_headers = True
        self._is_lingering = False
        self._received_size = 0
        self._body_size = 0
        self._header_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connection_count_max:
            oldest = next(iter(self.waiting), None)
            if oldest is None:
                self._refuse(ErrorCode.UNAVAILABLE)
                return
            oldest._abort()
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget all that was armed for it."""
        self.waiting.pop(self, None)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what came, and let the parser look at it."""
        if self.timeout_keep_alive_task is not None:
            self._received_size = 0
            self._wait_for_headers()
        self._received_size += len(data)
        if self._is_lingering:
            if self._received_size > LINGER_SIZE_MAX:
                self._abort()
            return
        if self.transport.is_closing():
            return
        super().data_received(data)
        limit = self.limits.header_size_max
        if self.transport.is_closing() or self._is_lingering:
            return
        if self._is_in_headers:
            # What came of headers that have no end yet is held by the parser.
            if self._received_size > limit:
                self._refuse(ErrorCode.HEADERS_TOO_LARGE)
        elif self._received_size > limit * 2 + self._body_size * _FRAMING_PER_BYTE:
            # Headers after a body in pieces are held by the parser too.
            self._refuse(ErrorCode.BAD_REQUEST)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_in_headers = True
        self._header_size = 0

    def on_url(self, url: bytes) -> None:
        """Keep a piece of the address."""
        super().on_url(url)
        if len(self.url) > self.limits.url_size_max:
            self._refusal = ErrorCode.HEADERS_TOO_LARGE
            raise _RequestRefusal

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; what comes after the body is none, and is not kept."""
        if not self._is_in_headers:
            return
        super().on_header(name, value)
        self._header_size += len(name) + len(value) + 4
        if (
            len(self.headers) > self.limits.header_count_max
            or self._header_size + len(self.url) > self.limits.header_size_max
        ):
            self._refusal = ErrorCode.HEADERS_TOO_LARGE
            raise _RequestRefusal

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._is_in_headers = False
        self._received_size = self._body_size = 0
        self._cancel_timer("headers")
        self.waiting.pop(self, None)
        self._check_framing()
        super().on_headers_complete()
        self.cycle.transport = _LingeringTransport(self)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body for whoever reads it."""
        self._body_size += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the next request; what is left of the body of this one is for nobody."""
        super().on_response_complete()
        if not self.pipeline and self._is_busy(more_body=True):
            self.close()
        elif self._is_in_headers:
            # The next request came with this one, and not all of its headers.
            self._received_size = 1
            self._wait_for_headers()
        elif self.timeout_keep_alive_task is not None:
            self.waiting[self] = None

    def pause_writing(self) -> None:
        """The reader is slow: give it its time."""
        super().pause_writing()
        self._start_timer("write", self.limits.write_time_s, self._abort)

    def resume_writing(self) -> None:
        """The reader has read."""
        super().resume_writing()
        self._cancel_timer("write")

    def timeout_keep_alive_handler(self) -> None:
        """No next request has come."""
        self.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or breaks a limit, as the API refuses."""
        self._refuse(self._refusal)

    def _unsupported_upgrade_warning(self) -> None:
        """Asking for another protocol is answered in this one: nothing is to be said about it."""

    def close(self) -> None:
        """End the connection when the answer is out; a sender who still sends may read it first."""
        self._unset_keepalive_if_required()
        if self.transport.is_closing() or self._is_lingering:
            return
        self._start_timer("close", self.limits.linger_time_s, self._abort)
        is_sending = self._is_in_headers or self._is_busy(more_body=True)
        if not is_sending or not self.transport.can_write_eof():
            self.transport.close()
            return
        # Closed at once, unread bytes would make the kernel throw the answer away.
        self._is_lingering = True
        self._received_size = 0
        self.waiting.pop(self, None)
        self.transport.write_eof()
        self.flow.resume_reading()

    def eof_received(self) -> None:
        """The sender is done; if it was refused, so are we."""
        if self._is_lingering:
            self.transport.close()

    def _is_busy(self, *, more_body: bool = False) -> bool:
        """Whether an answer is under way; or whether more of the request's body may come."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return False
        return cycle.more_body if more_body else not cycle.response_complete

    def _check_framing(self) -> None:
        """Where a request ends must be told in one way: two could be read as two requests.

        So it is with the host, which HTTP/1.1 wants once; other versions are not spoken here.
        """
        told = [name for name, _ in self.headers]
        lengths, hosts = told.count(b"content-length"), told.count(b"host")
        if lengths > 1 or (lengths and b"transfer-encoding" in told):
            raise _RequestRefusal
        version = self.parser.get_http_version()
        if version not in _HTTP_VERSIONS or hosts > 1 or (version == "1.1" and not hosts):
            raise _RequestRefusal

    def _wait_for_headers(self) -> None:
        self._unset_keepalive_if_required()
        self._is_in_headers = True
        self.waiting.pop(self, None)
        self.waiting[self] = None
        self._start_timer("headers", self.limits.header_time_s, self._on_headers_timeout)

    def _on_headers_timeout(self) -> None:
        """Headers did not come. Who has said nothing at all is told nothing."""
        if self._received_size:
            self._refuse(ErrorCode.TIMEOUT)
        else:
            self._abort()

    def _refuse(self, code: ErrorCode) -> None:
        """Answer without the application, and end the connection.

        Once an answer is under way, there is no place to say it. An application that still reads
        the request is told that its caller has gone.
        """
        if self._is_busy():
            if self.pipeline or self.cycle.response_started:
                self._abort()
                return
            self.cycle.disconnected = self.cycle.response_complete = True
            self.cycle.message_event.set()
        body = msgspec.json.encode(Problem(code.value, _REFUSAL_TEXTS[code]))
        more = "retry-after: 1\r\n" if code is ErrorCode.UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {code.status} {HTTPStatus(code.status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"cache-control: no-store\r\nconnection: close\r\n{more}\r\n"
        )
        self._cancel_timer("headers")
        self.transport.write(head.encode() + body)
        self._is_in_headers = True
        self.close()

    def _abort(self) -> None:
        self.waiting.pop(self, None)
        self.transport.abort()

    def _start_timer(self, name: str, time_s: float, act: Any) -> None:
        self._cancel_timer(name)
        self._timers[name] = self.loop.call_later(time_s, act)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


_REFUSAL_TEXTS: Final = {
    ErrorCode.BAD_REQUEST: "this is no HTTP request that is understood here",
    ErrorCode.TIMEOUT: "the headers of the request took too long to arrive",
    ErrorCode.HEADERS_TOO_LARGE: "the address or the headers of the request are too large",
    ErrorCode.UNAVAILABLE: "too many connections; come back in a moment",
}


class _LingeringTransport:
    """The transport as an answer writes to it: closing it lets the other side read the answer."""

    def __init__(self, connection: LimitedConnection) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        """Write to the connection."""
        self._connection.transport.write(data)

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._connection.transport.is_closing()

    def close(self) -> None:
        """End the connection when the answer is out."""
        self._connection.close()


def make_connection_class(config: ServerConfig) -> type[LimitedConnection]:
    """The connections of one server: with its limits, counted by themselves."""
    return type("LimitedConnection", (LimitedConnection,), {"limits": config, "waiting": {}})


class ServerEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers give up on a TLS handshake as on headers that do not come."""

    handshake_time_s: ClassVar[float] = ServerConfig().header_time_s

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.base_events.Server:
        """As the loop does it, with a limit for handshakes."""
        if kwargs.get("ssl") is not None:
            kwargs.setdefault("ssl_handshake_timeout", self.handshake_time_s)
        return await super().create_server(*args, **kwargs)
