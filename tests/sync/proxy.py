"""A network between a client and a server that does what networks do, and remembers every byte.

It speaks TCP alone: a request begins with the first bytes a client sends after an answer, and what
happens to it is decided then. So it can be put before any server, and needs no certificate.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Final

from msgspec import Struct

PIECE_SIZE: Final = 256 * 1024
DELAY_S: Final = 0.05
HOLE_S: Final = 0.2
"""A client that waits longer than this for a hole has a time limit of its own to test."""


class Fault(Enum):
    """What happens to a request."""

    NOTHING = "nothing"
    REFUSE = "refuse"
    """The connection ends before a byte of it has reached the server."""
    RESET = "reset"
    """Half of it reaches the server, then the connection breaks."""
    LOSE = "lose"
    """All of it reaches the server, which answers; the answer is lost."""
    TRUNCATE = "truncate"
    """The answer ends in its middle, as if the server had closed."""
    DELAY = "delay"
    """The answer comes late."""
    DUPLICATE = "duplicate"
    """It reaches the server twice, one after the other."""
    HOLE = "hole"
    """It vanishes; nothing comes back, until the connection breaks."""


FAULTS: Final = tuple(one for one in Fault if one is not Fault.NOTHING)


class Exchange(Struct):
    """One request and its answer, as bytes."""

    number: int
    fault: Fault
    sent: bytearray
    received: bytearray


class Proxy:
    """Between a client and the server at `target`; runs in a thread of its own.

    Args:
        target: the server's port on 127.0.0.1; may be changed when the server has come back.
        plan: what happens to the n-th request, counted from 1.
    """

    def __init__(self, target: int, plan: Callable[[int], Fault] | None = None) -> None:
        self.target = target
        self.plan = plan or (lambda number: Fault.NOTHING)
        self.exchanges: list[Exchange] = []
        self.connection_count = 0
        self.fault_count = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._is_ready.wait()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def captured(self) -> bytes:
        """Every byte that clients sent, in the order of requests."""
        return b"".join(bytes(one.sent) for one in list(self.exchanges))

    def close(self) -> None:
        """Break all connections and end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    # ---- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=PIECE_SIZE)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stop.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports end with the next turn of the loop

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            await _Link(self, reader, writer).run()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            await _end(writer)

    def begin(self) -> Exchange:
        """A request begins."""
        number = len(self.exchanges) + 1
        fault = self.plan(number)
        self.fault_count += fault is not Fault.NOTHING
        exchange = Exchange(number, fault, bytearray(), bytearray())
        self.exchanges.append(exchange)
        return exchange


class _Link:
    """One connection of a client, and the one to the server that stands for it."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._now: Exchange | None = None

    async def run(self) -> None:
        try:
            upward, to_server = await self._reach()
        except OSError:
            self._now = self._proxy.begin()
            _reset(self._writer)
            return
        both = [
            asyncio.ensure_future(self._up(to_server)),
            asyncio.ensure_future(self._down(upward, to_server)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_server.close()  # at once: what follows may be cancelled
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await _end(to_server)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._proxy.target, limit=PIECE_SIZE)

    async def _up(self, to_server: asyncio.StreamWriter) -> None:
        """From the client to the server, until one of them ends."""
        while data := await self._reader.read(PIECE_SIZE):
            if self._now is None or self._now.received:
                self._now = self._proxy.begin()
            now = self._now
            now.sent += data
            if now.fault is Fault.REFUSE:
                return _reset(self._writer)
            if now.fault is Fault.RESET:
                to_server.write(data[: len(data) // 2])
                await to_server.drain()
                _reset(to_server)
                return _reset(self._writer)
            if now.fault is Fault.HOLE:
                await asyncio.sleep(HOLE_S)
                return _reset(self._writer)
            to_server.write(data)
            await to_server.drain()
        return None

    async def _down(self, upward: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        """From the server to the client, until one of them ends."""
        while data := await upward.read(PIECE_SIZE):
            now = self._now
            if now is None:  # a server that speaks first
                return None
            is_first = not now.received
            now.received += data
            if now.fault is Fault.LOSE:
                return _reset(self._writer)
            if now.fault is Fault.TRUNCATE:
                self._writer.write(data[: len(data) // 2])
                await self._writer.drain()
                return None
            if is_first and now.fault is Fault.DELAY:
                await asyncio.sleep(DELAY_S)
            if is_first and now.fault is Fault.DUPLICATE:
                await self._again(bytes(now.sent))
            self._writer.write(data)
            await self._writer.drain()
        return None

    async def _again(self, request: bytes) -> None:
        """Send what was sent once more, on a connection of its own; nobody hears the answer."""
        with suppress(OSError, asyncio.TimeoutError):
            reader, writer = await self._reach()
            try:
                writer.write(request)
                await writer.drain()
                await asyncio.wait_for(reader.read(PIECE_SIZE), 30)
            finally:
                await _end(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection so that the other side sees an error, not an end."""
    found = writer.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@contextmanager
def proxied(target: int, plan: Callable[[int], Fault] | None = None) -> Iterator[Proxy]:
    """A proxy before a server, closed at the end."""
    proxy = Proxy(target, plan)
    try:
        yield proxy
    finally:
        proxy.close()
