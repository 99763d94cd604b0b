"""A server that runs in this process, on a real socket, and raw bytes sent to it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final

from treadle.server.data.database import Database
from treadle.server.http.app import make_app
from treadle.server.http.process import (
    Server,
    ServerProcessOptions,
    make_uvicorn_config,
    open_listening_socket,
)
from treadle.server.http.settings import ServerConfig

PATIENCE_S: Final = 60.0
"""Nothing in these tests takes as long; who waits longer hangs."""

ALL_THE_TIME: Final = {
    f"{name}_time_s": PATIENCE_S for name in ("header", "idle", "body", "write", "linger", "health")
}
"""What a machine that is busy with other things may use up of the limits that are not tested."""


NAP_S: Final = 0.01


class _AttentiveServer(Server):
    """Looks ten times as often as uvicorn does whether it shall stop, and then stops as it does."""

    async def main_loop(self) -> None:
        looks = count()
        while not await self.on_tick(next(looks)):  # noqa: ASYNC110 - it is told by a flag
            await asyncio.sleep(NAP_S)


class Reply:
    """An answer, taken apart."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1]) if first else 0
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Running:
    """A server with these limits, and else with all the time; serves until the block ends."""

    def __init__(self, url: str, *, port: int = 0, **limits: Any) -> None:
        self.config = ServerConfig(**{**ALL_THE_TIME, **limits})
        self.database = Database(url, lock_timeout_s=PATIENCE_S)
        self.app = make_app(self.config, self.database)
        self._socket = open_listening_socket("127.0.0.1", port)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        ready = Event()

        def begin() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()

        start = ServerProcessOptions(config=self.config, database=url)
        self.server = _AttentiveServer(make_uvicorn_config(start, self.app), self.app, begin)
        self._thread = Thread(target=self.server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        assert ready.wait(PATIENCE_S)

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop as a signal would, and wait for the end."""
        self.server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._socket.close()
        self.database.dispose()

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The server does nothing meanwhile: no time that it gives anybody passes."""
        is_held, may_go_on = Event(), Event()

        def hold() -> None:
            is_held.set()
            may_go_on.wait()

        self._loop.call_soon_threadsafe(hold)
        assert is_held.wait(PATIENCE_S)
        try:
            yield
        finally:
            may_go_on.set()

    def begun(self, data: bytes) -> socket.socket:
        """A connection on which so much is there when the server first looks at it."""
        with self.held():
            connection = self.connect()
            connection.sendall(data)
        return connection

    @property
    def connection_count(self) -> int:
        """How many connections it has."""
        return len(self.server.server_state.connections)

    def send(self, data: bytes) -> Reply:
        """Send bytes, and read until the server ends the connection."""
        with self.connect() as connection:
            return exchange(connection, data)

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        body: bytes | None = None,
        **headers: str,
    ) -> Reply:
        """Send a request that is well formed."""
        return self.send(request(method, path, token, body, **headers))


def request(
    method: str, path: str, token: str = "", body: bytes | None = None, **headers: str
) -> bytes:
    """The bytes of a request after which the connection ends."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close"]
    if token:
        lines.append(f"authorization: Bearer {token}")
    if body is not None and "transfer_encoding" not in headers:
        lines.append(f"content-length: {len(body)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def exchange(connection: socket.socket, data: bytes) -> Reply:
    """Send bytes, and read until the server ends the connection, which it may do while we send."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)
    return Reply(read_all(connection))


def read_all(connection: socket.socket) -> bytes:
    """All that comes until the other side ends; what came before a reset counts."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


def chunked(*pieces: bytes) -> bytes:
    """A body in pieces."""
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"
