"""Sessions of Gemini CLI."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from case_tables import for_every_row
from exchange.recorded import (
    GEMINI,
    GEMINI_LOG,
    GEMINI_MESSAGES,
    NAME,
    ROUND,
    answered,
    draft_of,
    entries_of,
    fold_of,
    one,
    spoken,
    talk_of,
    time,
)
from treadle.core.llm import Usage
from treadle.exchange.gemini import convert_value, is_session_data
from treadle.exchange.session_steps import ImportedSession
from treadle.thread.facts import Foreign


def whole(value: Any, stem: str = "session-x") -> ImportedSession:
    [session] = convert_value(value, stem, Counter())
    return session


@pytest.mark.parametrize("session", [whole(GEMINI), one("gemini", GEMINI_LOG)])
def test_a_session_becomes_a_thread_with_all_that_is_known_of_it(session: ImportedSession) -> None:
    draft = draft_of(session)
    assert talk_of(draft) == ROUND
    document = fold_of(draft).document()
    assert (document.workspace_root, document.model) == ("/w", "google:gemini-x")
    assert document.created_at == "2025-10-01T08:00:00.000000Z"
    assert document.metadata.title == "Mend the sum"
    assert document.usage == Usage(
        9, 3, cache_read_tokens=4, reasoning_tokens=1, unpriced_tokens=12
    )
    assert (session.name, draft.repaired) == (NAME, 0)


def test_both_forms_of_a_session_are_the_same_thread() -> None:
    assert draft_of(whole(GEMINI)).thread == draft_of(one("gemini", GEMINI_LOG)).thread


def test_a_message_that_is_written_again_replaces_the_earlier_one() -> None:
    early = {**GEMINI_MESSAGES[1], "toolCalls": []}
    records = [GEMINI_LOG[0], GEMINI_MESSAGES[0], early, *GEMINI_LOG[2:]]
    assert (
        talk_of(draft_of(one("gemini", [*records[:3], GEMINI_MESSAGES[1], *records[3:]]))) == ROUND
    )


def test_what_was_taken_back_is_kept_and_not_said() -> None:
    records = [*GEMINI_LOG, {"$rewindTo": "g2"}, spoken("gemini", 9, "Another way.")]
    draft = draft_of(one("gemini", records))
    assert talk_of(draft) == [("user", "mend add()"), ("assistant", "Another way.")]
    kept = [entry.text for entry in entries_of(draft) if isinstance(entry, Foreign)]
    assert len([text for text in kept if "It adds now." in text]) == 1


def test_taking_back_to_nobody_knows_where_takes_back_all() -> None:
    assert talk_of(draft_of(one("gemini", [*GEMINI_LOG, {"$rewindTo": "?"}]))) == []


def test_a_summary_for_the_model_takes_nothing_out_of_what_was_said() -> None:
    shorter = {**GEMINI_MESSAGES[2], "content": "cut"}
    compressed = {"$set": {"messages": [shorter, spoken("user", 8, "summary")]}}
    talk = talk_of(draft_of(one("gemini", [*GEMINI_LOG, compressed])))
    assert talk == [*ROUND, ("user", "summary")]


def test_a_checkpoint_has_neither_times_nor_ids() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. Today is Monday."}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "mend add()"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "I look.", "thoughtSignature": "x"},
                {"functionCall": {"name": "read_file", "args": {"path": "calc.py"}}},
                {"functionCall": {"name": "read_file", "args": {"path": "test.py"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                *answered("read_file", {"output": "a - b"}),
                *answered("read_file", {"lines": 3}),
            ],
        },
        {"role": "model", "parts": [{"text": "It adds now."}]},
    ]
    for value in (contents, {"history": contents}):
        for part in contents[4]["parts"]:  # type: ignore[union-attr]
            part["functionResponse"].pop("id", None)  # type: ignore[union-attr,index]
        assert is_session_data(value)
        draft = draft_of(whole(value, "checkpoint-tag"))
        assert talk_of(draft) == [
            ("user", "mend add()"),
            ("assistant", "I look."),
            ("tool", "a - b"),
            ("tool", '{"lines":3}'),
            ("assistant", "It adds now."),
        ]
        assert draft.repaired == 0


def test_what_people_typed_becomes_a_thread_for_each_session() -> None:
    entries = [
        {"sessionId": "a", "messageId": 0, "type": "user", "message": "one", "timestamp": time(1)},
        {"sessionId": "b", "messageId": 0, "type": "user", "message": "two", "timestamp": time(2)},
        {"sessionId": "a", "messageId": 1, "type": "user", "message": "more", "timestamp": time(3)},
    ]
    assert is_session_data(entries)
    found = convert_value(entries, "logs", Counter())
    assert [session.name for session in found] == ["a/log", "b/log"]
    assert talk_of(draft_of(found[0])) == [("user", "one"), ("user", "more")]


@for_every_row("value", [None, 3, "x", [], {}, [3], {"messages": 3}, {"history": [{}]}])
def test_anything_else_is_not_taken_for_a_session_and_does_no_harm(value: Any) -> None:
    assert not is_session_data(value)
    for session in convert_value(value, "x", Counter()):
        assert talk_of(draft_of(session)) == []
