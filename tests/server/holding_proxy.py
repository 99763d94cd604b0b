"""A proxy before PostgreSQL through which a network goes wrong in every way it can."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread


class HoldingProxy:
    """Passes on what is said, and waits before it does if it is told to.

    Args:
        target: the path of the database's socket.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.before_answer: Callable[[], None] = lambda: None
        """Called before each piece of an answer is passed on."""
        self._may_pass = Event()
        self._may_pass.set()
        self._lock = Lock()
        self._open: list[tuple[socket.socket, socket.socket]] = []
        Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Let nothing through, in either direction, until `release`."""
        self._may_pass.clear()

    def release(self) -> None:
        """Let through what was held, and what comes."""
        self._may_pass.set()

    def cut(self) -> None:
        """End every connection."""
        for pair in self._list_open():
            for one in pair:
                _shut(one, socket.SHUT_RDWR)

    def half_close(self) -> None:
        """Say to programs that nothing comes any more; what they say still reaches the database."""
        for client, _ in self._list_open():
            _shut(client, socket.SHUT_WR)

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        self._listener.close()
        self.release()
        self.cut()

    def _list_open(self) -> list[tuple[socket.socket, socket.socket]]:
        with self._lock:
            return [*self._open]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._target)
            except OSError:  # the database is away
                client.close()
                server.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.append((client, server))
            Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        back = Thread(target=self._pass_on, args=(server, client, True), daemon=True)
        back.start()
        self._pass_on(client, server, False)
        back.join()
        with self._lock:
            self._open.remove((client, server))
        client.close()
        server.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._may_pass.wait()
                if is_answer:
                    self.before_answer()
                target.sendall(data)
        _shut(target, socket.SHUT_WR)


def _shut(one: socket.socket, how: int) -> None:
    with suppress(OSError):
        one.shutdown(how)
