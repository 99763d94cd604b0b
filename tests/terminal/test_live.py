"""Lines that are drawn again and again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from treadle.core.messages import ToolCall
from treadle.terminal.call_text import RunningCall
from treadle.terminal.live_lines import call_lines, crop_text, last_lines, wrap_text
from treadle.thread.safe_text import sanitize_text


@given(st.text(max_size=300), st.integers(2, 40))
@settings(max_examples=100, deadline=None)
def test_text_is_wrapped_without_loss_and_never_too_wide(text: str, width: int) -> None:
    lines = list(wrap_text(text, width))
    assert all(get_cwidth(line) <= width for line in lines)
    whole = sanitize_text(text).replace("\t", "    ")
    assert "".join(lines).replace(" ", "") == whole.replace(" ", "").replace("\n", "")


@given(st.text("ab \n", max_size=120), st.integers(2, 20))
@settings(max_examples=100, deadline=None)
def test_text_is_wrapped_in_the_same_way_whatever_its_letters(text: str, width: int) -> None:
    other = list(wrap_text(text.replace("a", "\N{CYRILLIC SMALL LETTER ER}"), width))
    assert [line.replace("\N{CYRILLIC SMALL LETTER ER}", "a") for line in other] == list(
        wrap_text(text, width)
    )


def test_words_are_kept_whole_where_they_fit() -> None:
    assert list(wrap_text("one two  three fourfive\n", 8)) == ["one two ", "three", "fourfive", ""]
    assert list(wrap_text("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 5, 4)) == [
        *("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 2,) * 2,
        "\N{CJK UNIFIED IDEOGRAPH-6F22}",
    ]


def test_the_last_lines_are_those_that_are_nearest() -> None:
    assert last_lines("word " * 5 + "end", 20, 1) == ["word end"]
    assert last_lines("a\nb\nc", 20, 2) == ["b", "c"]


def test_what_does_not_fit_is_cut_with_a_mark() -> None:
    assert crop_text("abc", 3) == "abc"
    assert crop_text("abcd", 3) == "ab…"
    assert crop_text("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 3, 4) == "\N{CJK UNIFIED IDEOGRAPH-6F22}…"
    assert crop_text("abc", 0) == ""


def test_of_many_calls_some_are_drawn_and_the_others_are_counted() -> None:
    calls = [RunningCall(ToolCall(str(n), "look"), 0.0) for n in range(20)]
    lines = ["".join(text for _, text in line) for line in call_lines(calls, 3.0, 40)]
    assert len(lines) == 9
    assert lines[0][1:] == " look  3.0 s"
    assert lines[-1] == "  and 12 more"
