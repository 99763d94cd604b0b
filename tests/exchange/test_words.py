"""Every kind of record says the same to people, wherever it is told."""

from __future__ import annotations

import pytest

from core.samples import broken, decided, required
from thread.journals import EVERY_ENTRY
from treadle.core.approval import Modified, Rejected
from treadle.core.events import (
    Compacted,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    Steered,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.task.events import TaskGiven, TaskResumed
from treadle.core.tools import RiskLevel
from treadle.exchange.record_text import RecordText, describe_record
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    Configured,
    ContextObserved,
    ExtraSet,
    FilesSaved,
    GitObserved,
    Granted,
    KindGranted,
    Pinned,
    Renamed,
    Revoked,
    Tagged,
    ThreadCreated,
)

SILENT = (
    RetryTimeoutFired,
    *(UserInput, Steered, LlmEvent.Completed, ToolStarted, ToolCompleted, TaskGiven, TaskResumed),
    *(
        ThreadCreated,
        Configured,
        GitObserved,
        ContextObserved,
        FilesSaved,
        Tagged,
        Pinned,
        ExtraSet,
    ),
)


@pytest.mark.parametrize("entry", [*EVERY_ENTRY, broken()], ids=lambda entry: type(entry).__name__)
def test_every_entry_is_told_but_those_that_the_messages_or_the_document_tell(
    entry: Entry,
) -> None:
    assert (describe_record(entry) is None) == isinstance(entry, SILENT)


@pytest.mark.parametrize(
    ("entry", "words"),
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
