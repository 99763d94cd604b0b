"""Server-sent events: the WHATWG rules, whatever the bytes are cut into."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.core.llm import LlmErrorKind
from treadle.models.failures import WireError
from treadle.models.wire.sse import EVENT_SIZE_MAX, SseDecoder, SseEvent

lines = st.sampled_from(
    [
        *(b"data: x", b"data:y", b"data", b"data:  two", b"event: go", b"event", b": comment"),
        *(b"id: 7", b"retry: 5", b"unknown: z", b"", b"", "data: 日\u2028本".encode()),
        b"data: \xff\xfe",
    ]
)
bodies = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


def read(data: bytes, *cuts: int) -> list[tuple[str, bytes]]:
    decoder = SseDecoder()
    edges = [0, *sorted(cuts), len(data)]
    found: list[SseEvent] = []
    for start, end in pairwise(edges):
        found += decoder.feed(data[start:end])
    return [(event.event, event.data) for event in found]


@given(bodies, st.lists(st.integers(0, 400), max_size=40))
def test_the_same_events_come_out_however_the_bytes_are_cut(body: bytes, cuts: list[int]) -> None:
    assert read(body, *cuts) == read(body) == read(body, *range(len(body)))


@for_every_row("end", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_any_of_three_ways(end: bytes) -> None:
    body = end.join([b"event: go", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert read(body) == [("go", b"1\n2"), ("message", b"3")]
    assert read(body, *range(len(body))) == [("go", b"1\n2"), ("message", b"3")]


def test_a_line_separator_of_unicode_ends_no_line() -> None:
    data = "data: a\u2028b\u2029c\u0085d\x0ce\n\n".encode()
    assert read(data) == [("message", "a\u2028b\u2029c\u0085d\x0ce".encode())]


def test_one_space_after_the_colon_is_not_part_of_the_value() -> None:
    assert read(b"data:  two\n\n") == [("message", b" two")]
    assert read(b"data:none\n\n") == [("message", b"none")]


def test_comments_and_events_without_data_are_no_events() -> None:
    assert read(b": hi\n\nevent: ping\n\ndata: x\n\n") == [("message", b"x")]


def test_a_byte_order_mark_at_the_beginning_is_skipped_and_nowhere_else() -> None:
    assert read(b"\xef\xbb\xbfdata: x\n\n") == [("message", b"x")]
    assert read(b"data: x\n\n\xef\xbb\xbfdata: y\n\n") == [("message", b"x")]


def test_an_event_that_has_not_ended_does_not_come_out() -> None:
    assert read(b"data: x\n\ndata: y\n") == [("message", b"x")]


def test_an_event_without_end_is_refused_before_it_fills_the_memory() -> None:
    decoder = SseDecoder()
    for _ in range(EVENT_SIZE_MAX // 2**16):
        decoder.feed(b"x" * 2**16)
    with pytest.raises(WireError) as caught:
        decoder.feed(b"x")
    assert caught.value.kind is LlmErrorKind.INVALID_RESPONSE


def test_comments_without_end_are_only_a_sign_of_life() -> None:
    decoder = SseDecoder()
    comment = b": " + b"x" * 2**16 + b"\n"
    for _ in range(EVENT_SIZE_MAX // 2**16 + 2):
        assert decoder.feed(comment) == []
    assert decoder.feed(b"data: x\n\n") == [SseEvent("message", b"x")]
