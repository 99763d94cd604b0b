"""A table of cases that is one test tells every row that misses, and whatever it misses by."""

from __future__ import annotations

import pytest

from case_tables import for_every_row


@for_every_row("word, size", [("a", 1), ("bb", 3), ("cc", 2), ("", None), ("dddd", 2)])
def check_sizes(word: str, size: int) -> None:
    assert len(word) == size + 0


@for_every_row("number", [1, 2, 3])
async def check_small(number: int, fixture: int) -> None:
    with pytest.raises(ValueError, match="big"):
        raise ValueError("big" if number < fixture else "small")


def test_every_row_that_misses_is_told_and_no_other() -> None:
    with pytest.raises(pytest.fail.Exception) as told:
        check_sizes()
    text = str(told.value)
    assert text.startswith("3 rows miss\n")
    assert "word='bb', size=3" in text
    assert "word='dddd', size=2" in text
    assert "TypeError" in text
    assert "'a'" not in text
    assert "'cc'" not in text


async def test_fixtures_and_coroutines_are_passed_on() -> None:
    await check_small(fixture=4)
    with pytest.raises(pytest.fail.Exception, match="1 rows miss\nnumber=3"):
        await check_small(fixture=3)


def test_a_table_without_rows_and_a_row_of_another_length_are_refused() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        for_every_row("word", [])
    with pytest.raises(ValueError, match="zip"):
        for_every_row("word, size", [("a",)])
    with pytest.raises(AssertionError, match="does not take all"):
        for_every_row("word, other", [("a", 1)])(check_sizes)
