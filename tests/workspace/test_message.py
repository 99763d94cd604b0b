"""Commit messages, from models and without."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.workspace.message import (
    DIFF_SIZE_MAX,
    LINE_COUNT_MAX,
    SUBJECT_LENGTH_MAX,
    accept,
    cut_diff,
    plain_message,
)
from treadle.workspace.status import StatusEntry


def changes(*names: str, letters: str = ".M") -> list[StatusEntry]:
    return [StatusEntry(name, name, letters) for name in names]


@for_every_row(
    "answer, message",
    [
        ("fix: handle empty list", "fix: handle empty list"),
        ("  fix: x  \n\n", "fix: x"),
        ('"fix: x"', "fix: x"),
        ("`fix: x`", "fix: x"),
        ("```\nfix: x\n```", "fix: x"),
        ("```text\nfix: x\n\nBecause.\n```\n", "fix: x\n\nBecause."),
        ("'fix: x'\n\nBecause.", "fix: x\n\nBecause."),
        ("fix: handle `x`", "fix: handle `x`"),
        ("fix: x\nBecause.", "fix: x\n\nBecause."),
        ("fix: x\n\n\n\nBecause.\n\nAnd so.", "fix: x\n\nBecause.\n\nAnd so."),
        ("fix: x\r\n\r\nBecause.", "fix: x\n\nBecause."),
        ("fix: x\u2028Because.", "fix: x\n\nBecause."),
        ("fix: \x1b[31mred\x00", "fix: [31mred"),
        ("fix: x\n\nTreadle-Thread: T-evil@1", "fix: x"),
        ("treadle-thread : T-evil@1\nfix: x", "fix: x"),
        ("fix: x\n\nSigned-off-by: Ada <a@b>\nReviewed-By: Bob", "fix: x"),
        ("fix: x\n\n# kept", "fix: x\n\n# kept"),
        ("fix: " + "x" * 67, "fix: " + "x" * 67),
        ("fix: " + "x" * 68, ""),
        ("", ""),
        ("\n \n", ""),
        ("``````", ""),
        ('""', ""),
        ("```\n```", ""),
    ],
)
def test_what_is_taken_of_an_answer(answer: str, message: str) -> None:
    assert accept(answer) == message


def test_a_long_body_is_cut() -> None:
    lines = accept("fix: x\n\n" + "line\n" * 1000).splitlines()
    assert len(lines) == LINE_COUNT_MAX
    assert len(accept("fix: x\n\n" + "y" * 100_000)) < 1000


@given(st.text(max_size=300))
def test_an_accepted_message_is_accepted_as_it_is(answer: str) -> None:
    message = accept(answer)
    subject = message.partition("\n")[0]
    assert len(subject) <= SUBJECT_LENGTH_MAX
    assert "treadle-thread:" not in message.lower().replace(" ", "")
    assert not message or subject.strip()


@for_every_row(
    "mine, message",
    [
        (changes("a.py"), "chore: update a.py"),
        (changes("a.py", "src/b.py"), "chore: update a.py and src/b.py"),
        (changes("a", "b", "c"), "chore: update 3 files"),
        (changes("a.py", letters="??"), "chore: add a.py"),
        (changes("a.py", letters="A."), "chore: add a.py"),
        (changes("a", "b", "c", letters=".D"), "chore: remove 3 files"),
        (changes("a", letters=".D") + changes("b"), "chore: update a and b"),
        (changes("d/" * 40 + "a.py"), "chore: update a.py"),
        (changes("x" * 90), "chore: update 1 file"),
        (changes("new\nline"), "chore: update 1 file"),
    ],
)
def test_a_plain_message_says_what_changed(mine: list[StatusEntry], message: str) -> None:
    assert plain_message(mine) == message


def test_a_short_diff_is_shown_whole() -> None:
    assert cut_diff("x\n" * 100, 200) == "x\n" * 100


def test_a_long_diff_is_cut_after_a_line_and_says_how_much_is_shown() -> None:
    line = "ü" * 20 + "\n"
    diff = line * 2000
    cut = cut_diff(diff, len(diff.encode()))
    shown = cut.removesuffix(
        f"[the diff is cut: {DIFF_SIZE_MAX // 41 * 41} of 82000 bytes are shown]\n"
    )
    assert shown == line * (DIFF_SIZE_MAX // 41)


def test_a_diff_of_one_endless_line_is_cut_within_it() -> None:
    cut = cut_diff("ü" * DIFF_SIZE_MAX, 2 * DIFF_SIZE_MAX)
    assert cut.startswith("ü" * (DIFF_SIZE_MAX // 2) + "[the diff is cut: 32768 of 65536")
