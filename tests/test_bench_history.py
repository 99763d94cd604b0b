"""A ratio that is worse by a fifth than it was is seen, and nothing else is."""

from __future__ import annotations

from pathlib import Path

from bench.history import RUNS, Run, find_regressions, keep_run, read_history
from bench.report import Row, at_least, at_most

CASES = {
    # a row of now, what earlier runs had: whether it is worse
    "less is better, a fifth more": (at_most("r", 1.21, "x", 9), [1.0], True),
    "less is better, hardly more": (at_most("r", 1.19, "x", 9), [1.0], False),
    "less is better, and it is less": (at_most("r", 0.1, "x", 9), [1.0], False),
    "more is better, a fifth less": (at_least("r", 0.83, "x", 1), [1.0], True),
    "more is better, hardly less": (at_least("r", 0.84, "x", 1), [1.0], False),
    "more is better, and it is more": (at_least("r", 9, "x", 1), [1.0], False),
    "met all the same": (at_most("r", 1.5, "x", 2), [1.0], True),
    "without an aim": (Row("r", 1.3, "kB"), [1.0], True),
    "a time, which depends on the machine": (Row("r", 9, "ms"), [1.0], False),
    "a rate, which does too": (at_least("r", 1, "1/s", 1), [9.0], False),
    "new": (Row("r", 9, "x"), [], False),
    "one run that was odd": (Row("r", 1.3, "x"), [1.2, 0.1, 1.2], False),
    "what was long ago counts no more": (Row("r", 1.3, "x"), [0.1] * 3 + [1.2] * RUNS, False),
}


def test_each_case_is_judged_as_it_should_be() -> None:
    found = {
        name: bool(find_regressions([row], [Run("c", {"r": value}) for value in earlier]))
        for name, (row, earlier, _) in CASES.items()
    }
    assert found == {name: is_worse for name, (_, _, is_worse) in CASES.items()}


def test_a_run_that_is_kept_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert read_history(path) == []
    keep_run([Row("a", 1.5, "x"), Row("b", 3, "ms")], path)
    keep_run([Row("a", 2.5, "x")], path)
    assert [run.ratios for run in read_history(path)] == [{"a": 1.5}, {"a": 2.5}]
    assert all(run.commit for run in read_history(path))
