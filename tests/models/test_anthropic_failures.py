"""Every way in which a request to the Anthropic provider fails, over real connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import pytest

from case_tables import for_every_row
from models.anthropic_streams import STREAMS
from models.conformance import drain
from models.loopback import EVENT_STREAM, Answer, Loopback, refusal, stream
from models.test_anthropic import KEY, asking
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError
from treadle.models.anthropic.provider import AnthropicProvider


async def failure_at(url: str, key: str = KEY) -> LlmError:
    """The one error that a request ends with; it must be fit to be shown."""
    provider = AnthropicProvider(key, base_url=url)
    *deltas, end = await drain(provider.stream(asking()))
    await provider.aclose()
    assert type(end) is LlmEvent.Error
    assert not any(isinstance(delta, LlmEvent.Error) for delta in deltas)
    message = end.error.message
    assert message.startswith("anthropic: ")
    assert message.isprintable()
    assert KEY not in message
    assert len(message) < 700
    return end.error


async def failure(answer: Answer) -> LlmError:
    async with Loopback(answer) as server:
        error = await failure_at(server.url)
        assert len(server.requests) == 1  # the conversation machine decides on retries, not the SDK
    return error


def body(kind: str, message: str = "what it says") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


@for_every_row(
    "status, said, kind",
    [
        (400, body("invalid_request_error"), "bad_request"),
        (
            400,
            body("invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"),
            "context_too_long",
        ),
        (401, body("authentication_error", "invalid x-api-key"), "authentication"),
        (402, body("billing_error"), "permission"),
        (403, body("permission_error"), "permission"),
        (404, body("not_found_error", "model: claude-nope"), "not_found"),
        (408, body("timeout_error"), "timeout"),
        (413, body("request_too_large"), "context_too_long"),
        (429, body("rate_limit_error"), "rate_limited"),
        (500, body("api_error"), "server"),
        (503, body("overloaded_error"), "overloaded"),
        (529, body("overloaded_error"), "overloaded"),
        (418, body("teapot_error"), "bad_request"),
        (599, body("teapot_error"), "server"),
    ],
)
async def test_a_status_is_told_with_the_words_of_the_api(
    status: int, said: Any, kind: str
) -> None:
    error = await failure(refusal(status, said, request_id="req_011"))
    assert error.kind.value == kind
    assert said["error"]["message"] in error.message
    assert f"HTTP {status}" in error.message
    assert "req_011" in error.message


@pytest.mark.parametrize(
    "said", [b"", b"<html>\n<h1>Bad\r\n gateway</h1>", b"null", b"[]", b"\xff"]
)
@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication"), (429, "rate_limited"), (502, "server")]
)
async def test_a_status_without_words_of_the_api_is_told_by_itself(
    status: int, kind: str, said: bytes
) -> None:
    error = await failure(refusal(status, said, content_type="text/html"))
    assert error.kind.value == kind
    assert f"HTTP {status}" in error.message


@for_every_row(
    "headers, expected",
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "-3"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 9.0),
        ({"retry_after_ms": "0", "retry_after": "1"}, 1.0),
        ({"retry_after": "1000000000"}, 1e9),
        ({"retry_after": formatdate(0, usegmt=True)}, 0.5),
        ({"retry_after": "NaN"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": ""}, None),
        ({}, None),
    ],
)
async def test_the_wait_that_the_server_asks_for_is_passed_on_and_not_waited_for(
    headers: dict[str, str], expected: float | None
) -> None:
    error = await failure(refusal(429, body("rate_limit_error"), **headers))
    assert error.retry_after_s == expected


async def test_what_a_terminal_would_obey_is_not_repeated() -> None:
    error = await failure(refusal(500, body("api_error", "\x1b]0;owned\x07 \u202e no")))
    assert "\ufffd]0;owned\ufffd \ufffd no" in error.message


async def test_an_endless_error_is_read_to_a_bound() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    error = await failure(Answer(endless, 500, {"content-type": "text/plain"}))
    assert error.kind.value == "server"


async def test_the_key_follows_no_redirect() -> None:
    async with Loopback(stream(STREAMS["text"])) as other:
        for status in (301, 302, 303, 307, 308):
            answer = refusal(status, b"", location=f"{other.url}/v1/messages")
            async with Loopback(answer) as server:
                error = await failure_at(server.url)
            assert f"HTTP {status}" in error.message
            assert error.kind.value == "invalid_response"
        assert other.requests == []


@for_every_row(
    "answer",
    [
        Answer((b"<html>Sign in</html>",), 200, {"content-type": "text/html"}),
        Answer((b'{"id": "msg_1", "content": []}',), 200, {"content-type": "application/json"}),
        stream(STREAMS["text"], headers={**EVENT_STREAM, "content-encoding": "gzip"}),
        stream(b"data: <html>\n\n"),
    ],
)
async def test_what_does_not_speak_the_format_is_an_invalid_response(answer: Answer) -> None:
    assert (await failure(answer)).kind.value == "invalid_response"


async def test_an_error_with_the_status_of_a_success_is_that_error() -> None:
    answer = refusal(200, body("overloaded_error", "Overloaded"))
    assert (await failure(answer)).kind.value == "overloaded"


async def test_an_empty_stream_is_a_cut_one() -> None:
    assert (await failure(Answer(()))).kind.value == "cut_stream"


async def test_nobody_at_the_address_is_a_failure_of_the_network() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = await failure_at(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert error.kind.value == "network"


async def test_tls_at_a_port_that_speaks_none_is_a_failure_of_the_network() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\nThis is no TLS.")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await failure_at(f"https://127.0.0.1:{port}")).kind.value == "network"


@for_every_row(
    "sent, kind",
    [
        (b"", "network"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", "cut_stream"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99999\r\n\r\n"
            + STREAMS["text"][:700],
            "cut_stream",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "network"),
    ],
)
async def test_a_connection_that_is_reset_is_told_by_how_far_it_came(
    sent: bytes, kind: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await writer.drain()
        reset = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await failure_at(f"http://127.0.0.1:{port}")).kind.value == kind


@for_every_row("key", ["sk\nant", "sk-änt", "sk ant"])
async def test_a_key_that_can_be_none_is_refused_before_it_is_sent(key: str) -> None:
    async with Loopback(stream(STREAMS["text"])) as server:
        error = await failure_at(server.url, key)
        assert server.requests == []
    assert error.kind.value == "authentication"


@pytest.mark.parametrize("status", [200, 401])
async def test_a_server_that_repeats_the_key_does_not_get_it_shown(status: int) -> None:
    error = await failure(refusal(status, body("authentication_error", f"{KEY} is wrong")))
    assert "[REDACTED:anthropic_api_key] is wrong" in error.message
