"""Every kind of record says the same to people, wherever it is told."""

from __future__ import annotations

from case_tables import for_every_row
from core.samples import broken, decided, required
from thread.journals import ENTRY_KINDS, EVERY_ENTRY
from treadle.core.approval import Modified, Rejected
from treadle.core.conversation import Masking
from treadle.core.events import (
    Compacted,
    PostToolsHookCompleted,
    ResultsMasked,
    ToolStarted,
)
from treadle.core.tools import RiskLevel
from treadle.exchange.record_text import DESCRIPTIONS, RecordText, describe_record
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    Granted,
    KindGranted,
    Renamed,
    Revoked,
)


def test_every_kind_of_record_has_a_row_and_every_row_a_kind() -> None:
    missing = [kind.__qualname__ for kind in ENTRY_KINDS if kind not in DESCRIPTIONS]
    row = "a row in DESCRIPTIONS of exchange/record_text.py: its words for people, or `None`"
    assert missing == [], f"{missing}: give each {row}"
    assert [*DESCRIPTIONS.keys() - {*ENTRY_KINDS}] == []


def test_every_entry_whose_row_has_words_says_something() -> None:
    silent = [
        entry
        for entry in (*EVERY_ENTRY, broken())
        if DESCRIPTIONS.get(type(entry)) is not None and describe_record(entry) is None
    ]
    # Its row tells of the sandbox that held the call; the samples have none.
    assert {type(entry) for entry in silent} == {ToolStarted}


@for_every_row(
    "entry, words",
    [
        (
            required("a"),
            RecordText("needs a person's yes after all: bash", "so it is now"),
        ),
        (decided("a"), RecordText("a person allowed bash")),
        (decided("a", Rejected("not today")), RecordText("a person refused bash", "not today")),
        (decided("a", Modified("{}")), RecordText("a person changed bash", "{}")),
        (
            Granted("bash", RiskLevel.HIGH),
            RecordText("a person allowed bash for good, up to high risk"),
        ),
        (
            KindGranted("bash", RiskLevel.HIGH, "git status", "f00d"),
            RecordText("a person allowed bash: git status for good, up to high risk"),
        ),
        (Revoked("bash"), RecordText("a person allows all of bash for good no longer")),
        (Revoked("bash", "ls"), RecordText("a person allows bash: ls for good no longer")),
        (ToolStarted("a"), None),
        (ToolStarted("a", "", "read-only"), RecordText("sandbox of bash: read-only")),
        (Annotated("ask Ada"), RecordText("note", "ask Ada")),
        (Compacted(2, "so"), RecordText("a summary stands for the first 2 messages", "so")),
        (
            ResultsMasked(Masking(8, 1_000)),
            RecordText("old results among the first 8 messages are not shown any more"),
        ),
        (PostToolsHookCompleted(False), None),
        (PostToolsHookCompleted(True, "done"), RecordText("done")),
        (
            PostToolsHookCompleted(True, "x", commit="c0ffee00"),
            RecordText("committed c0ffee0", "x"),
        ),
        (
            PostToolsHookCompleted(True, "committed c0ffee0 x", commit="c0ffee00"),
            RecordText("committed c0ffee0 x"),
        ),
        (Renamed("", "model"), None),
        (Renamed(""), RecordText("the title was taken back")),
    ],
)
def test_what_a_record_says(entry: Entry, words: RecordText | None) -> None:
    assert describe_record(entry, {"a": "bash"}.__getitem__) == words


def test_a_line_and_what_belongs_to_it_make_one() -> None:
    assert RecordText("stopped", "enough").full_text == "stopped: enough"
    assert RecordText("stopped").full_text == "stopped"
