"""Streams damaged at random: always one end, and a valid message if there is one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from models.hostile.formats import FORMATS, heard, proper
from models.hostile.fuzz import changes, damaged
from models.loopback import pieces
from treadle.core.llm import LlmResponse

CALM = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
LONG = settings(CALM, max_examples=20_000, derandomize=False)


def check_damaged(name: str, number: int, done: list[tuple[Any, ...]], size: int) -> None:
    wire = FORMATS[name]
    streams = list(wire.streams.values())
    data = damaged(wire, streams[number % len(streams)], done)
    end = proper(wire, heard(wire, *pieces(data, size)))
    event("answer" if isinstance(end, LlmResponse) else end.kind.value)


@pytest.mark.parametrize("name", FORMATS)
@CALM
@given(st.integers(0, 99), changes(), st.sampled_from([1, 7, 64, 10**6]))
def test_a_damaged_stream_has_one_end_and_a_valid_message_or_a_typed_error(
    name: str, number: int, done: list[tuple[Any, ...]], size: int
) -> None:
    check_damaged(name, number, done, size)


@pytest.mark.torture
@pytest.mark.parametrize("name", FORMATS)
@LONG
@given(st.integers(0, 99), changes(), st.sampled_from([1, 7, 64, 10**6]))
def test_many_more_damaged_streams_have_one_end(
    name: str, number: int, done: list[tuple[Any, ...]], size: int
) -> None:
    check_damaged(name, number, done, size)


@pytest.mark.parametrize("name", FORMATS)
@CALM
@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes_have_one_end(name: str, data: bytes, is_event: bool) -> None:
    wire = FORMATS[name]
    proper(wire, heard(wire, b"data: " + data + b"\n\n" if is_event else data))
