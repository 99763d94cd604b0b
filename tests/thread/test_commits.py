"""The commits a thread made: told by the record, or by the note where the record is older."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.core.events import PostToolsHookCompleted, UserInput
from treadle.core.messages import Message
from treadle.thread.codec import Entry
from treadle.thread.commits import MadeCommit, read_commit

WHOLE = "0123456789abcdef0123456789abcdef01234567"


def made(*entries: Entry) -> list[MadeCommit]:
    return [found for entry in entries if (found := read_commit(entry)) is not None]


def test_the_whole_hash_is_that_of_the_record_and_the_subject_that_of_the_note() -> None:
    note = "committed 0123456 fix: add (1 file)"
    assert made(
        UserInput(Message.user("go")),
        PostToolsHookCompleted(True, note, commit=WHOLE),
        PostToolsHookCompleted(False, "not committed: a.py had changes of yours"),
        PostToolsHookCompleted(True, "tidied up"),
        PostToolsHookCompleted(True, "fertig", commit=WHOLE[::-1]),
    ) == [MadeCommit(WHOLE, "fix: add", 1), MadeCommit(WHOLE[::-1])]


@for_every_row(
    "note, subject, count",
    [
        ("committed 0123456 fix: add (1 file)", "fix: add", 1),
        ("committed 0123456 fix: 2 (2 files) at once (12 files)", "fix: 2 (2 files) at once", 12),
        (
            "committed 0123456 x (1 file); HEAD is detached: make a branch to keep it"
            "; a hook also committed b.py\nnot committed: c (a known secret in it)",
            "x",
            1,
        ),
        ("committed 0123456  (1 file)", "", 1),
    ],
)
def test_an_older_journal_tells_it_in_the_note(note: str, subject: str, count: int) -> None:
    assert made(PostToolsHookCompleted(True, note)) == [MadeCommit("0123456", subject, count)]


@for_every_row(
    "note",
    [
        "",
        "committed",
        "committed 0123456",
        "committed 012345 x (1 file)",
        "committed 0123456 x",
        "committed nothing at all (1 file)",
        f"committed 0123456 x ({'9' * 5000} files)",
        "not committed: committed 0123456 x (1 file)",
        "x\ncommitted 0123456 x (1 file)",
    ],
)
def test_a_note_of_something_else_is_no_commit(note: str) -> None:
    assert made(PostToolsHookCompleted(True, note)) == []


def test_a_hook_that_did_nothing_made_no_commit_whatever_it_says() -> None:
    assert made(PostToolsHookCompleted(False, "committed 0123456 x (1 file)")) == []


@given(st.text(st.characters(exclude_characters="\n")), st.integers(0, 10**9))
def test_every_subject_is_read_back_as_it_was_written(subject: str, count: int) -> None:
    note = f"committed 0123456 {subject} ({count} file{'s' * (count != 1)})"
    assert made(PostToolsHookCompleted(True, note)) == [MadeCommit("0123456", subject, count)]
