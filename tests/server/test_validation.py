"""JSON that is refused because not everybody reads it the same way, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.api.error_codes import ErrorCode
from treadle.server.refusals import Refusal
from treadle.server.threads.json_validation import DEPTH_MAX, check_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from('ab:"\\{}[],\0'), inner),
    max_leaves=30,
)


def is_refused(data: bytes) -> bool:
    try:
        check_json(data)
    except Refusal as refusal:
        return refusal.code is ErrorCode.BAD_REQUEST
    return False


@settings(max_examples=40)
@given(VALUES, st.booleans())
def test_all_that_json_can_say_passes(value: Any, is_ascii: bool) -> None:
    assert not is_refused(json.dumps(value, ensure_ascii=is_ascii).encode())


@settings(max_examples=40)
@given(VALUES, VALUES, st.sampled_from(["a", 'a"', "\\", ":"]))
def test_a_name_that_stands_twice_is_seen_anywhere(one: Any, other: Any, name: str) -> None:
    key = json.dumps(name)
    data = f'[{json.dumps(one)},{{"x":{{{key}:{json.dumps(one)},{key}:{json.dumps(other)}}}}}]'
    assert is_refused(data.encode())


@for_every_row(
    "data",
    [
        b"",
        b" ",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"[1,]",
        b"{'a':1}",
        b"1 2",
        b"01",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\xc0\x80"',
        b'"\0"',
        b'"\n"',
        b'"\\ud800"',
        b'"\\udc00"',
        b'"\\ud800\\u0041"',
        b'{"\\ud800":1}',
        b'{"a":1,"\\u0061":2}',
        b"18446744073709551616",
        b"-9223372036854775809",
        b"[1,{}]".replace(b"{}", b"9" * 5000),
        b"1e999",
        b"-1e999",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
    ],
)
def test_what_readers_take_differently_is_refused(data: bytes) -> None:
    assert is_refused(data)


@for_every_row(
    "data",
    [
        b'"\\u0000"',
        b'"\\ud83e\\uddf5"',
        b'"[[[[{{{{:::\\"\\\\"',
        b"18446744073709551615",
        b"-9223372036854775808",
        b"0.1234567890123456789012345",
        b"12345678901234567890123.5",
        b"12345678901234567890123e-9",
        b"1e-999",
        b" [ ] ",
    ],
)
def test_what_is_only_unusual_passes(data: bytes) -> None:
    assert not is_refused(data)


@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [("[", "]", 1), ('{"a":', "}", 1), ('[0,{"a":"[",":":', ',"c":"}"}]', 2)],
)
def test_the_depth_is_counted_exactly(opening: str, closing: str, levels: int) -> None:
    for count in range(1, DEPTH_MAX + 2):
        data = opening * count + "1" + closing * count
        assert is_refused(data.encode()) == (count * levels > DEPTH_MAX)
