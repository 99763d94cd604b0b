"""From streamed pieces to a message and back to blocks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind
from treadle.core.messages import Message, NativeLayout, OpaquePart, TextPart, ToolCall
from treadle.models.failures import WireError
from treadle.models.layout import (
    ANSWER_SIZE_MAX,
    BLOCK_COUNT_MAX,
    MALFORMED,
    Block,
    MessageBuilder,
    TextBuffer,
    arguments_object,
    list_blocks,
)

ME = "here:model"

texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
opaque = st.dictionaries(
    texts, st.recursive(texts | st.integers(0, 9) | st.booleans(), st.lists, max_leaves=4)
)
blocks = st.lists(
    texts | st.builds(ToolCall, st.uuids().map(str), texts, st.just('{"a":1}')) | opaque, max_size=6
)


def draft(*said: Block) -> tuple[Message, list[Any]]:
    """A message of these blocks, and the deltas on the way."""
    made = MessageBuilder(ME, 3)
    deltas: list[Any] = []
    for key, block in enumerate(said):
        if isinstance(block, str):
            deltas += made.add_text(key, block)
        elif isinstance(block, ToolCall):
            deltas += made.open_call(key, block.id, block.tool_name)
            deltas += made.add_arguments(key, block.arguments_json)
        else:
            made.put_opaque(key, block)
    deltas += made.end()
    return made.build_message(), deltas


@given(blocks)
def test_blocks_come_back_as_they_came_even_from_a_file(said: list[Block]) -> None:
    message, _ = draft(*said)
    stored = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    assert stored == message
    assert list(list_blocks(stored, ME)) == said


@given(st.lists(st.text(max_size=4), max_size=20))
def test_pieces_are_their_text_whatever_is_in_them(said: list[str]) -> None:
    pieces = TextBuffer()
    for piece in said:
        pieces.append(piece)
    assert str(pieces) == "".join(said)
    assert bool(pieces) == bool("".join(said))


@given(blocks)
def test_another_model_gets_the_text_and_then_the_calls(said: list[Block]) -> None:
    message, _ = draft(*said)
    text = "".join(block for block in said if isinstance(block, str))
    calls = [block for block in said if isinstance(block, ToolCall)]
    assert message.content == text
    assert list(message.tool_calls) == calls
    assert list(list_blocks(message, "there:model")) == [*([text] if text else []), *calls]


def test_a_text_with_calls_after_it_needs_no_layout() -> None:
    assert draft("so", ToolCall("a", "look"), ToolCall("b", "look"))[0].native is None
    assert draft("so")[0].native is None
    assert draft(ToolCall("a", "look"))[0].native is None
    assert draft("so", "much")[0].native is not None
    assert draft(ToolCall("a", "look"), "so")[0].native is not None


def test_a_layout_that_no_longer_covers_the_message_is_not_used() -> None:
    native = NativeLayout(ME, (OpaquePart('{"type":"thinking"}'), TextPart(5)))
    whole = Message("assistant", "12345", native=native)
    assert list_blocks(whole, ME) == ({"type": "thinking"}, "12345")
    changed = Message("assistant", "[REDACTED:key]", native=native)
    assert list_blocks(changed, ME) == ("[REDACTED:key]",)


def test_a_block_in_which_a_secret_was_replaced_is_left_out() -> None:
    parts = (OpaquePart('{"thinking":"[REDACTED:key]"}'), TextPart(2))
    assert list_blocks(Message("assistant", "ok", native=NativeLayout(ME, parts)), ME) == ("ok",)


def test_both_halves_of_a_character_may_come_in_two_pieces() -> None:
    made = MessageBuilder(ME, 0)
    deltas = [*made.add_text(0, "a\ud83d"), *made.add_text(0, "\ude00b"), *made.end()]
    assert deltas == [LlmEvent.TextDelta("a"), LlmEvent.TextDelta("😀b")]
    assert made.build_message().content == "a😀b"


def test_half_a_character_that_stays_alone_is_replaced() -> None:
    made = MessageBuilder(ME, 0)
    deltas = [*made.add_text(0, "a\ud83d"), *made.end()]
    assert deltas == [LlmEvent.TextDelta("a"), LlmEvent.TextDelta("�")]
    assert made.build_message().content == "a�"


def test_a_call_without_an_id_or_with_one_that_is_taken_gets_its_own() -> None:
    message, deltas = draft(ToolCall("", "a"), ToolCall("x", "b"), ToolCall("x", "c"))
    ids = [call.id for call in message.tool_calls]
    assert ids == ["call-3-0", "x", "x-3-2"]
    assert list(dict.fromkeys(delta.call_id for delta in deltas)) == ids


def test_a_call_without_arguments_has_empty_ones() -> None:
    message, deltas = draft(ToolCall("a", "look", ""))
    assert message.tool_calls[0].arguments_json == "{}"
    assert "".join(delta.arguments_fragment for delta in deltas) == "{}"


def test_the_last_call_of_an_answer_that_was_cut_stays_malformed() -> None:
    made = MessageBuilder(ME, 0)
    opened = [*made.open_call(0, "a", "look"), *made.open_call(1, "b", "look")]
    assert len(opened) == 2
    assert list(made.end(is_cut=True)) == [LlmEvent.ToolCallDelta("a", "look", "{}")]
    assert [call.arguments_json for call in made.build_message().tool_calls] == ["{}", ""]


def test_a_block_cannot_begin_twice_nor_change_its_kind() -> None:
    made = MessageBuilder(ME, 0)
    list(made.add_text(0, "x"))
    with pytest.raises(WireError):
        list(made.open_call(0, "a", "look"))
    with pytest.raises(WireError):
        list(made.add_arguments(0, "{"))
    with pytest.raises(WireError):
        list(made.add_arguments("never begun", "{"))
    with pytest.raises(WireError):
        made.put_opaque(0, {})


def test_an_answer_without_end_is_refused() -> None:
    made = MessageBuilder(ME, 0)
    piece = "x" * (ANSWER_SIZE_MAX // 4)
    for _ in range(4):
        list(made.add_text(0, piece))
    with pytest.raises(WireError) as caught:
        list(made.add_thinking("x"))
    assert caught.value.kind is LlmErrorKind.INVALID_RESPONSE
    many = MessageBuilder(ME, 0)
    for key in range(BLOCK_COUNT_MAX):
        many.put_opaque(key, {})
    with pytest.raises(WireError):
        many.put_opaque("one more", {})


@for_every_row(
    "text", ["", "{", "[1]", '"x"', "null", "NaN", '{"a":NaN}', "{" * 10_000, "\ud800", '{"a":1}x']
)
def test_arguments_that_are_no_json_object_go_back_as_text(text: str) -> None:
    assert arguments_object(ToolCall("a", "look", text)) == {MALFORMED: text}


def test_arguments_that_are_an_object_go_back_as_it() -> None:
    assert arguments_object(ToolCall("a", "look", '{"b":[1,"ü"],"a":null}')) == {
        "b": [1, "ü"],
        "a": None,
    }
