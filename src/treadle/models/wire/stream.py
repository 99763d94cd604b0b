"""HTTP as all providers use it: bounded, uncompressed, and read event by event.

`stream_events` is the whole way from a response to `ModelEvent`s. Keep-alives are seen, which tell
a thinking model from a dead one, and nothing is read without a bound.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import httpx2
import msgspec

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmErrorKind, Usage
from treadle.helper_programs import answer_for_platform
from treadle.models.catalog import is_loopback_host
from treadle.models.failures import WireError, make_llm_error, make_stream_llm_error
from treadle.models.wire.sse import SseDecoder, SseEvent

RESPONSE_SIZE_MAX: Final = 128 * 1024 * 1024
"""Bytes of one streamed response; events carry tens of times the text they bring."""

REFUSAL_SIZE_MAX: Final = 256 * 1024
"""Bytes of a response that is no stream."""

CONNECT_S_MAX: Final = 15.0
SILENCE_S_MAX: Final = 900.0
"""The runtime's own bound on silence is shorter; this one holds for those who go without it."""

DRAIN_S_MAX: Final = 0.2
"""After the last event the end of the response is waited for so long, to keep the connection."""

LARGE_EVENT_SIZE: Final = 64 * 1024
VALUES_MAX: Final = 300_000
"""Of JSON, in all large events of a response: three bytes of it can become sixty in memory."""

OBJECT_SIZE_MAX: Final = 8 * 1024 * 1024
"""Bytes of a JSON object that is no stream: a list of all models, say."""

RESPONSE_S_MAX: Final = 3600.0
HEAD_SIZE_MAX: Final = 4096
ALIVE_EVERY_S: Final = 1.0
_NO_AUTHORITY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate. Without TLS none is needed, and to read those of the system takes long."""
EVENT_STREAM: Final = "text/event-stream"
TIMEOUT: Final = httpx2.Timeout(SILENCE_S_MAX, connect=CONNECT_S_MAX)

ALIVE: Final = LlmEvent.ThinkingDelta()

_EXCERPT_SIZE: Final = 80
_STREAM_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry|error)?:")


class StreamedResponse(Protocol):
    """The response to a request, its body not read yet."""

    @property
    def headers(self) -> Any:
        """The response's headers."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        ...


class Assembler(Protocol):
    """Makes the events of one wire format into those of this program."""

    @property
    def is_done(self) -> bool:
        """Whether the end marker of the format has come."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What has been used so far: as told, else a guess; `None` before anything came."""
        ...

    def add_event(self, event: SseEvent) -> Iterable[ModelEvent]:
        """The deltas that an event brings; raises `WireError` or `StreamError`."""
        ...

    def end(self) -> Iterable[ModelEvent]:
        """What is left when the stream has ended: last deltas, then `Completed` or `Error`.

        Raises:
            WireError: the end marker is missing, or what came makes no answer.
        """
        ...


class StreamError(Exception):
    """An error object came in the stream; raised and caught in this package only."""

    def __init__(self, body: Any) -> None:
        super().__init__(str(body))
        self.body = body


def make_cut_stream_error() -> WireError:
    """The end marker of the format is missing."""
    return WireError(LlmErrorKind.CUT_STREAM, "the stream ended before the answer was complete")


async def stream_events(
    open_answer: Callable[[], AbstractAsyncContextManager[StreamedResponse]],
    assembler: Assembler,
    who: str,
    request_length: int = 0,
) -> AsyncGenerator[ModelEvent, None]:
    """One response from its request to its end; every failure is an `Error` event.

    Args:
        open_answer: makes the request; it is sent when the answer is entered.
        assembler: a fresh one.
        who: the provider's name, for messages.
        request_length: characters that the model is to read.
    """
    is_asked = has_begun = False
    try:
        opened = open_answer()
        is_asked = True
        async with opened as answer:
            body = await _check_event_stream(answer)
            has_begun = True
            async with aclosing(_decode_events(body)) as events:
                async for event in events:
                    if event is None:
                        yield ALIVE
                        continue
                    for one in assembler.add_event(event):
                        yield one
                    if assembler.is_done:
                        break
            await _drain_body(body)
        for one in assembler.end():
            yield one
    except StreamError as error:
        yield LlmEvent.Error(make_stream_llm_error(error.body, who, assembler.usage))
    except Exception as error:  # noqa: BLE001  the border: whatever it is becomes data
        failure = make_llm_error(
            error,
            who,
            is_asked=is_asked,
            has_begun=has_begun,
            usage=assembler.usage,
            request_length=request_length,
        )
        yield LlmEvent.Error(failure)


async def _check_event_stream(answer: StreamedResponse) -> AsyncIterator[bytes]:
    """The body, if it is a stream of events: neither a page of a proxy nor an error of its own.

    The label decides, and where it is wrong the beginning: servers in front of models call streams
    `application/json`.
    """
    body = answer.aiter_bytes()
    kind = answer.headers.get("content-type", EVENT_STREAM)
    if kind.partition(";")[0].strip().lower() == EVENT_STREAM:
        return body
    head = b""
    async for chunk in body:
        head += chunk
        if _STREAM_START.match(head):
            return _prepend_bytes(head, body)
        if len(head) > HEAD_SIZE_MAX:
            break
    try:
        refused = msgspec.json.decode(head)
    except (msgspec.DecodeError, RecursionError):
        refused = None
    if isinstance(refused, dict) and (refused.get("error") or refused.get("base_resp")):
        raise StreamError(refused)
    text = head[:HEAD_SIZE_MAX].decode(errors="replace")
    raise WireError(
        LlmErrorKind.INVALID_RESPONSE, f"answered {kind!r} instead of a stream of events: {text}"
    )


async def _prepend_bytes(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for chunk in rest:
        yield chunk


async def _decode_events(body: AsyncIterator[bytes]) -> AsyncGenerator[SseEvent | None, None]:
    """The events of a body, and `None` now and then: not every event, nor every byte, says much."""
    clock = asyncio.get_running_loop().time
    decoder = SseDecoder()
    size = values = 0
    started_s = told_s = clock()
    async for chunk in body:
        size += len(chunk)
        if size > RESPONSE_SIZE_MAX:
            text = f"the stream is over {RESPONSE_SIZE_MAX // 2**20} MiB"
            raise WireError(LlmErrorKind.INVALID_RESPONSE, text)
        now_s = clock()
        if now_s - started_s > RESPONSE_S_MAX:
            text = f"the answer is not complete after {RESPONSE_S_MAX / 60:.0f} minutes"
            raise WireError(LlmErrorKind.TIMEOUT, text)
        for event in decoder.feed(chunk):
            if len(event.data) > LARGE_EVENT_SIZE:
                values += sum(map(event.data.count, (b",", b"[", b"{")))
                if values > VALUES_MAX:
                    text = f"the stream brings over {VALUES_MAX} values in large events"
                    raise WireError(LlmErrorKind.INVALID_RESPONSE, text)
            yield event
        if now_s - told_s >= ALIVE_EVERY_S:
            told_s = now_s
            yield None


async def _drain_body(body: AsyncIterator[bytes]) -> None:
    """Read to the end if it is near: only then the connection can be used again."""
    try:
        async with asyncio.timeout(DRAIN_S_MAX):
            async for chunk in body:
                if len(chunk) > HEAD_SIZE_MAX:
                    return
    except (TimeoutError, httpx2.HTTPError):
        return


async def read_object(
    opened: AbstractAsyncContextManager[StreamedResponse], within_s: float
) -> dict[str, Any]:
    """The JSON object that a request for something small is answered with.

    Args:
        opened: the request, not yet sent.
        within_s: for all of it; the client's own timeout begins anew with every byte.

    Raises:
        Exception: the server refused it, or could not be reached.
        WireError: the answer is no JSON object, or is over `OBJECT_SIZE_MAX`, or late.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(within_s), opened as answer:
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > OBJECT_SIZE_MAX:
                    text = f"the answer is over {OBJECT_SIZE_MAX // 2**20} MiB"
                    raise WireError(LlmErrorKind.INVALID_RESPONSE, text)
    except TimeoutError:
        text = f"the answer is not complete after {within_s:g} seconds"
        raise WireError(LlmErrorKind.TIMEOUT, text) from None
    return decode_object(bytes(body))


def decode_event(event: SseEvent) -> dict[str, Any]:
    """The JSON object of an event.

    Raises:
        StreamError: it is none, but the event is named `error`: its text is the reason.
        WireError: it is none.
    """
    try:
        return decode_object(event.data)
    except WireError:
        if event.event == "error":
            raise StreamError(event.data.decode(errors="replace")) from None
        raise


def decode_object(data: bytes) -> dict[str, Any]:
    """A JSON object, else as Python takes it: with halves of surrogate pairs, which models emit.

    Raises:
        WireError: it is none.
    """
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        try:
            value = json.loads(data.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        shown = repr(data[:_EXCERPT_SIZE].decode(errors="replace"))
        raise WireError(LlmErrorKind.INVALID_RESPONSE, f"what came is no JSON object: {shown}")
    return value


def make_client(base_url: str) -> httpx2.AsyncClient:
    """A client that asks for no compression, follows no redirect and reads no endless refusal.

    A redirect would carry the key to another host; a compressed body can be a bomb. Proxies and
    certificates are those of the environment, but what is for this machine goes through no proxy,
    whatever `NO_PROXY` says: it would leave the machine.

    Args:
        base_url: where all requests go.
    """
    answer_for_platform()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    url = urlsplit(base_url)
    is_here = is_loopback_host(url.hostname or "")
    verify = _NO_AUTHORITY if url.scheme == "http" else True
    return httpx2.AsyncClient(
        timeout=TIMEOUT,
        limits=limits,
        transport=httpx2.AsyncHTTPTransport(verify, limits=limits) if is_here else None,
        event_hooks={
            "request": [_refuse_compression],
            "response": [_limit_response],
        },
    )


async def _refuse_compression(request: httpx2.Request) -> None:
    request.headers["accept-encoding"] = "identity"


def find_compression(response: httpx2.Response) -> str:
    """How a body is compressed; empty if it is not."""
    encoding: str = response.headers.get("content-encoding", "").strip()
    return "" if encoding.lower() == "identity" else encoding


async def _limit_response(response: httpx2.Response) -> None:
    if not response.is_success:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _LimitedBody(response.stream)
    elif encoding := find_compression(response):
        text = f"the answer is compressed ({encoding}), which was not asked for"
        raise WireError(LlmErrorKind.INVALID_RESPONSE, text)


class _LimitedBody(httpx2.AsyncByteStream):
    """The beginning of a body."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            yield chunk
            size += len(chunk)
            if size > REFUSAL_SIZE_MAX:
                return

    async def aclose(self) -> None:
        await self._body.aclose()
