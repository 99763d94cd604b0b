"""The fold turns records into the thread: its state, its document, what git and people said."""

from __future__ import annotations

import pytest
from msgspec.structs import fields, replace

from case_tables import for_every_row
from core.samples import CONFIG, answer, broken, call, ended, said
from thread.journals import EVERY_ENTRY, HEADER, ID, PLAIN, at, fold_of, records_of, write
from treadle.core.actions import SendLlmRequest, WaitForInput
from treadle.core.chat.states import CallingLlm, ExecutingTools, WaitingForUserInput
from treadle.core.events import CancelRequested, ToolStarted, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.tools import RiskLevel
from treadle.thread.codec import Entry, UnknownEntryError
from treadle.thread.document import GitFields, Thread
from treadle.thread.facts import (
    FORMAT_VERSION,
    Configured,
    GitObserved,
    Granted,
    InputQueued,
    Recovered,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.metadata import TITLE_LENGTH_MAX


def folded(*entries: Entry) -> ThreadFold:
    """A thread of a header and these, each in a write of its own."""
    return fold_of(records_of(write([(entry,) for entry in (HEADER, *entries)])[0]))


def git(*seen: GitObserved) -> GitFields:
    return folded(*seen).git


def test_a_new_thread_waits_and_has_a_document() -> None:
    fold = folded()
    assert isinstance(fold.state, WaitingForUserInput)
    thread = fold.document()
    assert (thread.id, thread.version) == (ID, 1)
    assert (thread.workspace_root, thread.cwd) == ("/w", "/w/src")
    assert thread.treadle_version == "treadle/0.1.0"
    assert thread.created_at == thread.updated_at == thread.last_activity_at == at(0)
    assert (thread.visibility, thread.is_private) == ("organization", False)


def test_a_private_thread_says_so() -> None:
    [record] = records_of(write([(replace(HEADER, is_private=True),)])[0])
    thread = fold_of([record]).document()
    assert (thread.visibility, thread.is_private) == ("private", True)


def test_the_document_has_every_field_of_the_source_document() -> None:
    asked = {
        *("id", "version", "created_at", "updated_at", "last_activity_at"),
        *("workspace_root", "cwd", "treadle_version", "provider", "model"),
        *("git_branch", "git_remote_url", "git_initial_branch", "git_initial_commit_sha"),
        *("git_current_commit_sha", "git_start_dirty", "git_end_dirty", "git_commits"),
        *("conversation", "agent_state", "visibility", "is_private"),
        *("is_shared_with_support", "metadata"),
    }
    assert asked <= {field.name for field in fields(Thread)}


def test_the_whole_small_session_folds_to_its_document() -> None:
    thread = fold_of(records_of(write(PLAIN)[0])).document()
    assert thread.version == sum(map(len, PLAIN))
    assert [message.role for message in thread.conversation.messages] == (
        ["user", "assistant", "tool", "tool", "assistant"]
    )
    assert (thread.provider, thread.model) == ("scripted", "model-1")
    assert thread.git_commits == ("c0ffee", "beef")
    assert thread.agent_state.kind == "waiting_for_user_input"
    assert thread.metadata.title == "go"


def test_times_are_those_of_creation_of_the_last_record_and_of_the_last_event() -> None:
    thread = folded(said(), answer("x"), Recovered(), GitObserved()).document()
    assert (thread.created_at, thread.last_activity_at, thread.updated_at) == (at(0), at(2), at(4))


def test_facts_alone_are_no_activity() -> None:
    thread = folded(Configured(CONFIG), Recovered()).document()
    assert (thread.last_activity_at, thread.updated_at) == (at(0), at(2))


def test_events_give_the_machines_action_and_facts_give_none() -> None:
    fold = folded()
    assert isinstance(fold.apply(2, at(1), said()), SendLlmRequest)
    assert fold.apply(3, at(2), said("illegal now")) == WaitForInput()
    for entry in EVERY_ENTRY[1:6]:
        assert fold.apply(4, at(3), entry) is None


def test_an_illegal_event_is_a_record_like_any_other_and_moves_nothing() -> None:
    fold = folded(ended("nobody's"))
    assert isinstance(fold.state, WaitingForUserInput)
    assert fold.version == 2


def test_a_configuration_holds_from_its_record_on() -> None:
    fold = folded(said(), Configured(CONFIG, "scripted"))
    assert (fold.machine.config, fold.provider) == (CONFIG, "scripted")
    assert isinstance(fold.state, CallingLlm)
    owed = fold.machine.obligations()
    assert isinstance(owed, SendLlmRequest)
    assert owed.request.model == CONFIG.model_name


def test_usage_adds_up_over_all_answers_and_steps_count_from_the_last_input() -> None:
    fold = folded(
        said(),
        answer("", call("a"), usage=Usage(10, 1)),
        ended("a"),
        answer("one", usage=Usage(20, 2)),
        said("more"),
        answer("two", usage=Usage(40, 4, estimated=True)),
    )
    assert fold.usage == fold.document().usage == Usage(70, 7, estimated=True)
    assert fold.turn_steps == 1


def test_failed_requests_are_no_steps() -> None:
    assert folded(said(), broken(), answer("late")).turn_steps == 1
    assert folded(said(), broken()).turn_steps == 0


def test_queued_input_is_kept_in_order_until_it_is_delivered() -> None:
    first, second = Message.user("first"), Message.user("second")
    fold = folded(said(), InputQueued(first), InputQueued(second), answer("done"))
    assert fold.queued == (first, second)
    fold.apply(9, at(9), UserInput(first))
    assert fold.queued == (second,)


def test_an_input_that_was_not_queued_takes_nothing_from_the_queue() -> None:
    first = Message.user("first")
    fold = folded(InputQueued(first), said("another"))
    assert fold.queued == (first,)


@for_every_row(
    "prompt, title",
    [
        ("fix the bug", "fix the bug"),
        ("\n  fix it  \nwith care", "fix it"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("  \n ", None),
        ("", None),
    ],
)
def test_the_title_is_the_first_line_of_the_first_prompt(prompt: str, title: str | None) -> None:
    fold = folded(said(prompt), CancelRequested(), said("second"))
    assert fold.title() == fold.document().metadata.title == title
    assert len(title or "") <= TITLE_LENGTH_MAX


def test_a_thread_without_a_prompt_has_no_title() -> None:
    assert folded(GitObserved()).title() is None


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (replace(HEADER, format=FORMAT_VERSION + 1), f"format {FORMAT_VERSION + 1}"),
        (replace(HEADER, machine="loom"), "machine 'loom'"),
    ],
)
def test_a_newer_format_and_a_foreign_machine_are_refused_by_name(
    header: type[HEADER],  # type: ignore[valid-type]
    words: str,
) -> None:
    with pytest.raises(UnknownEntryError, match=words):
        ThreadFold(header)  # type: ignore[arg-type]


def test_the_state_of_open_calls_is_in_the_document() -> None:
    fold = folded(said(), answer("", call("a"), call("b", "edit")), ToolStarted("b", at(5)))
    snapshot = fold.document().agent_state
    assert isinstance(fold.state, ExecutingTools)
    assert snapshot.kind == "executing_tools"
    assert [(c.call_id, c.tool_name) for c in snapshot.pending_tool_calls] == [
        ("a", "look"),
        ("b", "edit"),
    ]
    assert snapshot.executions == fold.state.executions


def test_the_state_of_a_failure_is_in_the_document() -> None:
    snapshot = folded(Configured(CONFIG), said(), broken()).document().agent_state
    assert (snapshot.kind, snapshot.retries, snapshot.delay_s) == ("error", 1, 0.5)
    assert snapshot.last_error == "LLM error: network: so it goes"


class TestGit:
    """What git looked like, over the life of a thread."""

    def test_a_folder_that_is_no_repository_leaves_every_field_empty(self) -> None:
        assert git() == GitFields()

    def test_the_first_observation_sets_the_initial_fields_and_no_later_one_does(self) -> None:
        found = git(
            GitObserved("main", "aaa", True, "host/path"),
            GitObserved("topic", "bbb", False, "other/path"),
        )
        assert found == GitFields(
            git_branch="topic",
            git_remote_url="host/path",
            git_initial_branch="main",
            git_initial_commit_sha="aaa",
            git_current_commit_sha="bbb",
            git_start_dirty=True,
            git_end_dirty=False,
            git_commits=("aaa", "bbb"),
        )

    def test_a_first_observation_of_nothing_is_still_the_first(self) -> None:
        found = git(GitObserved(), GitObserved("main", "aaa", True))
        assert found.git_initial_branch is None
        assert found.git_initial_commit_sha is None
        assert found.git_start_dirty is False
        assert (found.git_branch, found.git_current_commit_sha) == ("main", "aaa")

    def test_a_detached_head_has_no_branch_and_keeps_its_commit(self) -> None:
        found = git(GitObserved("main", "aaa"), GitObserved(None, "bbb"))
        assert (found.git_branch, found.git_current_commit_sha) == (None, "bbb")

    def test_a_repository_that_lost_its_commits_keeps_the_last_one_known(self) -> None:
        found = git(GitObserved("main", "aaa"), GitObserved("main", None))
        assert found.git_current_commit_sha == "aaa"
        assert found.git_commits == ("aaa",)

    def test_commits_are_noted_once_in_the_order_they_were_seen(self) -> None:
        seen = [GitObserved("main", head) for head in ("b", "a", "b", "c", "a")]
        found = git(*seen)
        assert found.git_commits == ("b", "a", "c")
        assert found.git_current_commit_sha == "a"

    def test_a_remote_found_later_is_noted_and_never_replaced(self) -> None:
        remotes = (None, "host/one", None, "host/two")
        found = git(*(GitObserved("main", "a", False, remote) for remote in remotes))
        assert found.git_remote_url == "host/one"

    def test_the_last_observation_is_kept_whole(self) -> None:
        last = GitObserved("main", "a", True, None, ("f", "g"), True)
        assert folded(GitObserved(), last).observed == last


def test_a_tool_is_granted_up_to_the_highest_risk_that_was_said() -> None:
    fold = folded(
        Granted("drop", RiskLevel.HIGH),
        Granted("drop", RiskLevel.LOW),
        Granted("look", RiskLevel.LOW),
    )
    assert fold.machine.config.granted == {"drop": RiskLevel.HIGH, "look": RiskLevel.LOW}
