"""The Anthropic provider against a real server, with the official SDK as the judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from anthropic import AsyncAnthropic

from case_tables import for_every_row
from models.anthropic_streams import (
    FAILED,
    REDACTED_DATA,
    SIGNATURE,
    STREAMS,
    call,
    start,
    stop,
    text,
)
from models.conformance import ENDS, ProviderConformance, drain
from models.loopback import Answer, Loopback, Seen, refusal, sse, stream
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import Message
from treadle.core.tools import ToolDefinition
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.anthropic.request import make_message_parameters

KEY = "sk-ant-test-key-0123456789"
MODEL = "anthropic:claude-test"
USER = Message.user("Hello.")


def asking(*said: Message, **how: Any) -> LlmRequest:
    return LlmRequest(MODEL, Conversation(said or (USER,)), **how)


async def answer_of(server: Loopback, request: LlmRequest) -> LlmResponse:
    provider = AnthropicProvider(KEY, base_url=server.url)
    end = (await drain(provider.stream(request)))[-1]
    await provider.aclose()
    assert isinstance(end, LlmEvent.Completed), end
    return end.response


class TestAnAnthropicProvider(ProviderConformance):
    ASKED = ("emoji", "max_tokens in arguments", "omitted thinking", "overloaded")

    @pytest.fixture(params=[1, 7, 0])
    async def provider(self, request: pytest.FixtureRequest) -> AsyncIterator[AnthropicProvider]:
        def choose(seen: Seen) -> Answer:
            name = seen.json["messages"][-1]["content"][0]["text"]
            return stream(STREAMS[name], size=request.param)

        async with Loopback(choose) as server:
            provider = AnthropicProvider(KEY, base_url=server.url)
            yield provider
            await provider.aclose()


async def judged(data: bytes) -> Any:
    """What the official SDK makes of a stream; an exception if it fails."""
    async with Loopback(stream(data)) as server:
        client = AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0)
        async with client:
            try:
                async with client.messages.stream(
                    model="claude-test", max_tokens=9, messages=[{"role": "user", "content": "a"}]
                ) as answer:
                    return await answer.get_final_message()
            except Exception as error:  # noqa: BLE001  judged by the test
                return error


def comparable(block: dict[str, Any]) -> dict[str, Any]:
    """Without what is never sent back: fields that are not there, who called, and citations.

    Those of searches are, which a test of their own shows.
    """
    return {
        name: value
        for name, value in block.items()
        if name not in ("citations", "parsed_output") and (name, value) != ("caller", None)
        if (block["type"], name) != ("tool_use", "caller") and value is not None
    }


WHOLE = sorted(STREAMS.keys() - FAILED.keys() - {"max_tokens in thinking"})


@for_every_row("name", WHOLE)
async def test_a_stream_becomes_what_the_official_sdk_makes_of_it(name: str) -> None:
    theirs = await judged(STREAMS[name])
    async with Loopback(stream(STREAMS[name])) as server:
        ours = await answer_of(server, asking())
    sent = make_message_parameters(asking(USER, ours.message, USER), "anthropic", ModelTraits())[
        "messages"
    ]
    blocks = (
        sent[1]["content"] if ours.message.content or ours.message.native or ours.tool_calls else []
    )
    expected = [comparable(block.model_dump()) for block in theirs.content]
    if name == "max_tokens in arguments":
        cut = expected.pop()
        assert comparable(blocks.pop())["input"].keys() == {"malformed_arguments"}
        assert cut["input"].keys() <= {"path", "conte", "content"}
    assert [comparable(block) for block in blocks] == expected
    said = theirs.usage
    into, out_of = said.cache_creation_input_tokens, said.cache_read_input_tokens
    details = said.output_tokens_details
    assert ours.usage == Usage(
        said.input_tokens + into + out_of,
        said.output_tokens,
        cache_read_tokens=out_of,
        cache_write_tokens=into,
        reasoning_tokens=details.thinking_tokens if details else 0,
        web_searches=said.server_tool_use.web_search_requests if said.server_tool_use else 0,
    )


async def test_the_sdk_takes_a_refusal_for_a_message_and_we_do_not() -> None:
    theirs = await judged(STREAMS["refusal"])
    assert theirs.stop_reason == "refusal"
    async with Loopback(stream(STREAMS["refusal"])) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        end = (await drain(provider.stream(asking())))[-1]
        await provider.aclose()
    assert end.error.kind.value == "content_filtered"
    assert end.error.usage == Usage(theirs.usage.input_tokens, theirs.usage.output_tokens)


@for_every_row(
    "data, how, kind",
    [
        (STREAMS["overloaded"], {}, "overloaded"),
        (STREAMS["text"][:600], {"is_cut": True}, "cut_stream"),
        (STREAMS["text"][:900], {"framing": "close"}, "cut_stream"),
        (STREAMS["parallel tools"][:1500], {}, "cut_stream"),
    ],
)
async def test_where_the_sdk_fails_or_is_cut_there_is_no_message(
    data: bytes, how: dict[str, Any], kind: str
) -> None:
    async with Loopback(stream(data, **how)) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        events = await drain(provider.stream(asking()))
        await provider.aclose()
    assert events[-1].error.kind.value == kind
    assert not any(isinstance(event, LlmEvent.Completed) for event in events)
    theirs = await judged(data)
    assert isinstance(theirs, Exception) or theirs.stop_reason is None


@pytest.mark.parametrize("framing", ["close", "chunked"])
@pytest.mark.parametrize("name", ["text", "thinking", "parallel tools"])
async def test_a_connection_that_ends_anywhere_is_a_cut_stream(name: str, framing: str) -> None:
    data = STREAMS[name]
    sizes = [*range(0, len(data), 97), len(data) - 1]
    cuts = [stream(data[:size], framing=framing, is_cut=True) for size in sizes]
    async with Loopback(*cuts) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        for size in sizes:
            *deltas, end = await drain(provider.stream(asking()))
            assert type(end) is LlmEvent.Error
            assert end.error.kind.value == "cut_stream", size
            assert not any(isinstance(delta, ENDS) for delta in deltas)
        await provider.aclose()
    assert len(server.requests) == len(sizes)


async def test_what_came_is_on_the_wire_of_the_next_request_value_by_value() -> None:
    names = ("thinking", "redacted thinking", "interleaved thinking")
    async with Loopback(*(stream(STREAMS[name]) for name in names), stream(STREAMS["text"])) as it:
        provider = AnthropicProvider(KEY, base_url=it.url)
        said = Conversation((USER,))
        for name in names:
            end = (await drain(provider.stream(asking(*said))))[-1]
            message = end.response.message
            stored = msgspec.json.decode(msgspec.json.encode(message), type=Message)
            assert stored == message, name
            results = [Message.tool(each, "done") for each in message.tool_calls]
            said = said.extend([stored, *(results or [USER])])
        await drain(provider.stream(asking(*said)))
        await drain(provider.stream(LlmRequest("anthropic:claude-other", said)))
        await provider.aclose()
    *_, last, other = (request.json["messages"] for request in it.requests)
    thoughts = [
        block
        for message in last
        for block in message["content"]
        if block["type"] in ("thinking", "redacted_thinking")
    ]
    said_texts = ["The person wants a file.\nSo: read it. 🤔", "Hm.", "One.", "Two."]
    redacted = {"type": "redacted_thinking", "data": REDACTED_DATA}
    thinking = [
        {"type": "thinking", "thinking": each, "signature": SIGNATURE} for each in said_texts
    ]
    assert thoughts == [thinking[0], redacted, thinking[1], redacted, *thinking[2:]]
    kinds = {block["type"] for message in other for block in message["content"]}
    assert kinds == {"text", "tool_use", "tool_result"}


def arrays(body: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """System, tools and each message, as bytes of the wire."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    each = msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])
    return bytes(fields["system"]), bytes(fields["tools"]), [bytes(message) for message in each]


async def test_the_beginning_of_every_request_stays_the_same_bytes() -> None:
    names = ["text", "parallel tools", "thinking", "max_tokens in arguments", "emoji"] * 2
    names += ["interleaved thinking", "max_tokens in thinking", "unknown blocks", "empty arguments"]
    tools = (ToolDefinition("bash", "Run.", {"type": "object", "properties": {"a": {}, "b": {}}}),)
    async with Loopback(*(stream(STREAMS[name]) for name in names)) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        said = Conversation((USER,))
        for count, _ in enumerate(names):
            end = (await drain(provider.stream(asking(*said, system="Be brief.", tools=tools))))[-1]
            message = end.response.message
            results = [Message.tool(each, f"ERROR: {count}") for each in message.tool_calls]
            said = said.extend([message, *(results or [Message.user(f"on {count}")])])
            if results and count % 2:
                said = said.append(Message.user("and this"))
        await provider.aclose()
    wires = [arrays(request.body) for request in server.requests]
    *_, whole = wires[-1]
    for system, prepared, messages in wires:
        assert (system, prepared) == wires[0][:2]
        assert messages == whole[: len(messages)]
    decoded = [json.loads(each) for each in whole]
    for index, message in enumerate(decoded):
        uses = [each["id"] for each in message["content"] if each["type"] == "tool_use"]
        if uses:
            results = decoded[index + 1]["content"]
            assert [each["tool_use_id"] for each in results] == uses


async def test_only_the_key_and_the_address_that_were_given_are_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    others = ("API_KEY", "AUTH_TOKEN", "PROFILE", "IDENTITY_TOKEN", "FEDERATION_RULE_ID")
    for name in (*others, "ORGANIZATION_ID", "WORKSPACE_ID"):
        monkeypatch.setenv(f"ANTHROPIC_{name}", "stolen")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/stolen")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-extra: stolen\nAuthorization: stolen")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "stolen.json").write_text('{"base_url": "http://127.0.0.1:9/stolen"}')
    async with Loopback(stream(STREAMS["text"])) as server:
        assert (await answer_of(server, asking())).message.content
    (seen,) = server.requests
    assert (seen.method, seen.path) == ("POST", "/v1/messages")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["anthropic-version"] == "2026-10-21"
    assert seen.headers["accept-encoding"] == "identity"
    assert "x-api-key" not in seen.headers
    assert "stolen" not in str(seen.headers)
    assert not {"traceparent", "anthropic-beta"} & seen.headers.keys()


async def test_an_endpoint_without_keys_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "stolen")
    async with Loopback(stream(STREAMS["text"])) as server:
        provider = AnthropicProvider("", base_url=server.url)
        end = (await drain(provider.stream(asking())))[-1]
        await provider.aclose()
    assert type(end) is LlmEvent.Completed
    assert not {"authorization", "x-api-key"} & server.requests[0].headers.keys()


async def test_a_temperature_is_sent_with_the_version_that_takes_it() -> None:
    async with Loopback(stream(STREAMS["text"])) as server:
        await answer_of(server, asking(temperature=0.25))
    assert server.requests[0].json["temperature"] == 0.25
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


async def test_many_streams_share_one_client_and_do_not_mix() -> None:
    def choose(seen: Seen) -> Answer:
        said = seen.json["messages"][0]["content"][0]["text"]
        return stream(sse(start(), *text(0, *said), *stop()), size=11)

    async with Loopback(choose) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        texts = [f"number {count}" for count in range(40)]
        asked = [drain(provider.stream(asking(Message.user(each)))) for each in texts]
        heard = await asyncio.gather(*asked)
        first = provider._get_endpoint()
        assert [events[-1].response.message.content for events in heard] == texts
        await drain(provider.stream(asking()))
        assert provider._get_endpoint() is first
        assert server.connections <= len(texts)
        await provider.aclose()


async def test_a_name_of_its_own_stands_in_sources_and_before_models() -> None:
    asked: list[str] = []

    def traits(model: str) -> ModelTraits:
        asked.append(model)
        return ModelTraits(output_tokens_max=7)

    async with Loopback(stream(STREAMS["thinking"])) as server:
        provider = AnthropicProvider(KEY, name="mirror", base_url=server.url, traits=traits)
        request = LlmRequest("mirror:claude-x", Conversation((USER,)))
        end = (await drain(provider.stream(request)))[-1]
        await provider.aclose()
    assert provider.name == "mirror"
    assert end.response.message.native.source == "mirror:claude-x"
    assert (server.requests[0].json["model"], server.requests[0].json["max_tokens"]) == (
        "claude-x",
        7,
    )
    assert provider.traits("mirror:claude-x").output_tokens_max == 7
    assert {*asked} == {"claude-x"}
    assert AnthropicProvider(KEY).traits("claude-x") == ModelTraits()


async def test_tokens_are_counted_by_the_api() -> None:
    async with Loopback(refusal(200, {"input_tokens": 2095})) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        assert await provider.count_tokens(asking(system="s", temperature=0.5)) == 2095
        await provider.aclose()
    (seen,) = server.requests
    assert seen.path == "/v1/messages/count_tokens"
    assert seen.json.keys() == {"model", "messages", "system"}


@for_every_row(
    "answer",
    [
        refusal(401, {"type": "error", "error": {"type": "authentication_error"}}),
        refusal(200, {"input_tokens": -1}),
        refusal(200, {"input_tokens": True}),
        refusal(200, {"input_tokens": "12"}),
        refusal(200, {}),
        refusal(200, []),
        refusal(200, b"<html>"),
        refusal(200, b'{"input_tokens": 1' + b" " * 9_000_000 + b"}"),
        refusal(200, {"input_tokens": 1}, content_encoding="gzip"),
    ],
)
async def test_a_count_that_nobody_gives_is_none(answer: Answer) -> None:
    async with Loopback(answer) as server:
        provider = AnthropicProvider(KEY, base_url=server.url)
        assert await provider.count_tokens(asking()) is None
        await provider.aclose()


async def test_the_key_is_not_in_what_python_shows() -> None:
    provider = AnthropicProvider(KEY)
    assert KEY not in repr(provider)
    assert await AnthropicProvider("no key").count_tokens(asking()) is None
    await provider.aclose()


async def test_call_ids_that_repeat_in_a_message_are_told_apart() -> None:
    data = sse(start(), *call(0, "a", "bash"), *call(1, "a", "bash"), *stop("tool_use"))
    async with Loopback(stream(data)) as server:
        ids = [each.id for each in (await answer_of(server, asking())).tool_calls]
    assert len({*ids}) == 2
