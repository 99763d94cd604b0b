"""A real HTTP server on the loopback that answers what a test wants, byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from runtime.clock import skip, tick

EVENT_STREAM: Final = MappingProxyType({"content-type": "text/event-stream; charset=utf-8"})


class Seen(Struct, frozen=True):
    """A request as it arrived. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Answer(Struct, frozen=True):
    """What is sent back.

    `body` is sent piece by piece, each flushed by itself; an async iterator may go on for ever.
    Framing `chunked` ends with the last chunk unless `is_cut` (then the connection just closes);
    `close` ends with the connection; one that `hangs` is kept open, silent, after the body.
    """

    body: Iterable[bytes] | Callable[[], AsyncIterator[bytes]] = ()
    status: int = 200
    headers: Mapping[str, str] = EVENT_STREAM
    framing: str = "chunked"
    is_cut: bool = False
    hangs: bool = False


def sse(*events: tuple[str, Any] | Any, done: bool = False) -> bytes:
    """The wire form of events: a pair of name and data, or data alone; text goes as it is."""
    lines: list[str] = []
    for event in events:
        name, data = event if isinstance(event, tuple) else ("", event)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        lines += [f"event: {name}\n" if name else "", f"data: {text}\n\n"]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode("utf-8", "surrogatepass")


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The bytes in pieces of `size`."""
    return (data[start : start + size] for start in range(0, len(data), size))


def stream(data: bytes, *, size: int = 0, **how: Any) -> Answer:
    """A stream of events in pieces of `size` bytes; 0 is in one piece."""
    return Answer(tuple(pieces(data, size or max(1, len(data)))), **how)


def refusal(status: int, body: Any, **headers: str) -> Answer:
    """A response that is no stream; header names with `_` for `-`."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer((data,), status, {"content-type": "application/json", **named})


class Loopback:
    """`async with Loopback(answer, ...) as server:` answers requests in order, the last for ever.

    An answer may be a function of the request. `requests` is what arrived. With `flies` the time of
    the running loop flies while an answer hangs, so that nobody waits for the end of its patience.
    """

    flies = False

    def __init__(self, *answers: Answer | Callable[[Seen], Answer]) -> None:
        self._answers = answers
        self.requests: list[Seen] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (seen := await self._read(reader)) is not None:
                index = min(len(self.requests), len(self._answers) - 1)
                self.requests.append(seen)
                chosen = self._answers[index]
                answer = chosen if isinstance(chosen, Answer) else chosen(seen)
                goes_on = await self._write(writer, answer)
                if answer.hangs:
                    await self._hang(reader)
                if not goes_on:
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _hang(self, reader: asyncio.StreamReader) -> None:
        """Until the client has left."""
        while self.flies and not reader.at_eof():
            await tick(20)
            skip(1.0)
        if not self.flies:
            await asyncio.get_running_loop().create_future()

    async def _read(self, reader: asyncio.StreamReader) -> Seen | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, path, _ = first.split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Seen(method, path, headers, body)

    async def _write(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        """Send it; whether the connection can serve another request."""
        framing = (
            "transfer-encoding: chunked" if answer.framing == "chunked" else "connection: close"
        )
        lines = [f"HTTP/1.1 {answer.status} Some Reason", framing]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        async for piece in _each(answer.body):
            if answer.framing == "chunked":
                piece = b"%x\r\n%s\r\n" % (len(piece), piece)
            writer.write(piece)
            await writer.drain()
        if answer.hangs or answer.framing != "chunked" or answer.is_cut:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _each(body: Any) -> AsyncIterator[bytes]:
    if callable(body):
        async for piece in body():
            yield piece
    else:
        for piece in body:
            if piece:
                yield piece
