"""A server under siege: connections that never finish what they began, and somebody who asks."""

from __future__ import annotations

import http.client
import resource
import select
import socket
import threading
import time
from contextlib import suppress
from typing import Final

from msgspec import Struct

HALF: Final = b"GET /api/me HTTP/1.1\r\nhost: x\r\nx-a: "
PATIENCE_S: Final = 120.0


class Siege(Struct, frozen=True):
    """How it went.

    Args:
        closed_count: half-open connections that the server has ended.
        closed_s: from the first of them to the end of the last.
        dripped: the status that the sender of a dripping body was told.
        took_s: each good request meanwhile, from the shortest to the longest.
        quiet_s: the same before it began.
    """

    closed_count: int
    closed_s: float
    dripped: int
    took_s: list[float]
    quiet_s: list[float]

    @property
    def p99_s(self) -> float:
        """What one good request in a hundred took longer than."""
        return self.took_s[len(self.took_s) * 99 // 100]

    @property
    def quiet_p99_s(self) -> float:
        """The same before it began: how busy the machine is with other things."""
        return self.quiet_s[len(self.quiet_s) * 99 // 100]


def besieged(port: int, token: str, count: int) -> Siege:
    """Open so many connections halfway, let a body drip, and ask good questions meanwhile.

    Args:
        port: where a server listens on this machine.
        token: of a user.
        count: how many connections stay half open, until the server ends them.
    """
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    quiet = _ask(port, token, 200)
    is_over = threading.Event()
    took: list[float] = []
    told: list[int] = []
    helpers = [
        threading.Thread(target=_ask_on, args=(port, token, is_over, took)),
        threading.Thread(target=_drip, args=(port, token, told)),
    ]
    began = time.monotonic()
    waiting = {one.fileno(): one for one in (_half_open(port) for _ in range(count))}
    for helper in helpers:
        helper.start()
    try:
        _await_ends(waiting, began)
        closed_s = time.monotonic() - began
        helpers[1].join()
    finally:
        is_over.set()
        for helper in helpers:
            helper.join()
        for one in waiting.values():
            one.close()
    return Siege(count - len(waiting), closed_s, *told, sorted(took), sorted(quiet))


def _half_open(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port))
    one.sendall(HALF)
    return one


def _await_ends(waiting: dict[int, socket.socket], began: float) -> None:
    """Until the server has ended them all; those it ends leave the dictionary."""
    watch = select.poll()
    for number in waiting:
        watch.register(number, select.POLLIN | select.POLLHUP | select.POLLERR)
    while waiting and time.monotonic() - began < PATIENCE_S:
        for number, _ in watch.poll(1000):
            watch.unregister(number)
            with waiting.pop(number) as one:
                _read_to_its_end(one)


def _ask_on(port: int, token: str, is_over: threading.Event, took: list[float]) -> None:
    while not is_over.is_set():
        took += _ask(port, token, 20)


def _ask(port: int, token: str, count: int) -> list[float]:
    """So many questions over one connection, a few milliseconds apart; how long each took."""
    took = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    for _ in range(count):
        asked = time.perf_counter()
        connection.request("GET", "/api/me", headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        took.append(time.perf_counter() - asked)
        select.select([], [], [], 0.005)
    connection.close()
    return took


def _drip(port: int, token: str, told: list[int]) -> None:
    """A byte of a body now and then, until the server has had enough."""
    head = (
        f"POST /api/tokens HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
        "content-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as one:
        one.sendall(head.encode())
        watch = select.poll()
        watch.register(one, select.POLLIN | select.POLLHUP | select.POLLERR)
        with suppress(OSError):
            while not watch.poll(200):
                one.sendall(b" ")
        told.append(int(_read_to_its_end(one).split(b" ")[1]))


def _read_to_its_end(one: socket.socket) -> bytes:
    """The other side ends, after what it has to say."""
    found = b""
    with suppress(OSError):
        while piece := one.recv(65536):
            found += piece
    return found
