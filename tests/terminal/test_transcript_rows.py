"""Rows of texts of any length: none lost, none made before it is seen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from case_tables import for_every_row
from processor_time import slow
from treadle.terminal.transcript_rows import (
    LINE_SIZE_MAX,
    SEARCH_SIZE,
    FixedRows,
    Rows,
    TextRows,
    says,
)

LETTERS = st.text(st.sampled_from("ab  \t\n漢é\u0301👩\x1b\udc80"), max_size=60)


def places(rows: Rows) -> list[int]:
    found = [rows.first]
    while (following := rows.after(found[-1])) is not None:
        found.append(following)
    return found


def text_of(rows: Rows, place: int) -> str:
    return "".join(text for _, text in rows.line(place))


def find(rows: Rows, words: str, start: int | None = None, *, is_back: bool = False) -> int | None:
    return rows.find(words, start, lambda: False, is_back=is_back)


@given(LETTERS, st.integers(2, 12))
@settings(max_examples=200, deadline=None)
def test_rows_hold_all_of_a_text_in_both_directions(text: str, width: int) -> None:
    rows = TextRows(text.encode("utf-8", "surrogatepass"), width)
    found = places(rows)
    assert found[-1] == rows.last
    assert [rows.before(place) for place in found] == [None, *found[:-1]]
    lines = [text_of(rows, place) for place in found]
    for line in lines:
        assert len(line) < 2 or sum(max(0, get_cwidth(one)) for one in line) <= max(width, 4)
        assert "\x1b" not in line
    told = text.rstrip("\n").replace("\n", "").replace("\t", "    ").replace("\x1b", "\ufffd")
    assert "".join(lines).replace("\ufffd", "") == told.replace("\udc80", "").replace("\ufffd", "")


def test_lines_are_broken_where_they_end_and_where_a_row_is_full() -> None:
    rows = TextRows(b"one\r\n\r\ntwo three\rfour\n\n", 5)
    assert [text_of(rows, place) for place in places(rows)] == [
        *("one", "", "two t", "hree", "four")
    ]
    assert rows.line_count == 4
    assert [text_of(TextRows(b"", 5), place) for place in places(TextRows(b"", 5))] == [""]
    assert TextRows(b"x", 5, "dim", indent=2).line(0) == [("dim", "  x")]


@pytest.mark.parametrize("size", [LINE_SIZE_MAX - 1, LINE_SIZE_MAX, 3 * LINE_SIZE_MAX])
def test_a_line_without_an_end_is_walked_from_both_sides(size: int) -> None:
    rows = TextRows("é".encode() * (size // 2), 80)
    place, seen = rows.last, 0
    while place:
        seen += len(text_of(rows, place))
        before = rows.before(place)
        assert before is not None
        assert before < place
        place = before
    assert seen + 80 >= size // 2


def test_words_are_found_in_both_directions_and_over_the_borders_of_what_is_searched() -> None:
    text = b"x" * (SEARCH_SIZE - 3) + b"Needle" + b"\n" * 9 + b"y" * SEARCH_SIZE + b"\na needle\n"
    rows = TextRows(text, 80)
    first, last = find(rows, "needle"), find(rows, "needle", is_back=True)
    assert first is not None
    assert last == len(text) - len(b"a needle\n")
    assert "Nee" in text_of(rows, first) + text_of(rows, rows.after(first) or 0)
    assert find(rows, "needle", first) == last
    assert find(rows, "needle", last) is None
    assert find(rows, "needle", last, is_back=True) == first
    assert find(rows, "needle", first, is_back=True) is None
    assert find(rows, "Needle", first) is None  # capitals count if there are any
    assert rows.find("needle", None, lambda: True, is_back=False) is None


def test_rows_that_are_made_already_are_searched_by_what_they_say() -> None:
    rows = FixedRows([[("", "a "), ("bold", "word")], [("", "x")], [("", "A WORD")]])
    assert [find(rows, "a word"), find(rows, "a word", 0), find(rows, "a word", 2)] == [0, 2, None]
    assert find(rows, "a word", 2, is_back=True) == 0
    assert (rows.before(0), rows.after(2), rows.last) == (None, None, 2)
    assert says("Grün", "grün")


@for_every_row("line", [b"a line of output 123\n", b"x", "漢".encode(), b"\n"])
def test_the_end_of_a_text_is_seen_without_laying_it_out_however_long_it_is(line: bytes) -> None:
    def look(data: bytes) -> None:
        rows = TextRows(data, 80)
        place: int | None = rows.last
        for _ in range(20):
            if place is not None:
                rows.line(place)
                place = rows.before(place)
        assert find(rows, "nowhere") is None

    assert slow(look, {"text": line * (8_000_000 // len(line))}) == []
