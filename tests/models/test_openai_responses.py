"""The Responses API provider over real sockets, with the official SDK as the judge."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from openai import AsyncOpenAI

from case_tables import for_every_row
from models.conformance import ENDS, ProviderConformance, drain
from models.conformance import request as make_request
from models.loopback import Answer, Loopback, Seen, pieces, refusal, sse, stream
from models.openai_responses_streams import (
    ANSWERS,
    FAILURES,
    STREAMS,
    call,
    events_of,
    reasoning,
    text,
    wire,
)
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind, LlmRequest, ModelTraits, Usage
from treadle.core.messages import Message
from treadle.core.tools import ToolDefinition
from treadle.models.openai.responses import OpenAiResponsesProvider
from treadle.models.openai.responses_request import TEXT_FIELD, make_input_items

KEY = "sk-test-0123456789abcdef"
MODEL = "openai:gpt-5.6"
TRAITS = ModelTraits(reasoning="effort")


def make_provider(url: str) -> OpenAiResponsesProvider:
    return OpenAiResponsesProvider(KEY, base_url=f"{url}/v1", traits=lambda _: TRAITS)


def last_text(seen: Seen) -> str:
    said: str = seen.json["input"][-1]["content"][0]["text"]
    return said


async def ask(url: str, *messages: Message, model: str = MODEL, **fields: Any) -> Any:
    """The end of the stream for these messages."""
    provider = make_provider(url)
    try:
        request = LlmRequest(model, Conversation(messages), **fields)
        return (await drain(provider.stream(request)))[-1]
    finally:
        await provider.aclose()


class TestResponsesProvider(ProviderConformance):
    ASKED = ("text", "text and call", "summaries", "error event")
    SIZE = 0

    @pytest.fixture
    async def provider(self) -> AsyncIterator[OpenAiResponsesProvider]:
        """Its server answers with the stream that the last message names."""

        def answer(seen: Seen) -> Answer:
            return stream(STREAMS[last_text(seen)], size=self.SIZE)

        async with Loopback(answer) as server:
            provider = make_provider(server.url)
            yield provider
            await provider.aclose()


class TestResponsesProviderInSevens(TestResponsesProvider):
    ASKED = ("text and call", "error event")
    SIZE = 7


class TestResponsesProviderByteByByte(TestResponsesProvider):
    ASKED = ("call",)
    SIZE = 1


def as_sent(item: dict[str, Any]) -> dict[str, Any] | None:
    """An item of the SDK's as the next request is to hold it; `None` for an empty message."""
    parsed = {"parsed_arguments", "parsed"}
    item = {key: value for key, value in item.items() if value is not None and key not in parsed}
    if item["type"] in ("message", "function_call", "reasoning"):
        item = {key: value for key, value in item.items() if key not in ("id", "status")}
    if item["type"] == "function_call":
        item["arguments"] = item["arguments"] or "{}"
    if item["type"] == "message":
        dropped = {"logprobs", "parsed"}
        item["content"] = [
            {key: value for key, value in part.items() if key not in dropped}
            for part in item["content"]
            if part.get(TEXT_FIELD.get(part["type"], "type"))
        ]
        return item if item["content"] else None
    return item


async def judged(url: str) -> Any:
    """The last response that the SDK's own accumulator gives; `None` if it gives none."""
    client = AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
    last = None
    try:
        async with client.responses.stream(model="gpt-5.6", input="Hi") as events:
            async for event in events:
                if event.type in ("response.completed", "response.incomplete"):
                    last = event.response
            if last is not None and last.status == "completed":
                last = await events.get_final_response()
    finally:
        await client.close()
    return last


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of types it does not know
@pytest.mark.parametrize("name", ANSWERS)
async def test_the_answer_is_what_the_official_sdk_makes_of_the_stream(name):
    async with Loopback(stream(ANSWERS[name])) as server:
        theirs = await judged(server.url)
        ours = (await ask(server.url, Message.user("Hi"))).response
    output = [as_sent(item.to_dict()) for item in theirs.output]
    calls = [item for item in theirs.output if item.type == "function_call"]
    assert [(each.id, each.tool_name, each.arguments_json) for each in ours.tool_calls] == [
        (each.call_id, each.name, each.arguments or "{}") for each in calls
    ]
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
    )
    inward, outward = theirs.usage.input_tokens_details, theirs.usage.output_tokens_details
    assert (ours.usage.cache_read_tokens, ours.usage.cache_write_tokens) == (
        inward.cached_tokens,
        inward.cache_write_tokens,
    )
    assert ours.usage.reasoning_tokens == outward.reasoning_tokens
    sent = make_input_items((ours.message,), MODEL)
    if name == "cut arguments":  # they go back inside an object
        assert json.loads(sent[-1].pop("arguments")) == {
            "malformed_arguments": output[-1].pop("arguments")
        }
    assert sent == [item for item in output if item]
    if ours.finish_reason != "refusal":
        assert ours.message.content == theirs.output_text


@for_every_row("name", FAILURES)
async def test_what_the_official_sdk_does_not_complete_is_an_error_here(name):
    async with Loopback(stream(FAILURES[name])) as server:
        try:
            theirs = await judged(server.url)
        except Exception as error:  # noqa: BLE001  as some error events make it do
            theirs = error
        end = await ask(server.url, Message.user("Hi"))
    assert getattr(theirs, "status", None) in (None, "incomplete", "failed")
    assert isinstance(end, LlmEvent.Error)
    assert "\n" not in end.error.text


async def test_the_official_sdk_takes_an_end_with_fewer_or_reordered_items_too():
    for output in ([1], [1, 0]):
        events = events_of(text("Hello"), call("c", "x", "{}"))
        items = events[-1]["response"]["output"]
        events[-1]["response"]["output"] = [items[number] for number in output]
        async with Loopback(stream(sse(*((one["type"], one) for one in events)))) as server:
            assert (await judged(server.url)).status == "completed"
            ours = (await ask(server.url, Message.user("Hi"))).response
        assert (ours.message.content, len(ours.tool_calls)) == ("Hello", 1)


async def test_parts_that_deltas_number_otherwise_are_one_answer():
    """The SDK's accumulator fails at it: it looks for the part of each delta at its number."""
    data = ANSWERS["text"].replace(b'"content_index": 0', b'"content_index": 1')
    async with Loopback(stream(data)) as server:
        with pytest.raises(IndexError):
            await judged(server.url)
        ours = await ask(server.url, Message.user("Hi"))
    assert ours.response.message.content == "Hello, world."


@pytest.mark.parametrize("framing", ["close", "chunked"])
@pytest.mark.parametrize("name", ["text", "parallel", "reasoning and call", "cut arguments"])
async def test_a_connection_that_is_cut_gives_exactly_one_error(name, framing):
    data = ANSWERS[name]
    for size in {0, 1, len(data) // 3, len(data) // 2, len(data) - 1}:
        cut = Answer(tuple(pieces(data[:size], 1000)), framing=framing, is_cut=True)
        async with Loopback(cut) as server:
            provider = make_provider(server.url)
            events = await drain(provider.stream(make_request("Hi")))
            await provider.aclose()
        ends = [event for event in events if isinstance(event, ENDS)]
        assert ends == events[-1:]
        assert ends[0].error.kind is LlmErrorKind.CUT_STREAM


@pytest.mark.parametrize("framing", ["close", "chunked"])
async def test_a_connection_that_is_cut_after_the_end_mark_harms_nothing(framing):
    async with Loopback(stream(ANSWERS["text"], framing=framing, is_cut=True)) as server:
        end = await ask(server.url, Message.user("Hi"))
    assert end.response.message.content == "Hello, world."


async def test_a_server_that_stays_silent_after_the_end_mark_keeps_nobody_waiting():
    async with Loopback(stream(ANSWERS["text"], hangs=True)) as server:
        end = await ask(server.url, Message.user("Hi"))
    assert end.response.message.content == "Hello, world."


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
}
TOOLS = (
    ToolDefinition("read_file", "Reads.", SCHEMA),
    ToolDefinition("bash", "Runs.", {"type": "object", "properties": {}}),
)
TURNS = (
    events_of(text("Hello.")),
    events_of(reasoning("Hm", number=1), call("c1", "read_file", '{ "path":"ä"}')),
    events_of(
        text("Both.", phase="commentary"), call("c2", "bash", "{}"), call("c3", "bash", "{}")
    ),
    events_of(call("c4", "bash", '{"command": ')),
    events_of(reasoning(number=2), reasoning(number=3), text("Done.", phase="final_answer")),
)
"""What the model says, one after the other."""


async def conversation_with(server: Loopback, model: str = MODEL) -> Conversation:
    """Play all turns; every message goes through its stored form."""
    messages = Conversation()
    provider = make_provider(server.url)
    for turn in range(len(TURNS)):
        if not (messages and messages[-1].role == "tool"):
            messages = messages.append(Message.user(f"Turn {turn}"))
        request = LlmRequest(model, messages, TOOLS, "Be kind.", reasoning="low")
        end = (await drain(provider.stream(request)))[-1]
        message = msgspec.json.decode(msgspec.json.encode(end.response.message), type=Message)
        messages = messages.append(message)
        messages = messages.extend(
            Message.tool(each, f"output of {each.id}") for each in message.tool_calls
        )
    await provider.aclose()
    return messages


async def test_later_requests_begin_with_the_bytes_of_earlier_ones():
    async with Loopback(*(stream(wire(turn)) for turn in TURNS)) as server:
        await conversation_with(server)
    bodies = [seen.body for seen in server.requests]
    assert len(bodies) == len(TURNS)
    for earlier, later in pairwise(bodies):
        beginning = earlier[: earlier.index(b'],"prompt_cache_key":')]
        assert b'"instructions":' in beginning
        assert b'"tools":' in beginning
        assert later.startswith(beginning + b",{")
    assert len({seen.json["prompt_cache_key"] for seen in server.requests}) == 1


async def test_every_call_on_the_wire_has_its_output_behind_it():
    async with Loopback(*(stream(wire(turn)) for turn in TURNS)) as server:
        await conversation_with(server)
    sent = server.requests[-1].json["input"]
    calls = [item["call_id"] for item in sent if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in sent if item["type"] == "function_call_output"]
    assert calls == outputs == ["c1", "c2", "c3", "c4"]
    assert all(
        isinstance(json.loads(item["arguments"]), dict)
        for item in sent
        if item["type"] == "function_call"
    )


async def test_reasoning_is_on_the_wire_of_the_next_request_exactly_as_it_came():
    async with Loopback(*(stream(wire(turn)) for turn in TURNS)) as server:
        messages = await conversation_with(server)
        await ask(server.url, *messages, Message.user("And?"))
        await ask(server.url, *messages, Message.user("And?"), model="openai:gpt-4")
    same, other = (seen.json["input"] for seen in server.requests[-2:])
    came = [
        event["item"]
        for turn in TURNS
        for event in turn
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "reasoning"
    ]
    sent = [item for item in same if item["type"] == "reasoning"]
    assert sent == [{key: value for key, value in item.items() if key != "id"} for item in came]
    assert [list(item) for item in sent] == [["type", "summary", "encrypted_content"]] * 3
    assert [item["phase"] for item in same if "phase" in item] == ["commentary", "final_answer"]
    assert not any(item["type"] == "reasoning" or "phase" in item for item in other)
    assert len([item for item in other if item["type"] == "function_call"]) == 4


async def test_the_request_goes_where_it_should_with_the_key_and_asks_for_a_stream():
    async with Loopback(stream(ANSWERS["text"])) as server:
        await ask(server.url, Message.user("Hi"), model="openai:gpt-5.6")
        await ask(server.url, Message.user("Hi"), model="gpt-5.6")
        await ask(server.url, Message.user("Hi"), model="openrouter:gpt-5.6")
    first, second, third = server.requests
    assert (first.method, first.path) == ("POST", "/v1/responses")
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.json["stream"] is True
    assert first.json["model"] == second.json["model"] == "gpt-5.6"
    assert third.json["model"] == "openrouter:gpt-5.6"


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, **fields}}


@for_every_row(
    "answer, kind, retry_after_s",
    [
        (
            refusal(400, error("Your input is long.", code="context_length_exceeded")),
            LlmErrorKind.CONTEXT_TOO_LONG,
            None,
        ),
        (
            refusal(400, error("Unknown parameter: 'input[1].status'.", code="unknown_parameter")),
            LlmErrorKind.BAD_REQUEST,
            None,
        ),
        (
            refusal(401, error(f"Incorrect API key: {KEY}.", code="invalid_api_key")),
            LlmErrorKind.AUTHENTICATION,
            None,
        ),
        (
            refusal(404, error("No such model.", code="model_not_found")),
            LlmErrorKind.NOT_FOUND,
            None,
        ),
        (refusal(404, error("Item 'rs_1' not found.")), LlmErrorKind.NOT_FOUND, None),
        (
            refusal(429, error("Slow\ndown.", code="rate_limit_exceeded"), retry_after="7"),
            LlmErrorKind.RATE_LIMITED,
            7.0,
        ),
        (
            refusal(429, error("You are out of money.", code="insufficient_quota")),
            LlmErrorKind.PERMISSION,
            None,
        ),
        (refusal(500, error("Oh.", type="server_error")), LlmErrorKind.SERVER, None),
        (
            refusal(502, b"<html><h1>Bad\nGateway</h1></html>", content_type="text/html"),
            LlmErrorKind.SERVER,
            None,
        ),
        (
            refusal(200, b"<html>Log in</html>", content_type="text/html"),
            LlmErrorKind.INVALID_RESPONSE,
            None,
        ),
    ],
)
async def test_a_refusal_has_its_kind_on_one_line_and_no_key_in_it(answer, kind, retry_after_s):
    async with Loopback(answer) as server:
        end = await ask(server.url, Message.user("Hi"))
    assert len(server.requests) == 1
    assert end.error.kind is kind
    assert end.error.retry_after_s == retry_after_s
    assert "\n" not in end.error.text
    assert KEY not in end.error.text
    assert end.error.message.startswith("openai: ")


async def test_a_connection_that_is_reset_in_the_middle_is_a_cut_stream():
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"connection: close\r\n\r\n" + ANSWERS["text"][:2000])
        await writer.drain()
        linger = struct.pack("ii", 1, 0)  # closing drops what is not sent and resets
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        end = await ask(url, Message.user("Hi"))
    assert end.error.kind is LlmErrorKind.CUT_STREAM
    assert "\n" not in end.error.text


async def test_nobody_there_is_an_error_of_the_network():
    async with Loopback(stream(b"")) as server:
        url = server.url
    end = await ask(url, Message.user("Hi"))
    assert end.error.kind is LlmErrorKind.NETWORK


async def test_tokens_are_counted_by_the_endpoint():
    counted = refusal(200, {"object": "response.input_tokens", "input_tokens": 321})
    async with Loopback(counted) as server:
        provider = make_provider(server.url)
        request = LlmRequest(MODEL, Conversation([Message.user("Hi")]), TOOLS, "Be kind.")
        assert await provider.count_tokens(request) == 321
        await provider.aclose()
    (seen,) = server.requests
    assert seen.path == "/v1/responses/input_tokens"
    assert {*seen.json} == {"model", "instructions", "tools", "input", "reasoning", "truncation"}


@for_every_row(
    "answer",
    [
        refusal(404, error("No such thing.")),
        refusal(200, b"<html>", content_type="text/html"),
        refusal(200, {"input_tokens": "many"}),
        refusal(200, {"input_tokens": True}),
        refusal(200, {"input_tokens": -1}),
        refusal(200, {}),
        Answer(is_cut=True),
    ],
)
async def test_an_endpoint_that_does_not_count_gives_no_number(answer):
    async with Loopback(answer) as server:
        provider = make_provider(server.url)
        assert await provider.count_tokens(make_request("Hi")) is None
        await provider.aclose()


async def test_a_usage_that_is_not_told_is_estimated():
    async with Loopback(stream(wire(events_of(text("Hello."), usage=None)))) as server:
        end = await ask(server.url, Message.user("x" * 80))
    assert end.response.usage == Usage(20, 2, estimated=True)


def test_a_provider_does_not_show_its_key():
    provider = OpenAiResponsesProvider(KEY)
    assert KEY not in repr(provider)
    assert provider.traits("openai:gpt-5.6") == ModelTraits()


def test_traits_are_asked_for_by_the_name_the_endpoint_knows():
    asked: list[str] = []

    def traits(model: str) -> ModelTraits:
        asked.append(model)
        return TRAITS

    provider = OpenAiResponsesProvider(KEY, traits=traits)
    assert provider.traits("openai:gpt-5.6") == provider.traits("gpt-5.6") == TRAITS
    assert asked == ["gpt-5.6"] * 2


async def test_a_provider_that_was_never_used_can_be_closed():
    await OpenAiResponsesProvider(KEY).aclose()
