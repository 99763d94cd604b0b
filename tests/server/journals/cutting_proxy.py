"""A proxy before PostgreSQL that cuts connections where a test wants it."""

from __future__ import annotations

import selectors
import socket
from threading import Thread
from typing import Literal

Cut = Literal["", "question", "answer"]


class CuttingProxy:
    """Forwards what is said; what is said next it cuts off, if it is told to.

    `question`: the next thing that is said to the database does not reach it. `answer`: it does,
    and is done, and the answer does not come back.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.next: list[Cut] = []
        self.cuts: list[Cut] = []
        """What was cut off."""
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            is_cut = False
            while True:
                for key, _ in ready.select():
                    source = client if key.fileobj is client else server
                    try:
                        data = source.recv(1 << 20)
                        if source is client and data and self.next:
                            self.cuts.append(self.next.pop(0))
                            if self.cuts[-1] == "question":
                                return
                            is_cut = self.cuts[-1] == "answer"
                        if source is server and is_cut:
                            return
                        (server if source is client else client).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()
