"""A port that says whether a worker is well, for whoever starts and stops workers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import msgspec

REQUEST_S: Final = 5.0
"""Seconds that somebody has to ask."""


async def serve_health(port: int, describe: Callable[[], dict[str, Any]]) -> int:
    """Answer every request with what is said, as JSON: 503 while it says `draining`, else 200.

    It ends with the event loop.

    Args:
        port: on every address of this machine; 0 takes any that is free.
        describe: says how the worker is.

    Returns:
        The port.

    Raises:
        OSError: nobody can listen there.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                await reader.readuntil(b"\r\n\r\n")
                told = describe()
                body = msgspec.json.encode(told)
                status = b"503 Service Unavailable" if told.get("draining") else b"200 OK"
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                    b"Connection: close\r\n\r\n%s" % (status, len(body), body)
                )
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            return  # who asked is gone, or does not speak HTTP
        finally:
            writer.close()

    # One family: with port 0 each would get a port of its own.
    server = await asyncio.start_server(answer, None, port, family=socket.AF_INET)
    return int(server.sockets[0].getsockname()[1])
