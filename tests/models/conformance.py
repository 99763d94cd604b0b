"""What every provider must do, whoever answers: derive from `ProviderConformance` and run it.

A subclass overrides two fixtures: `provider`, a fresh provider, and `asked`, parametrised with
requests that provider answers (between them: text, calls, text with calls, and an error).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest

from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmRequest, LlmResponse
from treadle.core.messages import Message

DELTAS = (LlmEvent.TextDelta, LlmEvent.ThinkingDelta, LlmEvent.ToolCallDelta)
ENDS = (LlmEvent.Completed, LlmEvent.Error)

STREAMS = 8


def request(*messages: Message | str, system: str = "") -> LlmRequest:
    """A request of these messages; a text is a user message."""
    said = (Message.user(each) if isinstance(each, str) else each for each in messages)
    return LlmRequest("any-model", Conversation(said), system=system)


async def drain(stream: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in stream]


def text_of(events: list[Any]) -> str:
    return "".join(event.content for event in events if isinstance(event, LlmEvent.TextDelta))


def arguments_of(events: list[Any]) -> dict[tuple[str, str], str]:
    """By call id and tool name, in order of appearance."""
    fragments: dict[tuple[str, str], str] = defaultdict(str)
    for event in events:
        if isinstance(event, LlmEvent.ToolCallDelta):
            fragments[event.call_id, event.tool_name] += event.arguments_fragment
    return dict(fragments)


def gist(events: list[Any]) -> tuple[Any, ...]:
    """What must be equal between two streams of one request: not the cut, nor the clock."""
    end = events[-1] if events else None
    said = end.response.message if isinstance(end, LlmEvent.Completed) else end
    return text_of(events), arguments_of(events), said


class ProviderConformance:
    """Inherited by the test class of each provider."""

    @pytest.fixture
    def provider(self) -> Any:
        raise NotImplementedError("each provider's test class makes its own")

    @pytest.fixture
    def asked(self) -> LlmRequest:
        raise NotImplementedError("each provider's test class makes its own")

    def test_a_provider_has_a_name_that_a_record_can_hold(self, provider):
        assert isinstance(provider.name, str)
        assert provider.name == provider.name.strip().lower() != ""

    async def test_a_stream_is_deltas_and_then_exactly_one_end(self, provider, asked):
        *deltas, end = await drain(provider.stream(asked))
        assert all(type(delta) in DELTAS for delta in deltas)
        assert type(end) in ENDS

    async def test_nothing_follows_the_end(self, provider, asked):
        stream = provider.stream(asked)
        await drain(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    async def test_a_completed_stream_carries_an_assistant_message(self, provider, asked):
        end = (await drain(provider.stream(asked)))[-1]
        if isinstance(end, LlmEvent.Completed):
            message = end.response.message
            assert isinstance(end.response, LlmResponse)
            assert (message.role, message.tool_call_id, message.interrupted) == (
                "assistant",
                None,
                False,
            )

    async def test_an_error_is_data_with_words_for_people(self, provider, asked):
        end = (await drain(provider.stream(asked)))[-1]
        if isinstance(end, LlmEvent.Error):
            assert isinstance(end.error, LlmError)
            assert "\n" not in end.error.text.strip()

    async def test_text_deltas_concatenate_to_the_text_of_the_message(self, provider, asked):
        events = await drain(provider.stream(asked))
        if isinstance(events[-1], LlmEvent.Completed):
            assert text_of(events) == events[-1].response.message.content

    async def test_no_text_delta_is_empty(self, provider, asked):
        events = await drain(provider.stream(asked))
        assert all(event.content for event in events if isinstance(event, LlmEvent.TextDelta))

    async def test_call_deltas_concatenate_to_the_arguments_of_the_calls(self, provider, asked):
        events = await drain(provider.stream(asked))
        if isinstance(events[-1], LlmEvent.Completed):
            calls = events[-1].response.tool_calls
            assert list(arguments_of(events).items()) == [
                ((call.id, call.tool_name), call.arguments_json) for call in calls
            ]

    async def test_the_calls_of_a_message_have_ids_of_their_own(self, provider, asked):
        end = (await drain(provider.stream(asked)))[-1]
        if isinstance(end, LlmEvent.Completed):
            ids = [call.id for call in end.response.tool_calls]
            assert all(ids)
            assert len(set(ids)) == len(ids)

    async def test_all_text_can_be_stored_as_utf8(self, provider, asked):
        text, arguments, _ = gist(await drain(provider.stream(asked)))
        "".join([text, *arguments.values()]).encode()

    async def test_usage_is_never_negative(self, provider, asked):
        end = (await drain(provider.stream(asked)))[-1]
        if isinstance(end, LlmEvent.Completed) and end.response.usage is not None:
            assert end.response.usage.input_tokens >= 0
            assert end.response.usage.output_tokens >= 0

    async def test_a_stream_can_be_closed_after_any_event(self, provider, asked):
        whole = await drain(provider.stream(asked))
        for count in range(len(whole) + 1):
            stream = provider.stream(asked)
            for _ in range(count):
                await anext(stream)
            await stream.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        assert gist(await drain(provider.stream(asked))) == gist(whole)

    async def test_the_reader_can_be_cancelled_after_any_event(self, provider, asked):
        whole = await drain(provider.stream(asked))
        for count in range(len(whole)):
            reached = asyncio.Event()

            async def read(count: int = count, reached: asyncio.Event = reached) -> None:
                seen = 0
                async for _ in provider.stream(asked):
                    seen += 1
                    if seen > count:
                        reached.set()
                        await asyncio.Event().wait()

            task = asyncio.create_task(read())
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert gist(await drain(provider.stream(asked))) == gist(whole)

    async def test_streams_read_in_turns_do_not_mix(self, provider, asked):
        alone = gist(await drain(provider.stream(asked)))
        streams = [provider.stream(asked) for _ in range(STREAMS)]
        heard: list[list[Any]] = [[] for _ in streams]
        open_ = set(range(STREAMS))
        while open_:
            for index in sorted(open_):
                try:
                    heard[index].append(await anext(streams[index]))
                except StopAsyncIteration:
                    open_.discard(index)
        assert [gist(events) for events in heard] == [alone] * STREAMS

    async def test_streams_read_at_once_do_not_mix(self, provider, asked):
        alone = gist(await drain(provider.stream(asked)))
        heard = await asyncio.gather(*(drain(provider.stream(asked)) for _ in range(STREAMS)))
        assert [gist(events) for events in heard] == [alone] * STREAMS

    async def test_the_request_stays_as_it_was(self, provider, asked):
        before = (asked.messages, tuple(asked.messages), asked.system, asked.tools)
        await drain(provider.stream(asked))
        assert (asked.messages, tuple(asked.messages), asked.system, asked.tools) == before
