"""The public names are those of the committed list; adding or removing one is a decision."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import treadle
from case_tables import for_every_row

LISTED = (Path(__file__).parent / "public-api.txt").read_text(encoding="utf-8").splitlines()


def test_the_public_names_are_the_listed_ones() -> None:
    assert sorted(treadle.__all__) == LISTED


def test_the_list_is_sorted_and_holds_no_name_twice() -> None:
    assert sorted(set(LISTED)) == LISTED


@for_every_row("name", LISTED)
def test_each_listed_name_is_there_and_is_what_it_is_called(name: str) -> None:
    value = getattr(treadle, name)
    assert getattr(treadle, name) is value
    assert name in dir(treadle)
    if inspect.isclass(value):
        assert value.__name__ == name
        assert inspect.getdoc(value)


def test_a_name_that_is_not_public_is_not_found() -> None:
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = treadle.nonsense


def test_the_version_is_a_version() -> None:
    assert treadle.__version__.count(".") == 2
