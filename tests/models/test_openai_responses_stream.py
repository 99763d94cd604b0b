"""Streams of the Responses API that are answers, and the same answers told in other ways."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest

from case_tables import for_every_row
from models.loopback import sse
from models.openai_responses_streams import (
    ANSWERS,
    FAILURES,
    LIMIT,
    SOURCE,
    STREAMS,
    USAGE,
    call,
    changed,
    completed,
    events_from,
    events_of,
    fresh,
    gist,
    heard,
    opaque,
    reasoning,
    refusal,
    response,
    text,
    wire,
    without,
    wrong,
)
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmErrorKind, Usage
from treadle.models.failures import WireError, make_stream_llm_error
from treadle.models.openai.responses_request import make_input_items
from treadle.models.openai.responses_stream import ResponsesAssembler, parse_usage
from treadle.models.wire.sse import SseDecoder
from treadle.models.wire.stream import StreamError


@for_every_row("name", STREAMS)
def test_a_stream_cut_at_any_byte_is_no_answer(name):
    """`end` before the end mark changes nothing, so one pass sees what each cut would see."""
    data, decoder, assembler = STREAMS[name], SseDecoder(), fresh()
    for at in range(len(data)):
        with pytest.raises(WireError) as caught:
            list(assembler.end())
        assert caught.value.kind is LlmErrorKind.CUT_STREAM
        for event in decoder.feed(data[at : at + 1]):
            if name in FAILURES and at == len(data) - 1:
                with pytest.raises(StreamError):
                    list(assembler.add_event(event))
                return
            list(assembler.add_event(event))
    assert isinstance([*assembler.end()][-1], LlmEvent.Completed)


@for_every_row("name", ANSWERS)
def test_deltas_concatenate_to_the_message(name):
    *deltas, end = heard(ANSWERS[name])
    said = "".join(delta.content for delta in deltas if isinstance(delta, LlmEvent.TextDelta))
    assert said == end.response.message.content
    arguments: dict[str, str] = {}
    for delta in deltas:
        if isinstance(delta, LlmEvent.ToolCallDelta):
            arguments[delta.call_id] = arguments.get(delta.call_id, "") + delta.arguments_fragment
    assert list(arguments.items()) == [
        (each.id, each.arguments_json) for each in end.response.tool_calls
    ]


@for_every_row(
    "name, reason",
    [
        ("text", "stop"),
        ("call", "tool_calls"),
        ("text and call", "tool_calls"),
        ("refusal", "refusal"),
        ("cut text", "length"),
        ("cut arguments", "length"),
        ("search", "stop"),
    ],
)
def test_the_finish_reason_says_why_the_answer_ends(name, reason):
    assert completed(ANSWERS[name]).finish_reason == reason


@for_every_row(
    "name, kind",
    [
        ("filter", LlmErrorKind.CONTENT_FILTERED),
        ("error event", LlmErrorKind.SERVER),
        ("wrapped error event", LlmErrorKind.RATE_LIMITED),
        ("invalid request", LlmErrorKind.BAD_REQUEST),
        ("bare error", LlmErrorKind.OVERLOADED),
        ("status of a failure", LlmErrorKind.SERVER),
        ("server error", LlmErrorKind.SERVER),
        ("rate limit", LlmErrorKind.RATE_LIMITED),
        ("too long", LlmErrorKind.CONTEXT_TOO_LONG),
        ("policy", LlmErrorKind.CONTENT_FILTERED),
    ],
)
def test_a_failure_has_its_kind(name, kind):
    with pytest.raises(StreamError) as caught:
        heard(FAILURES[name])
    error = make_stream_llm_error(caught.value.body, "openai")
    assert error.kind is kind
    assert "no reason given" not in error.text or name == "wrapped error event"


def test_what_a_filtered_answer_used_is_known():
    assembler = fresh()
    events = SseDecoder().feed(FAILURES["filter"])
    with pytest.raises(StreamError):
        [[*assembler.add_event(event)] for event in events]
    assert assembler.usage == Usage(120, 40)


def test_a_call_that_was_cut_stays_malformed():
    (cut,) = completed(ANSWERS["cut arguments"]).tool_calls
    assert cut.arguments_json == '{"command": "rm '
    empty = events_of(call("c", "bash", status="incomplete"), status="incomplete", **LIMIT)
    assert completed(empty).tool_calls[0].arguments_json == ""
    told_late = events_of(call("c", "bash", status="incomplete"))
    assert completed(told_late).tool_calls[0].arguments_json == ""
    assert completed(told_late).finish_reason == "incomplete"


def test_a_call_that_was_cut_before_its_done_events_stays_malformed():
    events = events_of(call("c", "bash"), status="incomplete", **LIMIT)
    events = without(events, ".done")
    events[-1]["response"]["output"] = []
    response_ = completed(events)
    assert response_.tool_calls[0].arguments_json == ""
    assert response_.finish_reason == "length"


def test_a_completed_response_whose_status_is_incomplete_is_cut():
    """A server of vLLM says `completed` with the status of an answer that was cut."""
    events = events_of(text("It", status="incomplete"), **LIMIT)
    events[-1]["response"]["status"] = "incomplete"
    assert completed(events).finish_reason == "length"


def test_a_reason_for_a_cut_that_nobody_knows_is_told_and_can_be_stored():
    events = events_of(text("It", status="incomplete"), **LIMIT)
    events[-1]["response"]["status"] = "incomplete"
    events[-1]["response"]["incomplete_details"] = {"reason": "half \ud800\n way"}
    assert completed(events).finish_reason == "half \ufffd way"


def test_thinking_is_shown_in_paragraphs():
    events = heard(ANSWERS["summaries"])
    shown = [event.content for event in events if isinstance(event, LlmEvent.ThinkingDelta)]
    assert "".join(shown) == "**Looking**\n\nat it\n\n**Ünd** so"


def test_plain_reasoning_text_is_shown():
    item = {"id": "r", "type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]}
    delta = {"type": "response.reasoning_text.delta", "content_index": 0, "delta": "Hm"}
    shown = [
        event
        for event in heard(events_of(opaque(item, delta), text("A")))
        if isinstance(event, LlmEvent.ThinkingDelta) and event.content
    ]
    assert shown == [LlmEvent.ThinkingDelta("Hm")]


def test_an_event_that_brings_nothing_is_a_sign_of_life():
    data = sse(("keepalive", {"type": "keepalive"}), {"type": "response.in_progress"})
    assembler = fresh()
    events = [one for event in SseDecoder().feed(data) for one in assembler.add_event(event)]
    assert events == [LlmEvent.ThinkingDelta(), LlmEvent.ThinkingDelta()]


@for_every_row("name", ANSWERS)
def test_an_answer_without_deltas_is_the_same_answer(name):
    events = [event for event in events_from(name) if not event["type"].endswith(".delta")]
    assert completed(events) == completed(ANSWERS[name])


@for_every_row("name", ANSWERS)
@for_every_row("output", [[], None])
def test_an_answer_whose_last_event_is_empty_is_the_same_answer(name, output):
    events = events_from(name)
    events[-1]["response"]["output"] = output
    assert completed(events) == completed(ANSWERS[name])


def test_of_items_that_are_done_the_last_event_may_have_fewer_and_in_any_order():
    misses = []
    for name in ANSWERS:
        output = events_from(name)[-1]["response"]["output"]
        for items in (*permutations(output), *combinations(output, max(len(output) - 1, 1))):
            events = events_from(name)
            events[-1]["response"]["output"] = list(items)
            try:
                is_same = completed(events) == completed(ANSWERS[name])
            except WireError as error:
                is_same = str(error)
            if is_same is not True:
                misses.append((name, len(items), len(output), is_same))
    assert misses == []


@for_every_row("name", ANSWERS)
def test_an_answer_of_item_events_alone_is_the_same_answer(name):
    events = [
        event
        for event in events_from(name)
        if event["type"] in ("response.output_item.done", "response.completed")
        or event["type"] == "response.incomplete"
    ]
    assert completed(events) == completed(ANSWERS[name])


@for_every_row("name", ANSWERS)
def test_an_answer_of_one_event_is_the_same_answer(name):
    assert completed(events_from(name)[-1:]) == completed(ANSWERS[name])


@for_every_row("name", ANSWERS)
def test_an_answer_whose_items_come_interleaved_is_the_same(name):
    """All items begin, then all go on: nothing moves to another place."""
    events = events_from(name)
    begun = [event for event in events if event["type"] == "response.output_item.added"]
    rest = [event for event in events if event not in begun]
    expected = completed(ANSWERS[name]).message
    got = completed([*rest[:2], *begun, *rest[2:]]).message
    assert (got.content, got.tool_calls) == (expected.content, expected.tool_calls)
    kinds = [item["type"] for item in make_input_items((got,), SOURCE)]
    assert kinds == [item["type"] for item in make_input_items((expected,), SOURCE)]


@for_every_row("name", ANSWERS)
def test_numbers_of_events_do_not_matter(name):
    events = changed(events_from(name), lambda event: event.update(sequence_number=0))
    assert completed(events) == completed(ANSWERS[name])


def test_indices_may_have_gaps_and_announcements_may_be_empty():
    """Some servers announce an item that is `null`, and never come back to it."""
    events = events_of(text("Hello"), call("c", "x", "{}"))
    apart = changed(events, lambda each: each.update(output_index=3 * each.get("output_index", 0)))
    empty = {"type": "response.output_item.added", "output_index": 1, "item": None}
    assert completed([*apart[:2], empty, *apart[2:]]) == completed(events)


def test_what_comes_after_the_end_changes_nothing():
    events = events_of(text("Hello"))
    more = [*events, *events, {"type": "error", "message": "late"}]
    assert completed(more) == completed(events)


def test_the_mark_of_another_format_is_no_end():
    events = [(event["type"], event) for event in events_of(text("Hello"))]
    assert completed(sse(*events, done=True)).message.content == "Hello"
    with pytest.raises(WireError) as caught:
        heard(sse(*events[:-1], done=True))
    assert caught.value.kind is LlmErrorKind.CUT_STREAM


def test_an_unknown_event_that_brings_an_item_is_not_ignored():
    item = {"id": "x", "type": "dream", "depth": 2}
    events = events_of(text("Hello"))
    news = {"type": "response.dream.added", "output_index": 1, "item": item}
    assert "has no end" in wrong(
        [*events[:-1], news, {**events[-1], "response": response([], "completed")}]
    )
    events[-1]["response"]["output"].append(item)
    message = completed([*events[:-1], news, events[-1]]).message
    assert make_input_items((message,), SOURCE)[-1] == item


def test_reasoning_is_kept_as_its_done_event_says():
    """Its announcement may hold a part of the encrypted content, and the last event another."""
    events = events_of(reasoning(encrypted="whole"), call("c", "x", "{}"))
    events[-1]["response"]["output"][0]["encrypted_content"] = "other"
    (sent, _) = make_input_items((completed(events).message,), SOURCE)
    assert sent == {"type": "reasoning", "summary": [], "encrypted_content": "whole"}


def test_a_refusal_goes_back_as_one():
    message = completed(events_of(refusal("No", "."))).message
    assert message.content == "No."
    (sent,) = make_input_items((message,), SOURCE)
    assert sent["content"] == [{"type": "refusal", "refusal": "No."}]
    (elsewhere,) = make_input_items((message,), "other:model")
    assert elsewhere["content"][0]["type"] == "output_text"


def test_what_a_message_says_beside_its_text_may_come_with_the_last_event():
    events = events_of(text("A.", phase="commentary"))
    for event in events:
        if "item" in event:
            event["item"] = {"type": "message"}
    (sent,) = make_input_items((completed(events).message,), SOURCE)
    assert sent["phase"] == "commentary"


def test_half_a_surrogate_pair_can_be_stored():
    data = wire(events_of(text("a\ud83d", "\ude00b"), call("c", "x", '{"a": "\ud83d"}')))
    response_ = completed(data)
    assert response_.message.content == "a😀b"
    assert response_.tool_calls[0].arguments_json.encode()
    escaped = wire(events_of(text("x-y"))).replace(b"x-y", b"x\\ud83dy")
    assert completed(escaped).message.content == "x\ufffdy"


def test_no_part_of_a_usage_is_more_than_the_whole():
    told = {
        **USAGE,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 21},
        "output_tokens_details": {"reasoning_tokens": 41},
    }
    assert parse_usage(told) == Usage(120, 40, cache_read_tokens=100)


def test_cached_and_reasoning_tokens_are_part_of_the_usage():
    assert completed(ANSWERS["cached"]).usage == Usage(
        9000, 300, cache_read_tokens=8192, cache_write_tokens=512, reasoning_tokens=256
    )


@for_every_row("usage", [None, "x", {}, {"input_tokens": -5, "output_tokens": 1}])
def test_a_missing_usage_is_estimated(usage):
    told = completed(events_of(text("x" * 41), usage=usage)).usage
    assert told == Usage(100, 11, estimated=True)


def test_what_was_streamed_before_a_cut_is_estimated() -> None:
    assembler = ResponsesAssembler("openai:m", salt=1, input_size=40)
    assert assembler.usage is None
    *events, _ = SseDecoder().feed(wire(events_of(text("x" * 40))))
    for event in events:
        list(assembler.add_event(event))
    assert assembler.usage == Usage(10, 10, estimated=True)


def _numbered_otherwise(events, ends):
    """The events of these kinds with the parts of messages counted from 1, as Bedrock does."""

    def shift(event):
        if event["type"].endswith(ends) and "content_index" in event:
            event["content_index"] += 1

    return changed(events, shift)


RENUMBERED = [
    ("output_text.delta",),
    ("output_text.delta", "output_text.done"),
    ("output_text.delta", "output_text.done", "content_part.added", "content_part.done"),
    ("output_text.delta", "content_part.done"),
]


@for_every_row("ends", RENUMBERED)
def test_the_item_that_is_done_says_which_parts_a_message_has(ends):
    """Recorded from gpt-oss behind Bedrock: deltas of part 1, the finished item has part 0."""
    told = (reasoning("hm"), text("I", " look."), call("c", "bash", "{}"))
    events = events_of(*told)
    moved = _numbered_otherwise(events, ends)
    for given in (moved, without(moved, "content_part.added", "content_part.done")):
        assert gist(completed(given).message) == gist(completed(events).message)
        again = make_input_items((completed(given).message,), SOURCE)
        assert again == make_input_items((completed(events).message,), SOURCE)


def test_what_the_item_that_is_done_contradicts_is_still_refused():
    moved = _numbered_otherwise(events_of(text("I", " look.")), RENUMBERED[1])

    def say(event):
        if event["type"].endswith(("item.done", "completed")):
            item = event.get("item") or event["response"]["output"][0]
            item["content"][0]["text"] = "You look."

    assert "streamed before" in wrong(changed(moved, say))

    def leave_out(event):
        if event["type"].endswith(("item.done", "completed")):
            item = event.get("item") or event["response"]["output"][0]
            item["content"] = [{"type": "other"}]

    assert "missing in the end" in wrong(changed(moved, leave_out))
