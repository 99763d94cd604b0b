"""Sessions of Codex CLI."""

from __future__ import annotations

from typing import Any

import pytest

from case_tables import for_every_row
from exchange.recorded import (
    CODEX,
    META,
    NAME,
    ROUND,
    draft_of,
    entries_of,
    event,
    fold_of,
    item,
    one,
    said,
    talk_of,
    time,
)
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import Usage
from treadle.core.messages import is_by_person
from treadle.exchange.session_steps import SessionCall, SessionCallResult
from treadle.thread.facts import Foreign


def test_a_session_becomes_a_thread_with_all_that_is_known_of_it() -> None:
    draft = draft_of(one("codex", CODEX, "rollout-x"))
    assert talk_of(draft) == ROUND
    document = fold_of(draft).document()
    assert (document.workspace_root, document.model) == ("/w", "openai:gpt-x")
    assert (document.git_branch, document.git_initial_commit_sha) == ("main", "c0ffee")
    assert document.git_remote_url == "host/path"
    assert document.treadle_version == "codex 0.65.0"
    assert draft.repaired == 0


def test_calls_keep_the_text_that_the_model_wrote() -> None:
    entries = entries_of(draft_of(one("codex", CODEX)))
    answers = [entry for entry in entries if isinstance(entry, LlmEvent.Completed)]
    calls = [
        (call.id, call.tool_name, call.arguments_json) for call in answers[0].response.tool_calls
    ]
    assert calls == [
        ("c1", "shell", '{"cmd": "cat"}'),
        ("c2", "apply_patch", '{"input":"*** Begin"}'),
    ]


def test_tokens_that_are_told_twice_count_once() -> None:
    used = fold_of(draft_of(one("codex", CODEX))).usage
    assert used == Usage(18, 4, cache_read_tokens=8, unpriced_tokens=22)


def test_reasoning_and_injected_texts_are_kept_and_copies_dropped() -> None:
    texts = [e.text for e in entries_of(draft_of(one("codex", CODEX))) if isinstance(e, Foreign)]
    assert len(texts) == 3
    assert any("encrypted_content" in text for text in texts)
    assert not any("user_message" in text for text in texts)


def test_the_older_form_has_no_wrapper() -> None:
    first = {"id": NAME, "timestamp": time(0), "instructions": None, "git": {"branch": "main"}}
    state = {"record_type": "state"}
    bare = [record["payload"] for record in CODEX if record["type"] == "response_item"]
    session = one("codex", [first, state, *bare])
    assert (session.name, session.started_at) == (NAME, "2025-10-01T08:00:00.000000Z")
    assert talk_of(draft_of(session)) == ROUND


def test_a_turn_that_was_stopped_is_cancelled() -> None:
    records = [*CODEX[:9], event(9, type="turn_aborted"), item(10, **said("user", "again"))]
    draft = draft_of(one("codex", records))
    assert talk_of(draft)[-2:] == [
        (
            "tool",
            "ERROR: Cancelled: no result of it was recorded; it had started and may have had "
            "effects",
        ),
        ("user", "again"),
    ]
    assert draft.repaired == 1


@pytest.mark.parametrize(
    "payload",
    [
        {"message": "They mended add()."},
        {"message": "", "replacement_history": [said("user", "They mended add().")]},
    ],
)
def test_a_compaction_is_one_here_too(payload: dict[str, Any]) -> None:
    compacted = {"timestamp": time(9), "type": "compacted", "payload": payload}
    fold = fold_of(draft_of(one("codex", [*CODEX, compacted])))
    said = [message.content for message in fold.conversation if is_by_person(message)]
    seen = [message.content for message in fold.conversation.in_view]
    assert seen[:-1] == said, "the words of the person are gone"
    assert "They mended add()." in seen[-1]
    assert len(fold.conversation) == len(ROUND)


@for_every_row(
    "output, text, is_error",
    [
        ("plain", "plain", False),
        ({"content": "told", "success": False}, "told", True),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], "a\n[image]", False),
        ('{"output":"so","metadata":{"exit_code":0}}', "so", False),
        ('{"output":broken', '{"output":broken', False),
        (None, "", False),
        (7, "7", False),
    ],
)
def test_results_come_in_several_forms(output: Any, text: str, is_error: bool) -> None:
    session = one("codex", [item(1, type="function_call_output", call_id="c", output=output)])
    assert session.steps == (SessionCallResult("2025-10-01T08:00:01.000000Z", "c", text, is_error),)


def test_a_local_shell_call_is_a_call() -> None:
    action = {"type": "exec", "command": ["ls"]}
    session = one("codex", [item(1, type="local_shell_call", call_id="c", action=action)])
    step = session.steps[0]
    assert getattr(step, "calls", ()) == (
        SessionCall("c", "local_shell", '{"type":"exec","command":["ls"]}'),
    )


def test_what_a_session_was_forked_from_does_not_rename_it() -> None:
    other = {**META, "payload": {**META["payload"], "id": "another"}}  # type: ignore[dict-item]
    assert one("codex", [*CODEX[:1], other, *CODEX[1:]]).name == NAME


def test_turns_that_were_rolled_back_are_out_of_view() -> None:
    records = [
        META,
        item(1, **said("user", "first")),
        item(2, **said("assistant", "one")),
        item(3, **said("user", "wrong")),
        item(4, **said("assistant", "lost")),
        item(5, **said("user", "worse")),
        item(6, **said("assistant", "lost too")),
        event(7, type="thread_rolled_back", num_turns=0),
        event(7, type="thread_rolled_back", num_turns=2),
        item(8, **said("user", "right")),
        item(9, **said("assistant", "kept")),
    ]
    conversation = fold_of(draft_of(one("codex", records))).conversation
    assert isinstance(conversation, Conversation)
    shown = [message.content for message in conversation.in_view]
    assert shown == ["first", "one", "right", "kept"]
    assert len(conversation) == 8


def test_only_the_request_of_what_an_editor_sends_is_the_prompt() -> None:
    sent = (
        "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nmend it"
    )
    shell = "<user_shell_command>\nls\n</user_shell_command>"
    records = [META, item(1, **said("user", sent)), item(2, **said("user", shell))]
    draft = draft_of(one("codex", records))
    assert (talk_of(draft), draft.title) == ([("user", "mend it")], "mend it")


@for_every_row(
    "output, is_error",
    [
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nboom", True),
        ("Chunk ID: a\nProcess exited with code 2\nOutput:\nFAILED", True),
        ("Exit code: 0\nOutput:\nExit code: 1", False),
        ("he said Exit code: 1", False),
    ],
)
def test_a_result_whose_head_says_so_failed(output: str, is_error: bool) -> None:
    records = [
        META,
        item(1, **said("user", "go")),
        item(2, type="function_call", name="shell", call_id="c", arguments="{}"),
        item(3, type="function_call_output", call_id="c", output=output),
    ]
    [found] = [step for step in one("codex", records).steps if isinstance(step, SessionCallResult)]
    assert found.is_error is is_error
