"""What a model has thought can be read of its answer: all that was shown while it came."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from case_tables import for_every_row
from models import anthropic_streams, openai_chat_streams, openai_responses_streams
from models.conformance import request
from treadle.core.events import LlmEvent
from treadle.core.messages import Message, NativeLayout, OpaquePart, TextPart
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.failures import WireError
from treadle.models.openai.chat_stream import ChatAssembler
from treadle.models.openai.responses_stream import ResponsesAssembler
from treadle.models.wire.sse import SseDecoder
from treadle.models.wire.stream import StreamError
from treadle.thread.thoughts import list_thoughts

FORMATS: Mapping[str, tuple[Mapping[str, bytes], Any]] = {
    "messages": (
        anthropic_streams.STREAMS,
        lambda: AnthropicAssembler("anthropic:m", 1, 9),
    ),
    "responses": (
        openai_responses_streams.STREAMS,
        lambda: ResponsesAssembler("openai:m", salt=1, input_size=9),
    ),
    "chat": (openai_chat_streams.STREAMS, lambda: ChatAssembler(request("hi"), "openai:m")),
}


@pytest.mark.parametrize("name", FORMATS)
def test_all_that_was_shown_of_thinking_can_be_read_afterwards(name: str) -> None:
    streams, make = FORMATS[name]
    thinking, missed = 0, []
    for case, data in streams.items():
        events: list[Any] = []
        assembler = make()
        with suppress(WireError, StreamError):  # those that end with a failure leave no answer
            for event in SseDecoder().feed(data):
                events += assembler.add_event(event)
            events += assembler.end()
        if not (events and isinstance(events[-1], LlmEvent.Completed)):
            continue
        shown = "".join(one.content for one in events if isinstance(one, LlmEvent.ThinkingDelta))
        thoughts = list_thoughts(events[-1].response.message)
        thinking += bool(shown)
        if "".join(shown.split()) != "".join("".join(thoughts).split()):
            missed.append((case, shown, thoughts))
    assert missed == []
    assert thinking >= 2, "the streams of this format hold no thinking"


@for_every_row(
    "block",
    [
        *("[]", "1", "null", '{"type":"thinking"}', '{"type":"thinking","thinking":7}'),
        '{"type":"reasoning","summary":{},"content":[1,{"text":2}]}',
        '{"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}',
        '{"content_part":{"type":"text","text":"thinking"}}',
        '{"type":"redacted_thinking","data":"x"}',
    ],
)
def test_a_block_of_another_form_is_passed_over(block: str) -> None:
    parts = (OpaquePart(block), TextPart(2))
    assert list_thoughts(Message("assistant", "hi", native=NativeLayout("a:b", parts))) == []
