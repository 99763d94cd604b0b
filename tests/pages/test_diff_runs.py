"""Changes side by side: nothing of them is lost, and the words that differ are marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.pages.diff_runs import DiffRow, LineKind, Pieces, list_runs

WORDS = st.sampled_from(("loom", " ", "warp(", ")", "\t", "weft", "\u202e", ""))
LINES = st.lists(
    st.tuples(st.sampled_from(LineKind), st.lists(WORDS, max_size=6).map("".join)), max_size=12
)


def texts_of(line: Pieces | None) -> list[str]:
    return [] if line is None else ["".join(text for text, _ in line)]


@given(LINES)
def test_every_line_of_a_change_stands_there_once(lines: list[tuple[LineKind, str]]) -> None:
    before: list[str] = []
    after: list[str] = []
    for run in list_runs(lines):
        assert run.rows
        for row in run.rows:
            assert row.before is not None or row.after is not None
            if run.kind != "change":
                assert row.before == row.after
            before += texts_of(row.before)
            after += texts_of(row.after)
    assert before == [line for kind, line in lines if kind is not LineKind.ADDED]
    assert after == [line for kind, line in lines if kind is not LineKind.REMOVED]


def test_words_that_differ_are_marked_where_lines_are_alike() -> None:
    cases = (
        ("a = f(x)", "a = f(y)", "a = f([x])", "a = f([y])"),
        ("f(x) + 1", "f(x)", "f(x)[ + 1]", "f(x)"),
        ("one two", "one two", "one two", "one two"),
        ("aa aa", "aa", "aa[ aa]", "aa"),
        ("nothing", "alike here", "nothing", "alike here"),
        ("", "now", "", "now"),
        ("x" * 3000, "x" * 2999, "x" * 3000, "x" * 2999),
    )
    missed = []
    for before, after, *wanted in cases:
        lines = [(LineKind.REMOVED, before), (LineKind.ADDED, after)]
        (run,) = list_runs(lines)
        (row,) = run.rows
        assert isinstance(row, DiffRow)
        told = [
            "".join(f"[{text}]" if differs else text for text, differs in side or ())
            for side in (row.before, row.after)
        ]
        if told != wanted:
            missed.append((told, wanted))
    assert missed == []


def test_a_change_and_the_next_one_do_not_mix() -> None:
    removed, added = LineKind.REMOVED, LineKind.ADDED
    lines = [(removed, "1"), (added, "2"), (removed, "3"), (LineKind.PLACE, "@@"), (added, "4")]
    runs = list(list_runs(lines))
    assert [(run.kind, len(run.rows)) for run in runs] == [
        ("change", 1),
        ("change", 1),
        ("place", 1),
        ("change", 1),
    ]
