"""What endpoints of Chat Completions refuse, over real sockets, told as what it is."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from case_tables import for_every_row
from models.conformance import drain
from models.conformance import request as make_request
from models.loopback import Answer, Loopback, refusal, sse, stream
from models.openai_chat_streams import STREAMS
from models.test_openai_chat import KEY, K, failure_of, provider_at
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind
from treadle.models.openai.chat import OpenAiChatProvider


def ended_by(reason: str, **delta: Any) -> Answer:
    """A stream that ends for a reason of its own."""
    choices = [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": reason}]
    return stream(sse(("message", {"choices": choices}), ("message", "[DONE]")))


def told(message: str, code: Any = None, kind: Any = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000"
REFUSALS: dict[str, tuple[Answer, LlmErrorKind]] = {
    "openai, too long": (
        refusal(400, told(LONG, "context_length_exceeded")),
        K.CONTEXT_TOO_LONG,
    ),
    "vllm, too long": (
        refusal(400, {"object": "error", "message": LONG, "type": "BadRequestError", "code": 400}),
        K.CONTEXT_TOO_LONG,
    ),
    "llama.cpp, too long": (
        refusal(
            400,
            told(
                "the request exceeds the available context size, try increasing it",
                400,
                "exceed_context_size_error",
            ),
        ),
        K.CONTEXT_TOO_LONG,
    ),
    "ollama, too long": (
        refusal(500, told("input length exceeds maximum context length", None, "api_error")),
        K.CONTEXT_TOO_LONG,
    ),
    "bad": (refusal(400, told("Unknown parameter: 'x'.")), K.BAD_REQUEST),
    "mistral, bad": (
        refusal(422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden"}]}}),
        K.BAD_REQUEST,
    ),
    "no key": (refusal(401, told("No key", None, None)), K.AUTHENTICATION),
    "ollama, no key": (refusal(401, told("unauthorized", None, "api_error")), K.AUTHENTICATION),
    "wrong key": (
        refusal(401, told(f"Incorrect API key provided: {KEY}.", "invalid_api_key")),
        K.AUTHENTICATION,
    ),
    "half a key": (
        refusal(401, told(f"Incorrect API key provided: {KEY[:12]}****{KEY[-12:]}")),
        K.AUTHENTICATION,
    ),
    "no money": (
        refusal(402, told("Insufficient Balance", "invalid_request_error", "unknown_error")),
        K.PERMISSION,
    ),
    "forbidden": (refusal(403, told("not for you")), K.PERMISSION),
    "no model": (
        refusal(404, told("The model `x` does not exist", "model_not_found")),
        K.NOT_FOUND,
    ),
    "no page": (refusal(404, b"404 page not found", content_type="text/plain"), K.NOT_FOUND),
    "no quota": (
        refusal(429, told("You exceeded your quota", "insufficient_quota", "insufficient_quota")),
        K.PERMISSION,
    ),
    "server": (refusal(500, told("The server had an error", None, "server_error")), K.SERVER),
    "overloaded": (refusal(503, told("Slow down", None, "server_error")), K.OVERLOADED),
    "html": (
        refusal(502, b"<html>\n<h1>Bad Gateway</h1>\n</html>", content_type="text/html"),
        K.SERVER,
    ),
    "html, fine": (
        refusal(200, b"<html>\n<h1>Sign in</h1>\n</html>", content_type="text/html"),
        K.INVALID_RESPONSE,
    ),
    "empty": (refusal(500, b""), K.SERVER),
    "json, not a stream": (
        refusal(200, {"id": "x", "choices": [{"message": {"content": "hi"}}]}),
        K.INVALID_RESPONSE,
    ),
    "error, fine": (refusal(200, told("overloaded", None, "overloaded_error")), K.OVERLOADED),
    "gzip": (
        refusal(
            200,
            zlib.compress(STREAMS["openai text"], wbits=31),
            content_type="text/event-stream",
            content_encoding="gzip",
        ),
        K.INVALID_RESPONSE,
    ),
    "elsewhere": (refusal(307, b"", location="http://127.0.0.1:1/"), K.INVALID_RESPONSE),
    "nothing": (stream(b""), K.CUT_STREAM),
    "garbage": (stream(sse("garbage")), K.INVALID_RESPONSE),
    "filtered": (stream(STREAMS["openai filtered"]), K.CONTENT_FILTERED),
    "vllm, late": (stream(STREAMS["vllm error"]), K.CONTEXT_TOO_LONG),
    "groq, late": (stream(STREAMS["groq error"]), K.SERVER),
    "gpustack, late": (stream(STREAMS["gpustack error"]), K.OVERLOADED),
    "gpustack, late and cut": (
        stream(STREAMS["gpustack error"], framing="close", is_cut=True),
        K.OVERLOADED,
    ),
    "minimax, fine": (
        refusal(200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
        K.PERMISSION,
    ),
    "gemini, a call that cannot be read": (
        ended_by("function_call_filter: MALFORMED_FUNCTION_CALL"),
        K.SERVER,
    ),
    "gemini, filtered": (ended_by("content_filter: PROHIBITED_CONTENT"), K.CONTENT_FILTERED),
    "z.ai, filtered": (ended_by("sensitive", content="Half of it"), K.CONTENT_FILTERED),
    "z.ai, failed": (ended_by("network_error", content="Half of it"), K.SERVER),
    "z.ai, no room": (ended_by("model_context_window_exceeded"), K.CONTEXT_TOO_LONG),
    "a proxy, late": (stream(sse(("error", "gone away"))), K.SERVER),
}


@for_every_row("name", REFUSALS)
async def test_a_refusal_is_told_as_what_it_is(name: str) -> None:
    refused, kind = REFUSALS[name]
    error = await failure_of(refused)
    assert error.kind is kind
    assert error.message.startswith("openai: ")


async def test_a_limit_of_requests_says_when_to_come_back() -> None:
    limited = told("Rate limit reached", "rate_limit_exceeded", "requests")
    error = await failure_of(refusal(429, limited, retry_after="7"))
    assert (error.kind, error.retry_after_s) == (K.RATE_LIMITED, 7.0)


async def test_an_error_line_in_a_stream_is_told_and_not_taken_for_a_cut() -> None:
    assert "no worker is there" in (await failure_of(stream(STREAMS["gpustack error"]))).message


@pytest.mark.parametrize(("length", "kind"), [(16_000, K.CONTEXT_TOO_LONG), (10, K.BAD_REQUEST)])
async def test_a_refusal_without_a_word_is_judged_by_the_length_of_the_request(
    length: int, kind: LlmErrorKind
) -> None:
    async with Loopback(refusal(400, b"")) as server:  # recorded from Cerebras
        provider = provider_at(server)
        end = (await drain(provider.stream(make_request("x" * length))))[-1]
        await provider.aclose()
    assert isinstance(end, LlmEvent.Error)
    assert end.error.kind is kind


async def test_a_filtered_answer_says_what_it_used() -> None:
    error = await failure_of(stream(STREAMS["openai filtered"]))
    assert error.usage is not None
    assert (error.usage.input_tokens, error.usage.output_tokens) == (20, 2)


async def test_nobody_at_the_address_is_the_networks_fault() -> None:
    async with Loopback(stream(b"")) as server:
        url = server.url
    provider = OpenAiChatProvider(KEY, base_url=url)
    end = (await drain(provider.stream(make_request("hi"))))[-1]
    assert isinstance(end, LlmEvent.Error)
    assert end.error.kind is K.NETWORK
    await provider.aclose()


async def test_a_request_is_made_once_whatever_comes() -> None:
    async with Loopback(refusal(500, told("no"))) as server:
        provider = provider_at(server)
        await drain(provider.stream(make_request("hi")))
        await provider.aclose()
    assert len(server.requests) == 1


@pytest.mark.parametrize("key", ["ollama", "lm-studio", ""])
async def test_a_key_that_is_only_a_word_hides_no_words(key: str) -> None:
    answer = refusal(404, told('model "lm-studio/x" not found', None, "not_found_error"))
    async with Loopback(answer) as server:
        provider = OpenAiChatProvider(key, name="ollama", base_url=server.url)
        (end,) = await drain(provider.stream(make_request("hi")))
        await provider.aclose()
    assert end.error.message.startswith("ollama: model")
