"""What people and programs add to a thread is recorded as facts, and folded into its document."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from core.samples import CONFIG, answer, call, decided, said
from thread.journals import HEADER, at
from treadle.core.conversation import View
from treadle.core.events import CancelRequested, Rewound
from treadle.core.llm import Usage
from treadle.core.task.events import TaskGiven
from treadle.core.tools import RiskLevel
from treadle.thread.codec import Entry, UnknownEntryError
from treadle.thread.document import Annotation, ThreadMetadata
from treadle.thread.facts import (
    Annotated,
    Base,
    Configured,
    ContextObserved,
    ExtraSet,
    FilesSaved,
    GitObserved,
    Granted,
    Imported,
    InputQueued,
    Pinned,
    Renamed,
    Restored,
    Tagged,
    ThreadCreated,
    Trashed,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.metadata import TITLE_LENGTH_MAX

FORK = ThreadCreated(
    1, "T-01900000-0000-7000-8000-00000000000c", "chat", "treadle", base=Base("T-x", 4, "0" * 32)
)


def fold(*entries: Entry, header: ThreadCreated = HEADER) -> ThreadFold:
    made = ThreadFold(header)
    for seq, entry in enumerate((header, *entries), 1):
        made.apply(seq, at(seq), entry)
    return made


def metadata(*entries: Entry) -> ThreadMetadata:
    return fold(*entries).document().metadata


def test_a_title_stands_until_another_one_is_given() -> None:
    assert metadata().title is None
    assert metadata(said("one\ntwo")).title == "one"
    assert metadata(said("one"), Renamed("A"), Renamed("B")).title == "B"
    assert metadata(said("one"), Renamed("A"), Renamed("")).title == "one"
    assert metadata(Renamed("x" * 200)).title == "x" * TITLE_LENGTH_MAX


def test_tags_are_kept_in_the_order_they_came_each_once() -> None:
    assert metadata(Tagged(("b", "a")), Tagged(("a", "c"), ("b",))).tags == ("a", "c")
    assert metadata(Tagged(("a",)), Tagged((), ("a", "nobody has it"))).tags == ()


def test_a_pin_holds_until_it_is_taken_off() -> None:
    assert metadata(Pinned()).is_pinned
    assert not metadata(Pinned(), Pinned(is_pinned=False)).is_pinned


def test_annotations_are_kept_with_their_time() -> None:
    told = metadata(Annotated("one"), Annotated("two")).annotations
    assert told == (Annotation(at(2), "one"), Annotation(at(3), "two"))


def test_a_programs_own_values_are_replaced_by_key_and_removed_by_null() -> None:
    extra = metadata(ExtraSet({"a": 1, "b": [2]}), ExtraSet({"a": {"c": 3}, "b": None})).extra
    assert extra == {"a": {"c": 3}}


def test_where_the_agent_works_stands_in_the_document() -> None:
    context = ContextObserved("loom", "/started", 8, {"max_steps": 3}, {"LANG": "C"})
    document = fold(context).document()
    assert (document.project_name, document.directory) == ("loom", "/started")
    assert (document.worker_count, document.worker_configuration) == (8, {"max_steps": 3})
    assert document.environment == {"LANG": "C"}


def test_the_trash_is_a_record_that_can_be_taken_back() -> None:
    assert fold(Trashed()).summary().is_trashed
    assert not fold(Trashed(), Restored()).document().is_trashed


def test_facts_change_the_version_and_not_the_last_activity() -> None:
    made = fold(said("one"), Tagged(("a",)))
    assert (made.version, made.updated_at, made.last_activity_at) == (3, at(3), at(2))


def test_a_summary_counts_what_is_pending() -> None:
    waiting = fold(said("one"), answer("", call("a"), call("b"))).summary()
    assert (waiting.open_calls, waiting.questions, waiting.is_unfinished) == (2, 0, True)
    asked = fold(
        Configured(CONFIG),
        said("one"),
        answer("", call("a", "drop")),
        InputQueued(said("x").message),
    ).summary()
    assert (asked.questions, asked.queued, asked.is_unfinished) == (1, 1, False)
    assert fold(said("one"), answer("done"), InputQueued(said("x").message)).summary().is_unfinished
    done = fold(said("one"), answer("done")).summary()
    assert (done.open_calls, done.queued, done.is_unfinished) == (0, 0, False)


def test_a_summary_says_what_the_document_says() -> None:
    made = fold(
        Configured(CONFIG, "scripted"),
        GitObserved("main", "c0ffee", True, "host/path"),
        said("one"),
        answer("done"),
        Tagged(("a",)),
        Pinned(),
        Imported("claude-code", "s"),
    )
    document, summary = made.document(), made.summary("a problem")
    for name in (
        *("id", "version", "created_at", "updated_at", "last_activity_at", "workspace_root"),
        *("git_branch", "git_remote_url", "git_initial_commit_sha", "git_current_commit_sha"),
        *("git_commits", "provider", "model", "is_private", "visibility", "imported_from"),
        "is_trashed",
    ):
        assert getattr(summary, name) == getattr(document, name), name
    assert (summary.title, summary.tags, summary.is_pinned) == ("one", ("a",), True)
    assert (summary.message_count, summary.problem) == (2, "a problem")


def test_a_fork_takes_the_state_and_leaves_what_is_said_about_the_thread() -> None:
    parent = fold(
        Configured(CONFIG, "scripted"),
        GitObserved("main", "c0ffee"),
        ContextObserved("loom"),
        said("one"),
        answer("done", usage=Usage(5, 5)),
        FilesSaved("a", "b", "after"),
        Tagged(("a",)),
    )
    child = parent.make_fork(FORK)
    child.apply(1, at(9), FORK)
    assert child.conversation == parent.conversation
    assert (child.machine.config, child.provider) == (parent.machine.config, "scripted")
    assert (child.files, child.context) == (parent.files, parent.context)
    assert (child.version, child.created_at, child.usage) == (1, at(9), Usage())
    assert (child.metadata, child.git.git_branch) == (ThreadMetadata(), None)
    child.apply(2, at(10), said("two"))
    assert len(parent.conversation) == 2


def test_a_fork_of_a_task_keeps_its_memory_and_its_use() -> None:
    header = ThreadCreated(1, HEADER.thread, "task", "treadle")
    parent = fold(TaskGiven("weave"), header=header)
    fork = ThreadCreated(1, FORK.thread, "task", "treadle", base=FORK.base)
    assert parent.make_fork(fork).state == parent.state
    with pytest.raises(UnknownEntryError, match="is a chat"):
        parent.make_fork(FORK)


def test_a_yes_is_for_the_thread_it_was_given_in_and_not_for_its_forks() -> None:
    parent = fold(
        Configured(CONFIG),
        said("one"),
        answer("", call("a", "drop"), call("b", "drop")),
        Granted("look", RiskLevel.CRITICAL),
        decided("a"),
    )
    assert [getattr(s, "approved", None) for s in parent.state.executions] == [True, UNSET]  # type: ignore[union-attr]
    child = parent.make_fork(FORK)
    assert [getattr(s, "approved", None) for s in child.state.executions] == [UNSET, UNSET]  # type: ignore[union-attr]
    assert (child.machine.config.granted, child.machine.questions) == ({}, parent.machine.questions)
    assert parent.machine.config.granted == {"look": RiskLevel.CRITICAL}


def test_a_fork_does_not_hear_what_was_still_to_be_said_in_its_base() -> None:
    parent = fold(said("one"), InputQueued(said("later").message))
    assert (len(parent.queued), parent.make_fork(FORK).queued) == (1, ())


def test_a_fork_in_the_middle_of_a_turn_knows_what_that_turn_has_used() -> None:
    parent = fold(said("one"), answer("", call("a"), usage=Usage(5, 5)))
    child = parent.make_fork(FORK)
    assert (child.turn_usage, child.turn_steps, child.usage) == (Usage(5, 5), 1, Usage())


def test_going_back_gives_up_what_was_still_to_be_said() -> None:
    told = fold(said("one"), answer("first"), said("two"), InputQueued(said("later").message))
    told.apply(9, at(9), CancelRequested())
    assert len(told.queued) == 1
    told.apply(10, at(10), Rewound(3, View(99)))
    assert len(told.queued) == 1, "a rewind that was refused changes nothing"
    told.apply(11, at(11), Rewound(3, View(2)))
    assert told.queued == ()
