"""Streams of the Responses API that are wrong: a typed error, or the answer as it was."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from case_tables import for_every_row
from models.loopback import sse
from models.openai_responses_streams import (
    ANSWERS,
    LIMIT,
    SOURCE,
    USAGE,
    Events,
    added,
    call,
    changed,
    completed,
    done,
    events_from,
    events_of,
    gist,
    heard,
    opaque,
    reasoning,
    text,
    without,
    wrong,
)
from treadle.core.llm import LlmErrorKind, Usage
from treadle.models.failures import WireError
from treadle.models.openai.responses_request import make_input_items
from treadle.models.openai.responses_stream import parse_usage
from treadle.models.wire.stream import StreamError


@for_every_row(
    "field, value",
    [
        ("arguments", '{"other": 1}'),
        ("name", "write_file"),
        ("call_id", "call_9"),
        ("type", "message"),
        ("arguments", 7),
    ],
)
@for_every_row("at", ["response.output_item.done", "response.completed"])
def test_a_call_that_is_told_differently_later_is_refused(field, value, at):
    def change(event: dict[str, Any]) -> None:
        if event["type"] == at:
            item = event.get("item") or event["response"]["output"][0]
            item[field] = value

    wrong(changed(events_of(call("call_a1", "bash", '{"a": 1}')), change))


@for_every_row("at", ["output_text.done", "content_part.done", "output_item.done"])
def test_a_text_that_is_told_differently_later_is_refused(at):
    def change(event: dict[str, Any]) -> None:
        if event["type"].endswith(at):
            part = event.get("part") or event
            part = event["item"]["content"][0] if "item" in event else part
            part["text"] = "Hullo"

    assert "streamed before" in wrong(changed(events_of(text("Hel", "lo")), change))


@pytest.mark.parametrize("told", [text("Hel", "lo", "lo"), call("c", "x", '{"a"', ": ", "1}")])
def test_a_delta_that_is_lost_twice_there_or_moved_is_refused_or_harmless(told):
    events = events_of(told)
    places = [at for at, event in enumerate(events) if event["type"].endswith(".delta")]
    expected = completed(events).message
    for at in places:
        lost = events[:at] + events[at + 1 :]
        twice = [*events[:at], events[at], *events[at:]]
        for variant in (lost, twice):
            with suppress(WireError):
                assert completed(variant).message == expected
    moved = list(events)
    moved[places[0]], moved[places[1]] = moved[places[1]], moved[places[0]]
    wrong(moved)


@for_every_row(
    "event",
    [
        {"type": "response.output_text.delta", "output_index": 5, "content_index": 0, "delta": "x"},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": 7},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": -1, "delta": ""},
        {"type": "response.output_text.delta", "output_index": True, "delta": ""},
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "x"},
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"},
        {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "x"},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": 1}},
        {"type": "response.output_item.added", "output_index": 1, "item": "x"},
        {"type": "response.output_item.added", "output_index": "1", "item": {"type": "message"}},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "function_call"},
        },
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "function_call", "name": "x", "call_id": 4},
        },
        {"type": "response.output_item.done", "output_index": 0},
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning"}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "message", "content": 4},
        },
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "message", "content": [4]},
        },
        {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": 1},
        {"type": "response.content_part.added", "output_index": 9, "part": {"type": "refusal"}},
        {"type": "response.reasoning_summary_text.delta", "delta": None},
        {"type": "response.created", "response": {}},
        {"type": "response.completed", "response": None},
        {"type": "response.completed", "response": {"output": "x"}},
        {"type": "response.completed", "response": {"output": ["x", "y"]}},
        {"type": "response.future_item", "item": {"type": "dream"}},
        [],
        "{",
        "NaN",
        '{"a":' * 100_000,
    ],
)
def test_an_event_that_makes_no_sense_is_refused(event):
    events = events_of(text("Hello"))
    first = next(at for at, each in enumerate(events) if each["type"].endswith(".delta"))
    data = [each if isinstance(each, str) else (each["type"], each) for each in events]
    spoiled = [event if isinstance(event, str | list) else (event["type"], event)]
    assert wrong(sse(*data[: first + 1], *spoiled, *data[first + 1 :]))


@for_every_row(
    "kind", ["custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call"]
)
def test_a_call_of_a_tool_that_was_not_offered_is_refused(kind):
    item = {"id": "ctc_1", "type": kind, "call_id": "call_1", "name": "x", "input": "y"}
    assert kind in wrong(events_of(opaque(item)))


def test_an_item_that_never_ends_is_refused():
    for told in (text("Hello"), call("c", "x", "{}"), reasoning("Hm")):
        events = without(events_of(told), "output_item.done")
        events[-1]["response"]["output"] = []
        assert "has no end" in wrong(events)


def test_an_item_that_is_missing_in_the_end_and_was_never_done_is_refused():
    events = without(events_of(text("Hello"), call("c", "x", "{}")), "output_item.done")
    events[-1]["response"]["output"].pop()
    assert "has no end" in wrong(events)


def test_items_in_the_end_that_nobody_can_place_are_refused():
    events = events_of(text("Hello"), call("c", "x", "{}"))
    output = events[-1]["response"]["output"]
    output.insert(0, {"id": "new", "type": "dream"})
    assert "others are in the end" in wrong(events)
    output[:] = [{**output[1], "id": "another"}]
    assert "others are in the end" in wrong(events)


def test_items_out_of_their_order_are_refused():
    events = events_of(text("Hello"), call("c", "x", "{}"))
    swapped = changed(
        events, lambda each: each.update(output_index=1 - each.get("output_index", 0))
    )
    wrong(swapped)


def test_an_item_that_cannot_be_stored_is_refused():
    depth: Any = 0
    for _ in range(600):
        depth = [depth]
    assert "cannot be stored" in wrong(events_of(opaque({"type": "dream", "depth": depth})))


def test_streams_with_random_damage_never_make_another_message():
    """Events dropped, doubled, swapped: the answer as it was, or a typed error."""
    chance = random.Random(7)
    outcomes = set()
    for name in ANSWERS:
        events = events_from(name)
        expected = completed(ANSWERS[name]).message
        for _ in range(150):
            damaged = list(events)
            at, to = chance.randrange(len(damaged)), chance.randrange(len(damaged))
            how = chance.randrange(3)
            if how == 0:
                del damaged[at]
            elif how == 1:
                damaged.insert(to, damaged[at])
            else:
                damaged[at], damaged[to] = damaged[to], damaged[at]
            try:
                end = heard(damaged)[-1]
            except WireError as error:
                outcomes.add(error.kind)
                continue
            outcomes.add("equal")
            assert gist(end.response.message) == gist(expected), (name, how, at, to)
    assert outcomes == {"equal", LlmErrorKind.INVALID_RESPONSE, LlmErrorKind.CUT_STREAM}


@for_every_row("name", ["text and call", "summaries", "search", "refusal"])
def test_a_value_of_any_wrong_type_is_refused_or_harmless(name):
    events = events_from(name)
    expected = gist(completed(ANSWERS[name]).message)
    outcomes = set()
    for at, event in enumerate(events):
        for *path, last in places(event):
            if last == "call_id" and "added" in event["type"]:
                continue  # a call without an id gets one of ours
            for junk in (None, 7, -1, True, 0.5, [], {}, [7], {"type": 7}):
                damaged = copy.deepcopy(event)
                holder: Any = damaged
                for key in path:
                    holder = holder[key]
                holder[last] = junk
                data = [
                    (events[at]["type"], damaged) if n == at else (each["type"], each)
                    for n, each in enumerate(events)
                ]
                try:
                    message = completed(sse(*data)).message
                except (WireError, StreamError) as error:
                    outcomes.add(type(error))
                else:
                    assert gist(message) == expected, (at, path, last, junk)
    assert WireError in outcomes


def test_only_the_last_item_of_a_cut_answer_may_be_unfinished():
    events = events_of(call("c", "bash"), text("A"), status="incomplete", **LIMIT)
    events[-1]["response"]["output"] = []
    unfinished = [
        event
        for event in events
        if not (event["type"].endswith(".done") and event["output_index"] == 0)
    ]
    assert "item 0 has no end" in wrong(unfinished)
    assert "item 0 has no end" in wrong(events_of(call("c", "x", status="incomplete"), text("A")))


@for_every_row("nonsense", [-1, True, 2**53 + 1, 2**70, "12", None, 1.5, [], {}])
def test_a_usage_that_makes_no_sense_is_not_stored(nonsense):
    for field in ("input_tokens", "output_tokens"):
        assert parse_usage({**USAGE, field: nonsense}) is None
    details = {"cached_tokens": nonsense, "cache_write_tokens": nonsense}
    told = {**USAGE, "input_tokens_details": details, "output_tokens_details": nonsense}
    assert parse_usage(told) == Usage(120, 40)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def two_parts(*pieces: tuple[int, str], output: list[Any]) -> Events:
    """A message told in pieces for its parts, and nothing of it later but `output`."""
    told = [
        {"type": "response.output_text.delta", "content_index": index, "delta": piece}
        for index, piece in pieces
    ]
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    events = events_of(([added(item), *told, done(item)], None))
    events[-1]["response"]["output"] = output
    return events


def test_parts_of_a_message_come_in_their_order_or_are_refused():
    assert completed(two_parts((0, "A"), (0, "a"), (1, "B"), output=[])).message.content == "AaB"
    assert "after later text" in wrong(two_parts((0, "A"), (1, "B"), (0, "a"), output=[]))
    assert "after later text" in wrong(two_parts((1, "B"), (0, "A"), output=[]))
    assert "after later text" in wrong(two_parts((2, "C"), (1, "B"), output=[]))


def test_text_that_goes_on_after_the_text_of_the_next_item_is_refused():
    """Here the message would be in another order than what was shown."""
    events = events_of(text("A", "a"), text("B"))
    last = next(event for event in events if event.get("delta") == "a")
    later = next(event for event in events if event.get("delta") == "B")
    events.remove(last)
    events.insert(events.index(later) + 1, last)
    kept = without(events, "_text.done", "_part.done", "_item.done")
    assert "after later text" in wrong(kept)


def test_a_part_that_begins_after_the_next_item_is_refused():
    events = two_parts((0, "A"), (1, "B"), output=[])
    at = next(n for n, event in enumerate(events) if event.get("delta") == "B")
    other = {"type": "response.output_item.done", "output_index": 1, "item": {"type": "message"}}
    assert "out of order" in wrong([*events[:at], other, *events[at:]])


def test_a_part_that_is_first_text_and_then_a_refusal_is_refused():
    events = two_parts((0, "A"), (0, "B"), output=[])
    events[4]["type"] = "response.refusal.delta"
    assert "first output_text, then refusal" in wrong(events)


def test_text_after_the_end_of_its_item_is_refused():
    events = two_parts((0, "A"), (0, "B"), output=[])
    events[4], events[5] = events[5], events[4]
    assert "after its end" in wrong(events)


def test_what_a_message_says_beside_its_text_is_never_said_of_another():
    events = events_of(text("A", phase="commentary"), text("B", phase="final_answer"))
    begun = [event for event in events if event["type"] == "response.output_item.added"]
    rest = [event for event in events if event not in begun]
    message = completed([*rest[:2], *begun, *rest[2:]]).message
    first, second = make_input_items((message,), SOURCE)
    assert (first["content"][0]["text"], first.get("phase")) == ("A", None)
    assert (second["content"][0]["text"], second["phase"]) == ("B", "final_answer")
