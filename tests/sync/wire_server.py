"""A raw HTTP server on the loopback, in a thread: answers what a test wants, byte for byte."""

from __future__ import annotations

import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct


class Asked(Struct, frozen=True):
    """A request as it arrived; header names are lower case, the body is as it was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    raw: bytes

    @property
    def plain(self) -> bytes:
        """The body, unpacked."""
        if self.headers.get("content-encoding") != "gzip":
            return self.body
        return zlib.decompress(self.body, 16 + zlib.MAX_WBITS)


class Cut(Struct, frozen=True):
    """Bytes, and then the connection is closed, or reset."""

    data: bytes = b""
    is_reset: bool = False


Reply: TypeAlias = bytes | Iterable[bytes] | Cut
Answer: TypeAlias = Reply | Callable[[Asked], Reply]


def reply(
    status: int = 200, body: Any = b"", kind: str = "application/json", **headers: str
) -> bytes:
    """A whole answer; header names with `_` for `-`."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Some Reason", f"content-length: {len(data)}"]
    if kind:
        lines.append(f"content-type: {kind}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data


class WireServer:
    """`with WireServer(answer, ...) as server:` answers in order, the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[Asked] = []

    def __enter__(self) -> WireServer:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in [*self._open]:
            _end(one)
        for thread in self._threads:
            thread.join()

    def _begin(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.add(connection)
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as file:
                while (asked := _read(file)) is not None:
                    chosen = self._answers[min(len(self.asked), len(self._answers) - 1)]
                    self.asked.append(asked)
                    if not _send(connection, chosen(asked) if callable(chosen) else chosen):
                        return
        except OSError:
            return  # the client went away, or the test is over
        finally:
            self._open.discard(connection)
            connection.close()


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _read(file: Any) -> Asked | None:
    lines: list[bytes] = []
    while (line := file.readline()) not in (b"\r\n", b""):
        lines.append(line)
    if not lines:
        return None
    method, path, _ = lines[0].decode("latin-1").split(" ")
    pairs = (line.decode("latin-1").partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = file.read(int(headers.get("content-length", "0")))
    if headers.get("transfer-encoding") == "chunked":
        parts = []
        while size := int(file.readline(), 16):
            parts.append(file.read(size))
            file.readline()
        file.readline()
        body = b"".join(parts)
    return Asked(method, path, headers, body, b"".join(lines) + b"\r\n" + body)


def _send(connection: socket.socket, answer: Reply) -> bool:
    """Whether the connection can serve another request."""
    if isinstance(answer, Cut):
        connection.sendall(answer.data)
        if answer.is_reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    for piece in [answer] if isinstance(answer, bytes) else answer:
        connection.sendall(piece)
    return True
