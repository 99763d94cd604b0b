"""Every kind of record says the same to people, wherever it is told."""

from __future__ import annotations

import pytest

from core.samples import broken, decided
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
from treadle.exchange.record_text import Words, words_of
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
    assert (words_of(entry) is None) == isinstance(entry, SILENT)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (decided("a"), Words("a person allowed bash")),
        (decided("a", Rejected("not today")), Words("a person refused bash", "not today")),
        (decided("a", Modified("{}")), Words("a person changed bash", "{}")),
        (Granted("bash", RiskLevel.HIGH), Words("a person allowed bash for good, up to high risk")),
        (
            KindGranted("bash", RiskLevel.HIGH, "git status", "f00d"),
            Words("a person allowed bash: git status for good, up to high risk"),
        ),
        (Revoked("bash"), Words("a person allows all of bash for good no longer")),
        (Revoked("bash", "ls"), Words("a person allows bash: ls for good no longer")),
        (ToolStarted("a"), None),
        (ToolStarted("a", "", "read-only"), Words("sandbox of bash: read-only")),
        (Annotated("ask Ada"), Words("note", "ask Ada")),
        (Compacted(2, "so"), Words("a summary stands for the first 2 messages", "so")),
        (PostToolsHookCompleted(False), None),
        (PostToolsHookCompleted(True, "done"), Words("done")),
        (PostToolsHookCompleted(True, "x", commit="c0ffee00"), Words("committed c0ffee0", "x")),
        (
            PostToolsHookCompleted(True, "committed c0ffee0 x", commit="c0ffee00"),
            Words("committed c0ffee0 x"),
        ),
        (Renamed("", "model"), None),
        (Renamed(""), Words("the title was taken back")),
    ],
)
def test_what_a_record_says(entry: Entry, words: Words | None) -> None:
    assert words_of(entry, {"a": "bash"}.__getitem__) == words


def test_a_line_and_what_belongs_to_it_make_one() -> None:
    assert Words("stopped", "enough").whole == "stopped: enough"
    assert Words("stopped").whole == "stopped"
