"""Receivers of webhooks on the loopback: they keep what they get, and answer as a test wants."""

from __future__ import annotations

import base64
import hmac
import json
import socket
from collections.abc import Callable
from hashlib import sha256
from queue import Queue
from threading import Event, Thread
from typing import Any, Final

from msgspec import Struct

from server.running import PATIENCE_S

OK: Final = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"


class Received(Struct, frozen=True):
    """A request as it came."""

    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_by(self, secret: str) -> bool:
        """As the documentation of Standard Webhooks says."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode()
        key = base64.b64decode(secret.removeprefix("whsec_"))
        made = hmac.new(key, signed + self.body, sha256).digest()
        return self.headers["webhook-signature"] == f"v1,{base64.b64encode(made).decode()}"


class Receiver:
    """Answers each request with the bytes that `answer` gives, the number of the request first.

    An answer that is `None` never comes: the connection stays open until the block ends.
    """

    def __init__(self, answer: Callable[[int], bytes | None] = lambda _: OK) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.got: Queue[Received] = Queue()
        self.count = 0
        self._is_over = Event()

    def __enter__(self) -> Receiver:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # who waits in `accept` would take one more
        self._listener.close()

    def next(self) -> Received:
        """The next request; waits for it."""
        return self.got.get(timeout=PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            head, _, body = data.partition(b"\r\n\r\n")
            pairs = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
            headers = {name.lower(): value for name, _, value in pairs}
            while len(body) < int(headers["content-length"]):
                body += connection.recv(65536)
            self.count += 1
            number = self.count
            answer = self._answer(number)
            self.got.put(Received(headers, body))
            if answer is None:
                self._is_over.wait(PATIENCE_S)
                return
            try:
                connection.sendall(answer)
            except OSError:
                return
