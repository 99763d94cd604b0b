"""What of a record is found."""

from __future__ import annotations

from typing import Any

import msgspec

from case_tables import for_every_row
from core.samples import answer, call, ended, failure, said, success
from thread.journals import ENTRY_KINDS, EVERY_ENTRY, NO_SAMPLE
from treadle.core.events import LlmEvent, PostToolsHookCompleted, UserInput
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.core.messages import BlobRef, Message
from treadle.core.task.events import TaskInformed
from treadle.core.tools import ToolExecutionOutcome
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import (
    CommandBegun,
    CommandShown,
    FilesSaved,
    Foreign,
    GitObserved,
    Renamed,
    ThreadCreated,
)
from treadle.thread.search_texts import (
    TEXT_FUNCTIONS,
    SearchText,
    SearchTextKind,
    list_entry_texts,
    list_message_texts,
    list_texts,
)
from treadle.thread.typed_words import SITUATION_HEAD

SAMPLES = (*EVERY_ENTRY, LlmEvent.Error(LlmError(LlmErrorKind.SERVER, "no luck today")))


def texts(entry: Entry) -> list[SearchText]:
    return list_texts(encode_entry(entry)[1])


def words(entry: Entry) -> str:
    return "\n".join(text for _, text in texts(entry))


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return []


FREE_TEXT = {
    *("content", "text", "title", "note", "message", "task", "reason", "summary", "focus"),
    *("output", "partial_text", "added", "notes", "changed", "skipped", "branch", "remote"),
    *("workspace", "cwd", "directory", "project_name", "head", "commit", "problems", "session"),
    *("logged", "final_answer", "last_observation"),
}
"""Fields in which a person may look for something."""

NOT_SEARCHED = {(FilesSaved, "commit"), (UserInput, "name"), (TaskInformed, "text")}
"""The commits of saved files are under references of our own: nobody has seen them. News of the
situation are no words of anybody, behind a message or by themselves."""


def free_texts(entry: Entry, value: Any, key: str = "") -> list[str]:
    if isinstance(value, dict):
        return [t for name, item in value.items() for t in free_texts(entry, item, name)]
    if key in FREE_TEXT and (type(entry), key) not in NOT_SEARCHED:
        return [text for text in strings(value) if text]
    if isinstance(value, list):
        return [text for item in value for text in free_texts(entry, item, key)]
    return []


def test_every_entry_there_is_has_a_row_and_a_sample() -> None:
    sampled = {type(entry) for entry in SAMPLES}
    row = "give it a row in TEXT_FUNCTIONS of thread/search_texts.py; `_list_no_texts` for nothing"
    misses = [f"{kind.__qualname__}: {NO_SAMPLE}" for kind in ENTRY_KINDS if kind not in sampled]
    misses += [f"{kind.__qualname__}: {row}" for kind in ENTRY_KINDS if kind not in TEXT_FUNCTIONS]
    assert misses == [], "\n".join(misses)
    assert {*TEXT_FUNCTIONS} == {*ENTRY_KINDS}


@for_every_row("entry", SAMPLES)
def test_all_that_a_person_may_look_for_is_among_the_texts(entry: Entry) -> None:
    found = words(entry)
    wanted = free_texts(entry, msgspec.to_builtins(entry))
    assert [text for text in wanted if text not in found] == []
    assert all(text.strip() for _, text in texts(entry))


def test_samples_hold_texts_of_every_kind_but_none_that_is_made_up() -> None:
    found = {kind for entry in SAMPLES for kind, _ in texts(entry)}
    assert found | {SearchTextKind.COMMIT} == {*SearchTextKind}
    assert texts(PostToolsHookCompleted(True, commit="c0ffee")) == [
        (SearchTextKind.COMMIT, "c0ffee")
    ]


def test_the_arguments_of_a_call_are_words_and_not_json() -> None:
    text = r'{"path":"a.py","lines":["first\nsecond", 3, {"deep":"é"}]}'
    (found,) = texts(answer("", call("a", "edit", text)))
    assert found[0] is SearchTextKind.CALL
    assert found[1].split("\n") == [
        *["edit", "path", "a.py", "lines", "first", "second", "deep", "é"]
    ]


@for_every_row("broken", ['{"path":"a\\nb', "no json", "[" * 5000, '"\\ud800"'])
def test_arguments_that_are_no_json_are_searched_as_they_are(broken: str) -> None:
    (found,) = texts(answer("", call("a", "edit", broken)))
    assert found[1].startswith("edit\n")
    assert "\\n" not in found[1]


def test_a_result_is_its_output_and_the_files_it_changed() -> None:
    assert texts(ended("a", success("a", "done", "x/y.py"))) == [
        (SearchTextKind.OUTPUT, "done"),
        (SearchTextKind.PLACE, "x/y.py"),
    ]
    ((kind, text),) = texts(ended("a", failure("a")))
    assert (kind, "no such luck" in text) == (SearchTextKind.OUTPUT, True)


def test_a_command_of_the_person_is_found_once() -> None:
    begun = CommandBegun("0badcafe", "make all", "/src/app")
    assert texts(begun) == [(SearchTextKind.CALL, "make all"), (SearchTextKind.PLACE, "/src/app")]
    assert texts(CommandShown("make all", "built", 0, begun.id)) == [
        (SearchTextKind.OUTPUT, "built")
    ]
    without_a_beginning = CommandShown("make all", "built")
    assert texts(without_a_beginning) == [
        (SearchTextKind.CALL, "make all"),
        (SearchTextKind.OUTPUT, "built"),
    ]


def test_of_a_long_output_the_whole_is_searched_if_it_is_there() -> None:
    outcome = ToolExecutionOutcome.Success("a", "head … tail", ("f",), BlobRef("0" * 64, 99))
    entry, _ = encode_entry(ended("a", outcome))
    assert list_entry_texts(entry, lambda ref: f"all {ref.size}") == [
        (SearchTextKind.OUTPUT, "all 99"),
        (SearchTextKind.PLACE, "f"),
    ]
    assert list_entry_texts(entry)[0] == (SearchTextKind.OUTPUT, "head … tail")


def test_an_event_of_a_newer_version_is_searched_as_it_stands() -> None:
    ((kind, text),) = list_texts(b'{"type":"sung","song":"la\\nla"}')
    assert kind is SearchTextKind.OTHER
    assert "la la" in text
    assert "sung" in text


def test_a_foreign_record_is_searched_and_its_escapes_are_no_words() -> None:
    ((_, text),) = texts(Foreign('{"a":"one\\ntwo"}'))
    assert {"one", "two"} <= {*text.replace('"', " ").split()}


def test_news_of_the_situation_is_not_searched_with_the_words_it_stands_behind() -> None:
    told = Message.user(f"mend it{SITUATION_HEAD}\n- Mode: auto. Files are changed unasked.")
    assert texts(UserInput(told)) == [(SearchTextKind.PROMPT, "mend it")]
    assert list_message_texts(told) == [(SearchTextKind.PROMPT, "mend it")]


def test_what_is_empty_is_no_text() -> None:
    assert texts(said(" \n")) == []
    assert texts(GitObserved()) == []
    assert texts(Renamed("")) == []
    assert texts(ThreadCreated(1, "T-x", "chat", "treadle")) == []
    assert texts(LlmEvent.Completed(answer("x").response)) == [(SearchTextKind.ANSWER, "x")]
    assert texts(UserInput(Message.user("x"))) == [(SearchTextKind.PROMPT, "x")]
