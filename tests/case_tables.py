"""A table of cases as one test: every row is tried, and all rows that miss are told at its end.

For what answers at once: a test of its own for each row costs many times what the row does. What
starts programs or servers, or needs its fixtures anew, stays with `pytest.mark.parametrize`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from types import TracebackType
from typing import Any, Final

import pytest

ROW_SIZE_MAX: Final = 300
"""Characters of a row that are told."""


def for_every_row(names: str, rows: Iterable[object]) -> Callable[[Callable[..., Any]], Any]:
    """Calls a test with each row of a table, by names as `pytest.mark.parametrize` takes them.

    The fixtures of the test are the same for all rows. A table without rows is refused.
    """
    keys = [name.strip() for name in names.split(",")]
    table = [_values_by_name(keys, row) for row in rows]
    assert table, f"a table of {names} without rows"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def try_rows(*owner: object, **fixtures: object) -> None:
            missed: list[str] = []
            for values in table:
                with _Row(values, missed):
                    test(*owner, **fixtures, **values)
            _tell_missed(missed)

        async def try_rows_async(*owner: object, **fixtures: object) -> None:
            missed: list[str] = []
            for values in table:
                with _Row(values, missed):
                    await test(*owner, **fixtures, **values)
            _tell_missed(missed)

        asked = inspect.signature(test)
        assert {*keys} <= {*asked.parameters}, f"{test} does not take all of {names}"
        rest = [each for name, each in asked.parameters.items() if name not in keys]
        made = wraps(test)(try_rows_async if inspect.iscoroutinefunction(test) else try_rows)
        made.__signature__ = asked.replace(parameters=rest)  # type: ignore[attr-defined]
        return made

    return decorate


class _Row:
    """Keeps what goes wrong with one row for the end, so that the rows after it are tried too."""

    def __init__(self, values: dict[str, object], missed: list[str]) -> None:
        self._values = values
        self._missed = missed

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception | pytest.fail.Exception):
            return False
        if "from pytest-timeout" in str(error):  # the next row would have no limit
            return False
        told = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        why = "".join(traceback.format_exception(error, limit=-1, chain=False))
        self._missed.append(f"{told[:ROW_SIZE_MAX]}\n{why}")
        return True


def _tell_missed(missed: list[str]) -> None:
    if missed:
        pytest.fail("\n".join((f"{len(missed)} rows miss", *missed)), pytrace=False)


def _values_by_name(keys: list[str], row: object) -> dict[str, object]:
    if len(keys) == 1:
        return {keys[0]: row}
    assert isinstance(row, tuple)
    return dict(zip(keys, row, strict=True))
