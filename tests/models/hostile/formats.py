"""The three wire formats, each with what a hostile test needs of it, under one set of names."""

from __future__ import annotations

import asyncio
import atexit
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from models import anthropic_streams, openai_chat_streams, openai_responses_streams
from models.conformance import arguments_of, text_of
from models.speakers import SPEAK
from runtime.desk import imbalance
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import EffectClass, ToolDefinition
from treadle.models.anthropic import request as anthropic_request
from treadle.models.anthropic import stream as anthropic_stream
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.openai import chat_request as openai_chat_request
from treadle.models.openai import chat_stream as openai_chat_stream
from treadle.models.openai import responses_request as openai_responses_request
from treadle.models.openai import responses_stream as openai_responses_stream
from treadle.models.openai.chat import OpenAiChatProvider
from treadle.models.openai.responses import OpenAiResponsesProvider
from treadle.models.wire.sse import SseDecoder, SseEvent
from treadle.models.wire.stream import EVENT_STREAM, Assembler, stream_events

KEY: Final = "sk-test-0123456789-abcdefghij"
MODEL: Final = "model-1"
TOOLS: Final = ("read_file", "bash", "list_files", "write_file")
GIVEN: Final = tuple(
    ToolDefinition(name, f"does {name}", {"type": "object"}, EffectClass.MUTATE) for name in TOOLS
)
_LOOP: Final = asyncio.new_event_loop()
"""For what is read from memory: nothing of it waits for anything."""
atexit.register(_LOOP.close)


class Format(Struct, frozen=True):
    """One wire format."""

    name: str
    streams: Mapping[str, bytes]
    speak: Callable[..., bytes]
    provider: Callable[[str], Any]
    """Made for the URL of a server."""
    assembler: Callable[[LlmRequest], Assembler]
    body: Callable[[LlmRequest], dict[str, Any]]
    turns: Callable[[dict[str, Any]], list[Message]]
    """The calls and results in a request, as messages without their texts."""


def _anthropic_turns(body: dict[str, Any]) -> list[Message]:
    turns: list[Message] = []
    for message in body["messages"]:
        asked: list[str] = []
        for block in message["content"]:
            if block["type"] == "tool_result":
                turns.append(Message("tool", tool_call_id=block["tool_use_id"]))
            elif block["type"] == "tool_use":
                assert isinstance(block["input"], dict)
                asked.append(block["id"])
        if asked or not any(block["type"] == "tool_result" for block in message["content"]):
            turns.append(_asking(message["role"], asked))
    return turns


def _chat_turns(body: dict[str, Any]) -> list[Message]:
    turns: list[Message] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            turns.append(Message("tool", tool_call_id=message["tool_call_id"]))
            continue
        calls = message.get("tool_calls", [])
        assert all(isinstance(_arguments(call["function"]), dict) for call in calls)
        turns.append(_asking(message["role"], [call["id"] for call in calls]))
    return turns


def _responses_turns(body: dict[str, Any]) -> list[Message]:
    turns: list[Message] = []
    asked: list[str] = []
    for item in [*body["input"], {"type": "the end"}]:
        if item["type"] == "function_call":
            assert isinstance(_arguments(item), dict)
            asked.append(item["call_id"])
            continue
        if item["type"] in {"message", "function_call_output", "the end"} and asked:
            turns.append(_asking("assistant", asked))
            asked = []
        if item["type"] == "function_call_output":
            turns.append(Message("tool", tool_call_id=item["call_id"]))
        elif item["type"] == "message":
            turns.append(Message(item["role"]))
    return turns


def _arguments(call: dict[str, Any]) -> Any:
    return json.loads(call["arguments"])


def _asking(role: Any, ids: Iterable[str]) -> Message:
    return Message(role, tool_calls=tuple(ToolCall(one, "any") for one in ids))


def _anthropic_assembler(request: LlmRequest) -> Assembler:
    return anthropic_stream.AnthropicAssembler("anthropic:model-1", len(request.messages), 400)


def _responses_assembler(request: LlmRequest) -> Assembler:
    size = len(request.messages)
    return openai_responses_stream.ResponsesAssembler("openai:model-1", salt=size, input_size=400)


def _anthropic_body(request: LlmRequest) -> dict[str, Any]:
    return anthropic_request.make_message_parameters(request, "anthropic", ModelTraits())


def _chat_body(request: LlmRequest) -> dict[str, Any]:
    dialect = openai_chat_request.Dialect()
    return openai_chat_request.make_parameters(request, "openai", ModelTraits(), dialect)


def _responses_body(request: LlmRequest) -> dict[str, Any]:
    return openai_responses_request.make_response_parameters(
        request, MODEL, "openai:model-1", ModelTraits()
    )


FORMATS: Final = {
    "anthropic-messages": Format(
        "anthropic-messages",
        anthropic_streams.STREAMS,
        SPEAK["anthropic-messages"],
        lambda url: AnthropicProvider(KEY, base_url=url),
        _anthropic_assembler,
        _anthropic_body,
        _anthropic_turns,
    ),
    "openai-chat": Format(
        "openai-chat",
        openai_chat_streams.STREAMS,
        SPEAK["openai-chat"],
        lambda url: OpenAiChatProvider(KEY, base_url=f"{url}/v1"),
        lambda request: openai_chat_stream.ChatAssembler(request, "openai:model-1"),
        _chat_body,
        _chat_turns,
    ),
    "openai-responses": Format(
        "openai-responses",
        openai_responses_streams.STREAMS,
        SPEAK["openai-responses"],
        lambda url: OpenAiResponsesProvider(KEY, base_url=f"{url}/v1"),
        _responses_assembler,
        _responses_body,
        _responses_turns,
    ),
}

RECORDED: Final = {
    (wire.name, name): data for wire in FORMATS.values() for name, data in wire.streams.items()
}
"""All recorded streams, by format and name."""


def asked(*messages: Message) -> LlmRequest:
    """A request of these messages, after the first words of the person."""
    return LlmRequest(MODEL, Conversation([Message.user("go"), *messages]), GIVEN, "be brief")


# --- reading from memory


class Held:
    """A `wire.Answer` whose body is in memory."""

    headers: Mapping[str, str] = MappingProxyType({"content-type": EVENT_STREAM})

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.body = self._read(chunks)

    @staticmethod
    async def _read(chunks: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
        for chunk in chunks:
            yield chunk

    def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        return self.body


async def listen(wire: Format, chunks: Iterable[bytes], request: LlmRequest) -> list[Any]:
    """The events of one stream."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Held]:
        held = Held(chunks)
        async with aclosing(held.body):
            yield held

    events = stream_events(opened, wire.assembler(request), wire.name)
    async with aclosing(events):
        return [event async for event in events]


def heard(wire: Format, *chunks: bytes, request: LlmRequest | None = None) -> list[Any]:
    """What a stream in memory makes; for tests that run no loop."""
    return _LOOP.run_until_complete(listen(wire, chunks, request or asked()))


def events_in(data: bytes) -> list[SseEvent]:
    """The events of a stream that is well formed."""
    return SseDecoder().feed(data)


# --- what must be true of it


def problem_on_the_wire(wire: Format, body: bytes) -> str:
    """Why a provider would refuse this request; empty if it would not."""
    try:
        told = msgspec.json.decode(body)  # stricter than Python's: no NaN, no half surrogates
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"no JSON: {error}"
    turns = wire.turns(told)
    ids = [call.id for message in turns for call in message.tool_calls]
    if len(set(ids)) < len(ids):
        return f"ids come twice: {ids}"
    return imbalance(turns)


def sent(wire: Format, request: LlmRequest) -> bytes:
    """The request as bytes, as the HTTP client writes it."""
    return json.dumps(wire.body(request), ensure_ascii=False, allow_nan=False).encode()


def after(answer: Message) -> LlmRequest:
    """The request that follows an answer: with results of its calls, or the person's next words."""
    results = [
        Message("tool", "fine", tool_call_id=call.id, name=call.tool_name)
        for call in answer.tool_calls
    ]
    return asked(answer, *results, Message.user("go on"))


def check_error(error: LlmError) -> None:
    """It is for people, and no fault of our own that was mistaken for the server's."""
    assert error.message.isprintable()
    assert len(error.message) < 1000
    assert "makes no sense: " not in error.message, error.message
    assert error.kind is not LlmErrorKind.INTERNAL, error.message


def proper(wire: Format, events: list[Any]) -> LlmResponse | LlmError:
    """How a stream ended; an assertion fails if that is no typed error and no valid answer."""
    *deltas, end = events
    assert all(type(one) in _DELTAS for one in deltas), "only deltas come before the end"
    assert type(end) in {LlmEvent.Completed, LlmEvent.Error}, "a stream has one end"
    if isinstance(end, LlmEvent.Error):
        check_error(end.error)
        assert msgspec.json.decode(msgspec.json.encode(end), type=LlmEvent.Error) == end
        return end.error
    response: LlmResponse = end.response
    message = response.message
    assert msgspec.json.decode(msgspec.json.encode(end), type=LlmEvent.Completed) == end
    assert message.role == "assistant"
    ids = [call.id for call in message.tool_calls]
    assert all(ids), "each call has an id"
    assert len(set(ids)) == len(ids), "ids are unique"
    assert text_of(deltas) == message.content, "what was shown is what is kept"
    shown = [(*key, said) for key, said in arguments_of(deltas).items()]
    kept = [(call.id, call.tool_name, call.arguments_json) for call in message.tool_calls]
    assert shown == kept, "arguments that were shown are those that are kept"
    _proper_usage(response)
    problem = problem_on_the_wire(wire, sent(wire, after(message)))
    assert problem == "", problem
    return response


_DELTAS: Final = {LlmEvent.TextDelta, LlmEvent.ThinkingDelta, LlmEvent.ToolCallDelta}


def _proper_usage(response: LlmResponse) -> None:
    usage = response.usage
    assert usage is not None
    assert 0 <= usage.input_tokens <= 2**55
    assert 0 <= usage.output_tokens <= 2**55
    assert 0 <= usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert min(usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) >= 0
