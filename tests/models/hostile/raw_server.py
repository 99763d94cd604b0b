"""A loopback server that also sends bytes which no HTTP server would send."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable

from models.loopback import Answer, Loopback, Seen


class Raw(Answer, frozen=True):
    """The body is the whole response, head included; `resets` ends the connection with RST."""

    resets: bool = False


class RawServer(Loopback):
    """A `Loopback` for one function that also gives `Raw` answers."""

    def __init__(self, answer: Callable[[Seen], Answer]) -> None:
        super().__init__(answer)

    async def _write(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        if not isinstance(answer, Raw):
            return await super()._write(writer, answer)
        body = answer.body
        assert isinstance(body, Iterable)
        for piece in body:
            writer.write(piece)
            await writer.drain()
        if answer.resets:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        return False
