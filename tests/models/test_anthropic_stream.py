"""What the events of a stream become, and that no broken stream becomes a message."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from case_tables import for_every_row
from models.anthropic_streams import (
    FAILED,
    PING,
    REDACTED_DATA,
    SIGNATURE,
    STREAMS,
    call,
    closes,
    delta,
    error,
    opens,
    start,
    stop,
    text,
    thinking,
)
from models.loopback import sse
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmResponse, Usage
from treadle.core.messages import ToolCall
from treadle.models.anthropic.stream import AnthropicAssembler
from treadle.models.failures import WireError, make_llm_error, make_stream_llm_error
from treadle.models.layout import list_blocks
from treadle.models.wire.sse import SseDecoder
from treadle.models.wire.stream import StreamError

ME = "anthropic:claude-test"
LENGTH = 402
"""Characters of the imagined request."""


def assemble(data: bytes) -> list[Any]:
    """The events that a stream becomes; ends as `wire.stream_events` ends."""
    assembler = AnthropicAssembler(ME, 3, LENGTH)
    events: list[Any] = []
    try:
        for event in SseDecoder().feed(data):
            events += assembler.add_event(event)
            if assembler.is_done:
                break
        events += assembler.end()
    except StreamError as failure:
        events.append(
            LlmEvent.Error(make_stream_llm_error(failure.body, "anthropic", assembler.usage))
        )
    except WireError as failure:
        events.append(LlmEvent.Error(make_llm_error(failure, "anthropic", usage=assembler.usage)))
    return events


def response(data: bytes) -> LlmResponse:
    end = assemble(data)[-1]
    assert isinstance(end, LlmEvent.Completed), end
    return end.response


def failure(data: bytes) -> LlmError:
    end = assemble(data)[-1]
    assert isinstance(end, LlmEvent.Error), end
    return end.error


@for_every_row("name", sorted(STREAMS.keys() - FAILED.keys()))
def test_a_whole_stream_is_a_message(name: str) -> None:
    assert response(STREAMS[name]).message.role == "assistant"


@for_every_row("name", STREAMS)
def test_a_stream_cut_at_any_byte_is_never_a_message(name: str) -> None:
    data = STREAMS[name]
    for size in range(len(data)):
        *deltas, end = assemble(data[:size])
        assert type(end) is LlmEvent.Error
        assert not any(isinstance(each, LlmEvent.Completed | LlmEvent.Error) for each in deltas)
        assert end.error.kind.value == "cut_stream", size
    assert type(assemble(data)[-1]) is (LlmEvent.Error if name in FAILED else LlmEvent.Completed)


def test_text_is_streamed_as_it_comes() -> None:
    events = assemble(STREAMS["emoji"])
    pieces = [event.content for event in events if isinstance(event, LlmEvent.TextDelta)]
    assert pieces == ["Grüße, 世", "界! 👩\u200d👩", "\u200d👧 🎉", "\u2028 done"]
    assert response(STREAMS["emoji"]).message.native is None


def test_calls_keep_their_order_and_their_arguments_byte_for_byte() -> None:
    message = response(STREAMS["parallel tools"]).message
    assert message.content == "I will look at both."
    assert message.tool_calls == (
        ToolCall("toolu_01A", "read_file", '{"path": "src/ünï.py", "limit": 1.0}'),
        ToolCall("toolu_01B", "bash", '{"command": "ls -la | wc"}'),
        ToolCall("toolu_01C", "list_files", "{}"),
    )
    assert message.native is None


def test_thinking_is_shown_and_kept_with_its_signature() -> None:
    events = assemble(STREAMS["thinking"])
    shown = "".join(each.content for each in events if isinstance(each, LlmEvent.ThinkingDelta))
    said = "The person wants a file.\nSo: read it. 🤔"
    assert shown == said
    first, *rest = list_blocks(response(STREAMS["thinking"]).message, ME)
    assert first == {"type": "thinking", "thinking": said, "signature": SIGNATURE}
    assert rest[0] == "I'll read it."


def test_redacted_thinking_is_kept_where_it_stood() -> None:
    blocks = list_blocks(response(STREAMS["redacted thinking"]).message, ME)
    kinds = [each["type"] if isinstance(each, dict) else each for each in blocks]
    assert kinds == ["redacted_thinking", "thinking", "redacted_thinking", "No."]
    assert blocks[0] == {"type": "redacted_thinking", "data": REDACTED_DATA}


@for_every_row(
    "name, reason",
    [
        ("text", "stop"),
        ("two texts", "stop"),
        ("tool", "tool_calls"),
        ("max_tokens in text", "length"),
        ("paused", "pause_turn"),
    ],
)
def test_the_reason_of_the_end_is_told_in_our_words(name: str, reason: str) -> None:
    assert response(STREAMS[name]).finish_reason == reason


def test_a_full_context_window_is_a_limit_of_length() -> None:
    data = sse(start(), *text(0, "a"), *stop("model_context_window_exceeded"))
    assert response(data).finish_reason == "length"


def test_an_unknown_reason_is_told_as_it_came_and_trusts_no_empty_call() -> None:
    came = response(sse(start(), *call(0, "a", "bash"), *stop("moon\nphase" * 9)))
    assert came.finish_reason == ("moon phase" * 9)[:40]
    assert came.tool_calls[0].arguments_json == ""


def test_a_call_that_was_cut_never_has_arguments_that_run() -> None:
    cut = response(STREAMS["max_tokens in arguments"]).tool_calls[0]
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(cut.arguments_json)
    empty = sse(start(), *call(0, "a", "deploy"), *stop("max_tokens"))
    assert response(empty).tool_calls[0].arguments_json == ""


def test_arguments_that_come_with_the_beginning_of_a_call_count() -> None:
    begins = opens(0, type="tool_use", id="a", name="bash", input={"command": "ls"})
    came = response(sse(start(), begins, closes(0), *stop("tool_use")))
    assert came.tool_calls == (ToolCall("a", "bash", '{"command":"ls"}'),)


def test_a_refusal_is_an_error_that_says_why_on_one_line_and_what_it_cost() -> None:
    refused = failure(STREAMS["refusal"])
    assert refused.kind.value == "content_filtered"
    assert refused.usage == Usage(472, 3)
    assert "cyber: This request was declined under the usage policy." in refused.message
    bare = failure(sse(start(), *stop("refusal")))
    assert bare.message == "anthropic: the model declined to answer"


def test_an_error_in_the_stream_tells_its_kind_and_the_usage_so_far() -> None:
    assert failure(STREAMS["overloaded"]) == LlmError(
        failure(STREAMS["overloaded"]).kind,
        "anthropic: Overloaded",
        usage=Usage(472, 3, estimated=True),
    )
    assert failure(STREAMS["overloaded"]).kind.value == "overloaded"


@for_every_row(
    "event, kind",
    [
        (error("rate_limit_error", "slow"), "rate_limited"),
        (error("api_error", "oops"), "server"),
        (error("invalid_request_error", "prompt is too long: 2 > 1"), "context_too_long"),
        (error("brand_new_error", "?"), "server"),
        (("error", "upstream went away"), "server"),
        (("", {"type": "error", "error": {"type": "timeout_error"}}), "timeout"),
        (("error", "[1, 2]"), "server"),
    ],
)
def test_every_shape_of_error_has_a_kind(event: Any, kind: str) -> None:
    assert failure(sse(start(), event)).kind.value == kind


def test_pings_and_unknown_events_are_signs_of_life() -> None:
    events = assemble(STREAMS["pings"])
    assert events.count(LlmEvent.ThinkingDelta()) >= STREAMS["pings"].count(b"event: ping")
    assert response(STREAMS["pings"]).message.content == "ab"


def test_unknown_blocks_stay_as_they_began() -> None:
    blocks = list_blocks(response(STREAMS["unknown blocks"]).message, ME)
    assert blocks == (
        {"type": "hologram", "projection": {"rays": [1, 2.5, None], "note": "é"}},
        "See above.",
        {
            "type": "server_tool_use",
            "id": "srvtoolu_01",
            "name": "web_search",
            "input": {"query": "weather"},
            "caller": None,
        },
    )


def test_usage_counts_what_came_from_the_cache_and_went_into_it() -> None:
    assert response(STREAMS["cache"]).usage == Usage(
        13 + 301 + 9001, 7, cache_read_tokens=9001, cache_write_tokens=301
    )
    assert response(STREAMS["thinking"]).usage == Usage(472, 89, reasoning_tokens=41)


@for_every_row("nonsense", [-1, True, 2**53 + 1, "12", 1.5, None, [3], float("nan")])
def test_a_count_that_is_none_is_never_stored(nonsense: Any) -> None:
    usage = {
        "output_tokens": nonsense,
        "input_tokens": nonsense,
        "cache_read_input_tokens": nonsense,
        "cache_creation_input_tokens": nonsense,
        "output_tokens_details": {"thinking_tokens": nonsense},
    }
    said = response(sse(start(), *text(0, "a"), *stop(**usage))).usage
    assert said == Usage(472, 2, estimated=True)


@for_every_row("details", [7, [], "x", {}, None])
def test_details_of_any_shape_are_survived(details: Any) -> None:
    data = sse(start(), *text(0, "a"), *stop(output_tokens_details=details))
    assert response(data).usage == Usage(472, 89)


def test_the_count_at_the_beginning_is_not_taken_for_that_of_the_whole_answer() -> None:
    data = sse(start(), *text(0, "1234" * 20), *stop(output_tokens=None))
    assert response(data).usage == Usage(472, 20, estimated=True)


def test_a_usage_that_is_missing_is_estimated_and_says_so() -> None:
    body = {"type": "message_start", "message": {"usage": None, "content": []}}
    reason = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": "none"}
    data = sse(
        ("message_start", body),
        *thinking(0, "1234"),
        *text(1, "56789"),
        reason,
        {"type": "message_stop"},
    )
    assert response(data).usage == Usage(101, 3, estimated=True)


def test_half_a_surrogate_pair_is_joined_with_its_other_half_or_replaced() -> None:
    halves = [delta(0, "text_delta", text=half) for half in ("\ud83d", "\ude00 and \ud800")]
    events = (start(), opens(0, type="text", text=""), *halves, closes(0), *stop())
    escaped = b"".join(sse((name, json.dumps(body))) for name, body in events)
    assert b"\\ud83d" in escaped
    assert response(escaped).message.content == "😀 and \ufffd"
    assert response(sse(*events)).message.content == "😀 and \ufffd"


BEGUN = (start(), opens(0, type="text", text=""))
CALL = opens(0, type="tool_use", id="a", name="bash", input={})
THOUGHT = opens(0, type="thinking", thinking="", signature="")


_FIRST = start()[1]["message"]
ANOTHER = ("message_start", {"type": "message_start", "message": {**_FIRST, "id": "msg_02"}})


@for_every_row(
    "events",
    [
        [*text(0, "a"), *stop()],
        stop(),
        [start(), ANOTHER],
        [start(), *text(0, "a"), ANOTHER, *stop()],
        [*BEGUN, opens(0, type="text", text=""), closes(0), *stop()],
        [start(), *text(1, "a"), *stop()],
        [start(), *text(0, "a"), *text(2, "b"), *stop()],
        [start(), *text(0, "a"), *text(0, "b"), *stop()],
        [start(), *text(-1, "a"), *stop()],
        [start(), *text(True, "a"), *stop()],
        [start(), *text(0.0, "a"), *stop()],
        [start(), delta(0, "text_delta", text="a"), *stop()],
        [*BEGUN, delta(1, "text_delta", text="a"), closes(0), *stop()],
        [*BEGUN, closes(0), delta(0, "text_delta", text="a"), *stop()],
        [*BEGUN, closes(0), closes(0), *stop()],
        [start(), closes(0), *stop()],
        [*BEGUN, *stop()],
        [start(), *text(0, "a"), stop()[1]],
        [start(), *text(0, "a"), *stop(None)],
        [start(), *text(0, "a"), stop()[0], *text(1, "b"), stop()[1]],
        [*BEGUN, stop()[0], delta(0, "text_delta", text="a"), closes(0), stop()[1]],
        [*BEGUN, delta(0, "input_json_delta", partial_json="{}"), closes(0), *stop()],
        [*BEGUN, delta(0, "thinking_delta", thinking="hm"), closes(0), *stop()],
        [start(), CALL, delta(0, "text_delta", text="a"), closes(0), *stop("tool_use")],
        [start(), CALL, delta(0, "signature_delta", signature="a"), closes(0), *stop("tool_use")],
        [start(), THOUGHT, delta(0, "text_delta", text="a"), closes(0), *stop()],
        [*BEGUN, delta(0, "text_delta", text=7), closes(0), *stop()],
        [*BEGUN, delta(0, ["text_delta"], text="a"), closes(0), *stop()],
        [*BEGUN, ("", {"type": "content_block_delta", "index": 0}), closes(0), *stop()],
        [start(), ("", {"type": "content_block_start", "index": 0}), *stop()],
        [start(), opens(0), *stop()],
        [start(), opens(0, type="tool_use", id=7, name="bash"), closes(0), *stop()],
        [start(), *text(0, "a"), ("", {"type": "message_delta"}), stop()[1]],
        [("message_start", {"type": "message_start"}), *stop()],
        [("message_start", {"type": "message_start", "message": {"content": ["a"]}}), *stop()],
        [start(), "not JSON at all", *stop()],
        [start(), "[1]", *stop()],
        [start(), "7", *stop()],
        [start(), "[" * 100_000, *stop()],
    ],
)
def test_what_contradicts_itself_is_a_typed_error_and_never_a_message(events: Any) -> None:
    wrong = failure(sse(*events))
    assert wrong.kind.value == "invalid_response"
    assert "Error" not in wrong.message


def test_events_after_the_end_are_refused() -> None:
    assembler = AnthropicAssembler(ME, 0, 0)
    *whole, late = SseDecoder().feed(STREAMS["text"] + sse(*text(1, "more")[:1]))
    for event in whole:
        list(assembler.add_event(event))
    assert list(assembler.add_event(SseDecoder().feed(sse(PING))[0])) == [LlmEvent.ThinkingDelta()]
    with pytest.raises(WireError, match="after the end"):
        list(assembler.add_event(late))


def test_bytes_that_are_no_utf8_are_an_invalid_response() -> None:
    data = sse(start()) + b'data: {"type": "ping\xff"}\n\n'
    assert failure(data).kind.value == "invalid_response"


def test_the_type_in_the_data_decides_where_an_event_has_no_name() -> None:
    data = b"".join(sse(body) for _, body in (start(), *text(0, "a"), *stop()))
    assert response(data).message.content == "a"


def test_what_was_streamed_before_a_cut_is_estimated() -> None:
    """`message_start` counts what is read; of what is written it knows nothing yet."""
    said = (*thinking(0, "1234" * 10), *text(1, "1234" * 20))
    assert failure(sse(start(), *said)).usage == Usage(472, 30, estimated=True)
    body = {"type": "message_start", "message": {"usage": None, "content": []}}
    assert failure(sse(("message_start", body), *said)).usage == Usage(101, 30, estimated=True)
    assert failure(sse(("message_start", body))).usage is None
