"""Sessions fed to the machine: whatever they were like, pairs are whole and the thread rests."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from exchange.recorded import (
    CLAUDE,
    CODEX,
    CONVERTERS,
    GEMINI,
    GEMINI_LOG,
    NOW,
    OPTIONS,
    draft_of,
    entries_of,
    fold_of,
    one,
    sessions,
    talk_of,
)
from store.shelf import Shelf
from treadle.core.chat.handlers import build_request
from treadle.core.events import UserInput
from treadle.core.llm import ModelTraits
from treadle.core.messages import Message
from treadle.exchange.gemini import convert_value
from treadle.exchange.journal_builder import (
    NO_PROMPT,
    RECORD_COUNT_KEY,
    SESSION_ENDED,
    TEXT_LENGTH_MAX,
    ImportedThread,
    build_imported_thread,
)
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionCall,
    SessionCallResult,
    SessionFailure,
    SessionForeignRecord,
    SessionPrompt,
    SessionStep,
)
from treadle.models.anthropic.request import make_message_parameters
from treadle.models.openai.responses_request import make_response_parameters as responses_of
from treadle.thread.facts import Configured, Foreign, Imported
from treadle.thread.record import scan_journal


def session_of(*steps: SessionStep) -> ImportedSession:
    return ImportedSession("codex", "s", "1", "openai", "/w", "", steps, len(steps))


def answer(text: str, *calls: str) -> SessionAnswer:
    return SessionAnswer("", text, tuple(SessionCall(one, "look", "{}") for one in calls))


def assert_sound(draft: ImportedThread) -> None:
    """Each call has one result, right behind it; the thread rests; a request can be built."""
    fold = fold_of(draft)
    waiting: list[str] = []
    for message in fold.conversation:
        if message.role == "tool":
            assert waiting.pop(0) == message.tool_call_id
            continue
        assert waiting == []
        waiting = [call.id for call in message.tool_calls]
    assert waiting == []
    assert fold.is_idle
    ids = [call.id for message in fold.conversation for call in message.tool_calls]
    assert len(ids) == len(set(ids))
    assert "" not in ids
    fold.apply(fold.version + 1, NOW, UserInput(Message.user("go on")))
    config = replace(fold.machine.config, model_name="anthropic:claude-x")
    request = build_request(config, fold.conversation)
    for parameters in (
        make_message_parameters(request, "anthropic", ModelTraits()),
        responses_of(request, "gpt-x", "openai:gpt-x", ModelTraits()),
    ):
        json.dumps(parameters)


def test_a_missing_result_is_answered_as_cancelled_and_the_turn_goes_on() -> None:
    draft = draft_of(
        session_of(
            SessionPrompt("", "go"),
            answer("", "a", "b"),
            SessionCallResult("", "b", "seen"),
            answer("so"),
        )
    )
    told = "ERROR: Cancelled: no result of it was recorded"
    assert talk_of(draft) == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", told),
        ("tool", "seen"),
        ("assistant", "so"),
    ]
    assert (draft.repaired, draft.problems) == (1, ("calls without a result: 1",))
    assert_sound(draft)


def test_a_result_without_a_call_is_kept_and_counted() -> None:
    draft = draft_of(
        session_of(SessionPrompt("", "go"), SessionCallResult("", "x", "seen"), answer("so"))
    )
    assert talk_of(draft) == [("user", "go"), ("assistant", "so")]
    assert [e.text for e in entries_of(draft) if isinstance(e, Foreign)] == ["seen"]
    assert draft.problems == ("results without a call: 1",)


def test_a_result_that_stands_before_its_call_is_found() -> None:
    draft = draft_of(
        session_of(SessionPrompt("", "go"), SessionCallResult("", "a", "seen"), answer("", "a"))
    )
    assert talk_of(draft)[-1] == ("tool", "seen")
    assert draft.repaired == 0


def test_an_id_that_is_used_twice_has_its_results_in_order() -> None:
    steps = [SessionPrompt("", "go")]
    rounds = [
        answer("", "a"),
        SessionCallResult("", "a", "one"),
        answer("", "a"),
        SessionCallResult("", "a", "two"),
    ]
    draft = draft_of(session_of(*steps, *rounds))
    assert [text for role, text in talk_of(draft) if role == "tool"] == ["one", "two"]
    assert_sound(draft)


def test_an_answer_that_nothing_asked_for_follows_a_note() -> None:
    draft = draft_of(session_of(answer("hello"), answer("again")))
    assert talk_of(draft) == [
        ("user", NO_PROMPT),
        ("assistant", "hello"),
        ("user", NO_PROMPT),
        ("assistant", "again"),
    ]
    assert draft.repaired == 2


def test_a_prompt_that_was_not_answered_stays_before_the_next_one() -> None:
    draft = draft_of(session_of(SessionPrompt("", "go"), SessionPrompt("", "and"), answer("so")))
    assert talk_of(draft) == [("user", "go"), ("user", "and"), ("assistant", "so")]


def test_what_was_under_way_when_the_session_ended_is_cancelled() -> None:
    draft = draft_of(session_of(SessionPrompt("", "go")))
    assert getattr(entries_of(draft)[-1], "reason", "") == SESSION_ENDED
    assert_sound(draft)


def test_a_failure_that_nothing_asked_for_is_kept() -> None:
    draft = draft_of(session_of(SessionFailure("", "no network")))
    assert [e.text for e in entries_of(draft) if isinstance(e, Foreign)] == ["no network"]


def test_times_never_run_backwards_nor_ahead_of_now() -> None:
    early, late = "2025-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
    steps = (SessionPrompt(late, "go"), answer("so"), SessionPrompt(early, "and"), answer("so"))
    records = scan_journal(draft_of(session_of(*steps)).data).records
    times = [record.at for record in records]
    assert times == sorted(times)
    assert times[-1] == NOW


def test_the_origin_stands_behind_the_header_and_says_what_was_found() -> None:
    draft = draft_of(session_of(answer("hello"), SessionForeignRecord("", "{}")))
    assert entries_of(draft)[1] == Imported(
        "codex", "s", "/sessions/one.jsonl", ("answers to nothing: 1",), 1
    )
    assert fold_of(draft).metadata.extra == {RECORD_COUNT_KEY: 2}


def test_a_model_is_recorded_when_it_is_another_one() -> None:
    steps = [SessionAnswer("", "so", (), model) for model in ("x", "x", "", "y")]
    told = [e for e in entries_of(draft_of(session_of(*steps))) if isinstance(e, Configured)]
    assert [one.config.model_name for one in told] == ["openai:x", "openai:y"]


def test_secrets_are_replaced_wherever_they_stand() -> None:
    options = replace(OPTIONS, redact=lambda text: text.replace("hunter2", "[REDACTED]"))
    steps = (
        SessionPrompt("", "hunter2"),
        answer("hunter2", "hunter2"),
        SessionCallResult("", "hunter2", "hunter2"),
    )
    session = replace(session_of(*steps, SessionForeignRecord("", "hunter2")), folder="/hunter2")
    draft = draft_of(session, options)
    assert b"hunter2" not in draft.data
    assert "hunter2" not in draft.title
    assert [role for role, _ in talk_of(draft)] == ["user", "assistant", "tool"]
    assert_sound(draft)


def test_a_private_import_says_so_in_its_header() -> None:
    draft = draft_of(session_of(SessionPrompt("", "go")), replace(OPTIONS, is_private=True))
    assert fold_of(draft).header.is_private


def test_a_text_that_no_record_takes_is_cut_and_told() -> None:
    draft = draft_of(
        session_of(
            SessionPrompt("", "\0" * (TEXT_LENGTH_MAX + 5)),
            SessionForeignRecord("", "x" * (TEXT_LENGTH_MAX + 1)),
        )
    )
    assert talk_of(draft)[0][1].endswith("\n[5 more characters]")
    assert draft.problems == (
        "records that are cut to what a journal takes: 1",
        "records that are too long to be kept: 1",
    )


def test_a_longer_session_has_another_id_only_if_it_is_imported_again() -> None:
    short, long = (
        session_of(SessionPrompt("", "go")),
        session_of(SessionPrompt("", "go"), answer("so")),
    )
    assert draft_of(short).thread == draft_of(long).thread
    again = build_imported_thread(long, "", OPTIONS, again=True)
    assert again.thread != draft_of(long).thread
    assert again.thread == build_imported_thread(long, "", OPTIONS, again=True).thread


@pytest.mark.parametrize("source", ["claude-code", "codex"])
def test_a_store_takes_the_thread_in_and_can_go_on_with_it(source: str, shelf: Shelf) -> None:
    draft = draft_of(one(source, CLAUDE if source == "claude-code" else CODEX))
    assert shelf.store.adopt(draft.data).header.thread == draft.thread
    with_more = shelf.store.open(draft.thread)
    with_more.stage(UserInput(Message.user("go on")))
    with_more.commit()
    with_more.close()
    assert len(shelf.store.load(draft.thread).fold.conversation) == draft.message_count + 1


# ---- anything ----------------------------------------------------------------------------------

_IDS = st.sampled_from(["a", "b", "c", ""])
_TEXTS = st.text(max_size=5) | st.sampled_from(["go", "\ud800", "<script>"])
_TIMES = st.sampled_from(["", "2025-01-01T00:00:00.000000Z", "2025-01-02T00:00:00.000000Z"])
_CALLS = st.lists(st.builds(SessionCall, _IDS, _TEXTS, _TEXTS), max_size=3).map(tuple)
_STEPS: st.SearchStrategy[SessionStep] = st.one_of(
    st.builds(SessionPrompt, _TIMES, _TEXTS),
    st.builds(SessionAnswer, _TIMES, _TEXTS, _CALLS, st.sampled_from(["", "x", "y"])),
    st.builds(SessionCallResult, _TIMES, _IDS, _TEXTS, st.booleans()),
    st.builds(SessionFailure, _TIMES, _TEXTS),
    st.builds(SessionForeignRecord, _TIMES, _TEXTS),
    *(st.sampled_from(one("codex", CODEX).steps) for _ in "x"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_STEPS, max_size=12))
def test_any_steps_make_a_sound_thread(steps: list[SessionStep]) -> None:
    assert_sound(draft_of(session_of(*steps)))


_FIELDS = st.sampled_from(
    [
        *("type", "payload", "message", "content", "role", "text", "id", "uuid", "parentUuid"),
        *("timestamp", "tool_use_id", "call_id", "usage", "isSidechain", "toolCalls", "result"),
        *("messages", "$set", "$rewindTo", "parts", "functionCall", "functionResponse", "info"),
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=4),
    max_leaves=8,
)


def damaged(record: Any, path: list[int], value: Any) -> Any:
    """The record with something else in one place."""
    if not path or not isinstance(record, dict | list) or not record:
        return value
    keys = list(record) if isinstance(record, dict) else list(range(len(record)))
    key = keys[path[0] % len(keys)]
    copy = record.copy()
    copy[key] = damaged(record[key], path[1:], value)
    return copy


_RECORDS = {"claude-code": CLAUDE, "codex": CODEX, "gemini": GEMINI_LOG}


@pytest.mark.parametrize("source", sorted(CONVERTERS))
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_order_and_any_garbage_make_sound_threads(source: str, data: st.DataObject) -> None:
    records = list(_RECORDS[source])
    order = data.draw(st.permutations(range(len(records))))
    lines = [records[index] for index in order[: data.draw(st.integers(0, len(order)))]]
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(records) - 1))
        path = data.draw(st.lists(st.integers(0, 9), max_size=5))
        lines.append(damaged(records[place], path, data.draw(_JSON)))
    garbage = data.draw(st.lists(st.text(max_size=8).filter(lambda t: "\n" not in t), max_size=3))
    for session in sessions(source, [*lines, *garbage]):
        assert_sound(draft_of(session))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=7), _JSON)
def test_any_damage_to_a_file_of_one_value_makes_sound_threads(path: list[int], value: Any) -> None:
    for session in convert_value(damaged(GEMINI, path, value), "x", Counter()):
        assert_sound(draft_of(session))
