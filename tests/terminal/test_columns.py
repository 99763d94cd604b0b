"""Rows in columns: nothing is wider than the line, and what matters most is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.columns import FIRST_WIDTH_MIN, crop, crop_start, fit_columns, text_width

WORDS = st.text("ab 織é\N{COMBINING ACUTE ACCENT}", max_size=60)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5), st.integers(1, 120))
def test_no_row_is_wider_than_its_line(rows: list[tuple[str, str, str]], width: int) -> None:
    for text, rest in fit_columns(rows, width, (1, 2)):
        assert text_width(text + rest) <= width


@given(WORDS, st.integers(0, 70))
def test_what_is_cropped_fits_and_says_so(text: str, width: int) -> None:
    for cropped, is_part in (
        (crop(text, width), text.startswith),
        (crop_start(text, width), text.endswith),
    ):
        assert text_width(cropped) <= width
        assert cropped == text or width == 0 or is_part(cropped.strip("…"))
        assert cropped == text or width == 0 or "…" in cropped


def test_first_cells_are_padded_so_that_the_others_stand_below_one_another() -> None:
    rows = [("a", "x", "", "1"), ("織機", "", "", "22")]
    assert fit_columns(rows, 80) == [("a   ", "  x  1"), ("織機", "     22")]


def test_a_narrow_line_drops_columns_before_it_takes_the_first_cell_its_place() -> None:
    rows = [("t" * 50, "folder", "state", "12345678")]
    ((text, rest),) = fit_columns(rows, 100, (1, 2))
    assert rest == "  folder  state  12345678"
    ((text, rest),) = fit_columns(rows, 44, (1, 2))
    assert rest == "  state  12345678"
    assert text_width(text) >= FIRST_WIDTH_MIN
    ((text, rest),) = fit_columns(rows, 30, (1, 2))
    assert (rest, text_width(text)) == ("  123…", FIRST_WIDTH_MIN)
