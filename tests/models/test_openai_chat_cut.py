"""Streams of Chat Completions that were cut or have no end: what is told, counted and given up."""

from __future__ import annotations

import json
from typing import Any

from models.conformance import request as make_request
from models.loopback import sse
from models.openai_chat_streams import calls, chunk, used
from models.test_openai_chat_stream import SOURCE, answer, entry, said, wrong
from processor_time import GROWTH_MAX, growth
from treadle.core.llm import Usage
from treadle.models.openai.chat_stream import ChatAssembler
from treadle.models.wire.sse import SseDecoder


def test_calls_that_never_become_whole_are_given_up_before_they_cost_much() -> None:
    begun = json.dumps(chunk(calls({"index": 0, "function": {"name": "f", "arguments": "{"}})))

    def give_up(count: int) -> None:
        assert "cannot be told apart" in str(wrong(*[begun] * count, chunk({}, "stop")))

    assert growth(lambda: give_up(48_000), lambda: give_up(12_000)) <= GROWTH_MAX


def test_long_reasoning_in_many_details_is_an_answer() -> None:
    """What each piece repeats is kept once, so it counts once."""
    detail = {"type": "reasoning.text", "text": "word ", "index": 0, "format": "x", "id": None}
    one = json.dumps(chunk({"reasoning_details": [detail]}))
    response = answer(*[one] * 30_000, chunk({"content": "a"}), chunk({}, "stop"))
    assert response.message.content == "a"


def test_done_without_a_reason_makes_no_arguments_for_the_last_call() -> None:
    """A proxy says it too when the server behind it has died."""
    begun = [chunk(calls(entry("", name, index=index))) for index, name in enumerate("ab")]
    assert said(answer(*begun)) == [("a", "{}"), ("b", "")]
    assert said(answer(*begun, chunk({}, "stop"))) == [("a", "{}"), ("b", "{}")]


def cut_usage(*chunks: Any) -> Usage | None:
    assembler = ChatAssembler(make_request("hi"), SOURCE)
    for event in SseDecoder().feed(sse(*chunks)):
        list(assembler.add_event(event))
    return assembler.usage


def test_what_was_streamed_before_a_cut_is_estimated() -> None:
    text, thought = chunk({"content": "x" * 40}), chunk({"reasoning": "y" * 40})
    call = chunk(calls(entry("z" * 40, "bash", index=0)))
    assert cut_usage(chunk({"role": "assistant"})) is None
    assert cut_usage(text, thought, call) == Usage(1, 30, estimated=True)


def test_a_usage_told_before_the_last_of_a_cut_stream_is_a_lower_bound() -> None:
    text = {"content": "x" * 40}
    assert cut_usage(chunk(text, usage=used(9, 1))) == Usage(9, 1)
    assert cut_usage(chunk(text, usage=used(9, 1)), chunk(text)) == Usage(9, 20, estimated=True)
    assert cut_usage(chunk(text, usage=used(9, 50)), chunk(text)) == Usage(9, 50, estimated=True)
