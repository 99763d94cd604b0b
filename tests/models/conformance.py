"""What every provider must do, whoever answers: derive from `ProviderConformance` and run it.

A subclass overrides the fixture `provider`, a fresh provider, and says in `ASKED` what it
answers (between them: text, calls, text with calls, and an error).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from case_tables import for_every_row
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


def rules_of(events: list[Any]) -> Iterator[tuple[str, bool]]:
    """What holds for the events of any stream, and whether it does."""
    *deltas, end = events
    text, arguments, _ = gist(events)
    yield "deltas, and then one end", {*map(type, deltas)} <= {*DELTAS} and type(end) in ENDS
    yield "no text delta is empty", all(d.content for d in deltas if type(d) is LlmEvent.TextDelta)
    stored = "".join([text, *arguments.values()])
    yield "all text can be stored", stored == stored.encode(errors="replace").decode()
    if isinstance(end, LlmEvent.Error):
        yield "an error is data", isinstance(end.error, LlmError)
        yield "an error has a line for people", "\n" not in end.error.text.strip()
        return
    message, usage = end.response.message, end.response.usage
    calls = message.tool_calls
    ids = {call.id for call in calls}
    of_calls = [((call.id, call.tool_name), call.arguments_json) for call in calls]
    whose = message.role, message.tool_call_id, message.interrupted
    yield "a response is one", isinstance(end.response, LlmResponse)
    yield "its message is the assistant's", whose == ("assistant", None, False)
    yield "text deltas make the text", text == message.content
    yield "call deltas make the calls", [*arguments.items()] == of_calls
    yield "calls have ids of their own", "" not in ids and len(ids) == len(calls)
    yield "no usage is negative", not usage or min(usage.input_tokens, usage.output_tokens) >= 0


async def check_rules(provider: Any, asked: LlmRequest) -> None:
    before = (asked.messages, tuple(asked.messages), asked.system, asked.tools)
    stream = provider.stream(asked)
    events = await drain(stream)
    missed = [rule for rule, holds in rules_of(events) if not holds]
    assert not missed, missed
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert (asked.messages, tuple(asked.messages), asked.system, asked.tools) == before


async def check_closing_after_any_event(provider: Any, asked: LlmRequest) -> None:
    whole = await drain(provider.stream(asked))
    for count in range(len(whole) + 1):
        stream = provider.stream(asked)
        for _ in range(count):
            await anext(stream)
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert gist(await drain(provider.stream(asked))) == gist(whole)


async def check_cancelling_after_any_event(provider: Any, asked: LlmRequest) -> None:
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


async def check_reading_in_turns(provider: Any, asked: LlmRequest) -> None:
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


async def check_reading_at_once(provider: Any, asked: LlmRequest) -> None:
    alone = gist(await drain(provider.stream(asked)))
    heard = await asyncio.gather(*(drain(provider.stream(asked)) for _ in range(STREAMS)))
    assert [gist(events) for events in heard] == [alone] * STREAMS


CHECKS = (
    check_rules,
    check_closing_after_any_event,
    check_cancelling_after_any_event,
    check_reading_in_turns,
    check_reading_at_once,
)


class ProviderConformance:
    """Inherited by the test class of each provider."""

    ASKED: ClassVar[tuple[str, ...]]

    @pytest.fixture
    def provider(self) -> Any:
        raise NotImplementedError("each provider's test class makes its own")

    def test_a_provider_has_a_name_that_a_record_can_hold(self, provider):
        assert isinstance(provider.name, str)
        assert provider.name == provider.name.strip().lower() != ""

    async def test_every_request_is_answered_as_it_must_be(self, provider):
        @for_every_row("check, said", itertools.product(CHECKS, self.ASKED))
        async def holds(check, said):
            await check(provider, request(said))

        await holds()
