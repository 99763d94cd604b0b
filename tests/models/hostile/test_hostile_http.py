"""What no HTTP server should do, and what proxies and broken servers do: each with every format."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from models.hostile.chain import CONFIG, Case, Chain
from models.hostile.formats import FORMATS, Format
from models.hostile.malformed import good
from models.hostile.raw_server import Raw
from models.loopback import Answer, pieces, refusal, stream
from treadle.core import retry
from treadle.outputs import TurnOutcome

STREAM: Final = b"content-type: text/event-stream\r\n"


@pytest.fixture(autouse=True)
def _no_time_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "DELAY_S_FIRST", 0.0)


def head(*lines: bytes, status: bytes = b"200 OK") -> bytes:
    """A head with these lines, which end themselves."""
    return b"HTTP/1.1 " + status + b"\r\n" + STREAM + b"".join(lines) + b"\r\n"


def chunked(*chunks: bytes, extension: bytes = b"") -> bytes:
    return b"".join(b"%x%b\r\n%b\r\n" % (len(one), extension, one) for one in chunks)


def raw(*parts: bytes, **how: Any) -> Raw:
    return Raw(parts, **how)


def sized(data: bytes, size: object, *, framing: bytes = b"") -> Raw:
    return raw(head(b"content-length: %b\r\n" % str(size).encode(), framing), data)


TE: Final = b"transfer-encoding: chunked\r\n"
END: Final = b"0\r\n\r\n"

ANSWERED: Final[dict[str, Callable[[bytes], Answer]]] = {
    "chunk extensions": lambda data: raw(
        head(TE), chunked(*pieces(data, 99), extension=b";a=b;c"), END
    ),
    "sizes of chunks with zeros before": lambda data: raw(
        head(TE), b"0000%x\r\n%b\r\n" % (len(data), data), END
    ),
    "trailers": lambda data: raw(head(TE), chunked(data), b"0\r\nx-trailer: 1\r\n\r\n"),
    "responses that say continue": lambda data: raw(
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3, head(TE), chunked(data), END
    ),
    "early hints": lambda data: raw(
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n", head(TE), chunked(data), END
    ),
    "byte by byte": lambda data: stream(data, size=1),
    "bytes as chunks of their own in one packet": lambda data: raw(
        head(TE), chunked(*pieces(data, 1)), END
    ),
    "an exact length": lambda data: sized(data, len(data)),
    "the end of the connection": lambda data: raw(head(), data),
    "no reason in the first line": lambda data: raw(head(status=b"200"), data),
    "many headers": lambda data: raw(head(*[b"x-a: b\r\n"] * 300), data),
    "no content type": lambda data: stream(data, headers={}),
    "a content type in capitals": lambda data: stream(
        data, headers={"content-type": "TEXT/Event-Stream;Charset=UTF-8"}
    ),
    "the encoding identity": lambda data: stream(
        data, headers={"content-type": "text/event-stream", "content-encoding": "identity"}
    ),
    "a stream as JSON": lambda data: stream(data, headers={"content-type": "application/json"}),
    "a stream as JSON, byte by byte": lambda data: stream(
        b": hi\n\n" + data, size=1, headers={"content-type": "application/json"}
    ),
    "a stream as a page": lambda data: stream(data, headers={"content-type": "text/html"}),
    "an empty content type": lambda data: stream(data, headers={"content-type": ""}),
    "a content type of control characters": lambda data: stream(
        data, headers={"content-type": "te\x1bxt/\x9f" + "x" * 5000}
    ),
    "a size that is too long, after the end": lambda data: sized(data, len(data) + 100),
    "a reset after the end": lambda data: raw(head(TE), chunked(data), resets=True),
    "HTTP of version 9": lambda data: raw(b"HTTP/9.9 200 OK\r\n\r\n", data),
    "silence after the end": lambda data: stream(data, hangs=True),
}
"""Odd, but the answer is there."""

FAILED: Final[dict[str, Callable[[bytes], Answer]]] = {
    "a chunk that is shorter than its size": lambda data: raw(
        head(TE), b"ffff\r\n" + data[: len(data) // 2]
    ),
    "a chunk that is longer than its size": lambda data: raw(head(TE), b"3\r\n" + data),
    "a size that is no number": lambda data: raw(head(TE), b"zz\r\n" + data),
    "a negative size of a chunk": lambda data: raw(head(TE), b"-5\r\n" + data),
    "a size of a chunk of 10,000 digits": lambda data: raw(head(TE), b"f" * 10_000 + b"\r\n"),
    "a size of a chunk beyond all memory": lambda data: raw(head(TE), b"f" * 16 + b"\r\nx"),
    "a length that is too long": lambda data: sized(data[: len(data) // 2], len(data)),
    "a length that is too short": lambda data: sized(data, len(data) // 2),
    "a length of zero": lambda data: sized(data, 0),
    "a negative length": lambda data: sized(data, -5),
    "a length that is no number": lambda data: sized(data, "many"),
    "a length of 5,000 digits": lambda data: sized(data[:50], "9" * 5000),
    "two lengths": lambda data: raw(head(b"content-length: 5\r\n", b"content-length: 7\r\n"), data),
    "an unknown transfer encoding": lambda data: raw(head(b"transfer-encoding: x\r\n"), data),
    "a head that does not end": lambda data: raw(b"HTTP/1.1 200 OK\r\nx: "),
    "a header of 10 MB": lambda data: raw(head(b"x: " + b"a" * 10_000_000 + b"\r\n"), data),
    "100,000 headers": lambda data: raw(head(b"x: a\r\n" * 100_000), data),
    "a header without a colon": lambda data: raw(head(b"what\r\n"), data),
    "a header with a NUL": lambda data: raw(head(b"x: \0\r\n"), data),
    "a status that is no number": lambda data: raw(head(status=b"abc"), data),
    "the status 99": lambda data: raw(head(status=b"99 X"), data),
    "the status 999": lambda data: raw(head(status=b"999 X"), data),
    "the status 0": lambda data: raw(head(status=b"000 X"), data),
    "no HTTP": raw,
    "a greeting of SSH": lambda data: raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "TLS": lambda data: raw(b"\x15\x03\x01\x00\x02\x02\x50"),
    "NULs": lambda data: raw(b"\0" * 100_000),
    "nothing": lambda data: raw(),
    "a reset at once": lambda data: raw(resets=True),
    "a reset in the middle": lambda data: raw(
        head(TE), chunked(data[: len(data) // 2]), resets=True
    ),
    "switching protocols": lambda data: raw(head(status=b"101 Switching Protocols"), data),
    "no content": lambda data: raw(head(status=b"204 No Content")),
    "not modified": lambda data: raw(head(status=b"304 Not Modified")),
    "a redirect": lambda data: Answer((), 302, {"location": "http://192.0.2.1/"}),
    "a redirect that keeps the body": lambda data: Answer((data,), 307, {"location": "/other"}),
    "a redirect to nowhere": lambda data: Answer((), 301, {"location": "\x7f:::"}),
    "a page": lambda data: stream(b"<h1>hi</h1>", headers={"content-type": "text/html"}),
    "JSON": lambda data: stream(b'{"id": 1}', headers={"content-type": "application/json"}),
    "an error as JSON under 200": lambda data: stream(
        b'{"error": {"message": "no", "type": "server_error"}}',
        headers={"content-type": "application/json"},
    ),
    "deep JSON under 200": lambda data: stream(
        b'{"error":' * 100_000, headers={"content-type": "application/json"}
    ),
    "a page that calls itself nothing": lambda data: stream(
        b"<h1>hi</h1>", headers={"content-type": ""}
    ),
    "a page of a type of control characters": lambda data: stream(
        b"<h1>hi</h1>", headers={"content-type": "te\x1bxt/\x9f" + "x" * 5000}
    ),
    "text that begins like a field": lambda data: stream(
        b"date: now", headers={"content-type": "text/plain"}
    ),
    "a gzip bomb": lambda data: stream(
        gzip.compress(bytes(50_000_000)),
        headers={"content-type": "text/event-stream", "content-encoding": "gzip"},
    ),
    "a gzip bomb in gzip": lambda data: stream(
        gzip.compress(gzip.compress(bytes(50_000_000))),
        headers={"content-type": "text/event-stream", "content-encoding": "gzip, GZIP"},
    ),
    "deflate": lambda data: stream(data, headers={"content-encoding": "deflate"}),
    "brotli": lambda data: stream(data, headers={"content-encoding": "br"}),
    "a gzip bomb as a refusal": lambda data: Answer(
        (gzip.compress(bytes(50_000_000)),), 500, {"content-encoding": "gzip"}
    ),
    "a refusal of 20 MB": lambda data: refusal(500, b"x" * 20_000_000),
    "a refusal that is cut": lambda data: Answer((b'{"err',), 500, is_cut=True),
    "a refusal in pieces": lambda data: Answer(tuple(pieces(b'{"error": "no"}', 1)), 500),
    "a refusal of deep JSON": lambda data: refusal(400, b'{"error":' * 20_000),
    "a refusal with a huge integer": lambda data: refusal(400, b'{"error":' + b"7" * 5000 + b"}"),
    "a refusal with NaN": lambda data: refusal(400, b'{"error": NaN}'),
    "a refusal of wrong types": lambda data: refusal(400, {"error": {"message": [1], "type": {}}}),
    "a refusal in UTF-16": lambda data: refusal(500, '{"error": "no"}'.encode("utf-16")),
    "a refusal of half a surrogate": lambda data: refusal(
        500, b'{"error": {"message": "\\ud800 \\u001b[31m"}}'
    ),
    "a wait of a billion seconds": lambda data: refusal(429, {}, retry_after="1000000000"),
    "a wait of a long number": lambda data: refusal(429, {}, retry_after="9" * 4000),
    "a wait that is not a number": lambda data: refusal(429, {}, retry_after="NaN"),
    "a wait without an end": lambda data: refusal(429, {}, retry_after="inf"),
    "a negative wait": lambda data: refusal(529, {}, retry_after="-1e9"),
    "a wait until the year 9999": lambda data: refusal(
        503, {}, retry_after="Fri, 31 Dec 9999 23:59:59 GMT"
    ),
    "a wait until no day": lambda data: refusal(503, {}, retry_after="Foo, 99 Bar 0 25:61:61 XYZ"),
    "a wait in other digits": lambda data: Answer((), 429, {"retry-after": "\xb2\xb3"}),
}
"""No answer comes of it."""


async def run(wire: Format, folder: Path, answer: Answer) -> Case:
    """The case, with a retry that fails in the same way."""
    async with Chain(wire, folder) as chain:
        return await chain.case(answer, answer)


@pytest.mark.parametrize("name", FORMATS)
async def test_odd_framing_does_not_hurt_an_answer(tmp_path: Path, name: str) -> None:
    wire = FORMATS[name]
    wrong: dict[str, str] = {}
    async with Chain(wire, tmp_path) as chain:
        for what, make in ANSWERED.items():
            case = await chain.case(make(good(wire)))
            if case.first.outcome is not TurnOutcome.DONE or case.failures:
                wrong[what] = case.first.error
            elif len(case.runs) != 2:
                wrong[what] = f"{len(case.runs)} tools ran"
    assert wrong == {}


@pytest.mark.parametrize("name", FORMATS)
async def test_broken_http_is_a_typed_error_and_the_next_turn_works(
    tmp_path: Path, name: str
) -> None:
    wire = FORMATS[name]
    wrong: dict[str, str] = {}
    async with Chain(wire, tmp_path) as chain:
        for what, make in FAILED.items():
            answer = make(good(wire))
            try:
                case = await chain.case(answer, answer, answer)
            except (AssertionError, TimeoutError) as error:
                wrong[what] = f"{type(error).__name__}: {error}"
                continue
            if case.first.outcome is not TurnOutcome.FAILED or case.first.error_kind is None:
                wrong[what] = f"{case.first.outcome}: {case.first.error}"
            elif case.runs:
                wrong[what] = "a tool ran"
    assert wrong == {}


@pytest.mark.parametrize("name", FORMATS)
async def test_a_wait_that_nobody_would_wait_for_ends_the_turn_at_once(
    tmp_path: Path, name: str
) -> None:
    wire = FORMATS[name]
    case = await run(wire, tmp_path, refusal(429, {}, retry_after="1000000000"))
    assert case.failures == []
    assert case.first.error_kind is not None
    assert case.first.error_kind.value == "rate_limited"


# --- what has no end


def endless(piece: bytes) -> Callable[[], AsyncIterator[bytes]]:
    """The same bytes as fast as they are read, for ever."""

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield piece

    return body


def silent_after(*parts: bytes) -> Raw:
    return Raw(parts, hangs=True)


SILENT: Final[dict[str, Callable[[bytes], Answer]]] = {
    "no response": lambda data: silent_after(),
    "half a head": lambda data: silent_after(b"HTTP/1.1 200 OK\r\ncontent-"),
    "a head": lambda data: silent_after(head(TE)),
    "a response that says continue": lambda data: silent_after(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "half an event": lambda data: silent_after(head(TE), chunked(data[:60])),
    "half an answer": lambda data: silent_after(head(TE), chunked(data[: len(data) // 2])),
    "half a refusal": lambda data: Answer((b'{"err',), 500, hangs=True),
    "half a page": lambda data: Answer((b"<h1>",), 200, {"content-type": "text/html"}, hangs=True),
}


@pytest.mark.parametrize("name", FORMATS)
async def test_silence_anywhere_ends_with_a_timeout_when_its_time_is_over(
    tmp_path: Path, name: str
) -> None:
    wire = FORMATS[name]
    loop = asyncio.get_running_loop()
    wrong: dict[str, str] = {}
    async with Chain(wire, tmp_path) as chain:
        for what, make in SILENT.items():
            answer = make(good(wire))
            began_s = loop.time()
            case = await chain.case(answer)
            took_s = loop.time() - began_s
            if not CONFIG.llm_timeout_s <= took_s < CONFIG.llm_timeout_s * 1.5:
                wrong[what] = f"{took_s:.1f} s"
            elif [failure.kind.value for failure in case.failures] != ["timeout"]:
                wrong[what] = str(case.failures)
    assert wrong == {}


ENDLESS: Final[dict[str, Answer]] = {
    "refusal": Answer(endless(b"x" * 65536), 500, {"content-type": "text/html"}),
    "page": Answer(endless(b"<p>" * 9000), 200, {"content-type": "text/html"}),
}


@pytest.mark.parametrize("what", ENDLESS)
@pytest.mark.parametrize("name", FORMATS)
async def test_what_is_no_stream_is_not_read_to_its_end(
    tmp_path: Path, name: str, what: str
) -> None:
    case = await run(FORMATS[name], tmp_path, ENDLESS[what])
    assert case.first.outcome is TurnOutcome.FAILED
