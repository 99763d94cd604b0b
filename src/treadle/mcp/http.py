"""The client of a server at an address, which takes no more than it should of what comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

from treadle.mcp.server import MCPServer

ANSWER_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of an answer, and of an event in a stream."""
CONNECT_S_MAX: Final = 15.0
SILENCE_S_MAX: Final = 3600.0
"""A call may take as long as the thread's settings say; this is for what they miss."""


def make_client(server: MCPServer, auth: httpx2.Auth) -> httpx2.AsyncClient:
    """Who makes the requests; `auth` says who we are."""
    return httpx2.AsyncClient(
        auth=auth,
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_S_MAX, read=SILENCE_S_MAX),
        transport=BoundedTransport(httpx2.AsyncHTTPTransport()),
    )


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Another transport, whose answers break off when they are too large.

    A stream of events may go on for ever: the protocol's client bounds each of them. An answer
    that is packed could become any size, and none was asked for. One of a status from 500 on is
    that of whoever stands before the server: the client would take it for a refusal, and the call
    may have happened.

    Args:
        transport: makes the requests.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.AsyncBaseTransport`."""
        response = await self._transport.handle_async_request(request)
        packed = response.headers.get("content-encoding", "identity") != "identity"
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if packed or response.status_code >= 500:
            await response.stream.aclose()
            why = "is packed, which nobody asked for" if packed else "has no word of the server"
            raise httpx2.RemoteProtocolError(f"an answer of status {response.status_code} {why}")
        if not is_stream:
            response.stream = _BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        """See `httpx2.AsyncBaseTransport`."""
        await self._transport.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > ANSWER_SIZE_MAX:
                raise httpx2.ReadError(f"an answer of more than {ANSWER_SIZE_MAX} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
