"""Sessions of Claude Code."""

from __future__ import annotations

from exchange.recorded import (
    CLAUDE,
    NAME,
    block,
    claude,
    draft_of,
    entries_of,
    fold_of,
    one,
    result,
    sessions,
    talk_of,
    time,
    use,
)
from treadle.core.llm import Usage
from treadle.exchange.steps import Answered, Kept, Said
from treadle.thread.facts import Foreign


def test_a_session_becomes_a_thread_with_all_that_is_known_of_it() -> None:
    draft = draft_of(one("claude-code", CLAUDE))
    assert talk_of(draft) == [
        ("user", "mend add()"),
        ("assistant", "I look."),
        ("tool", "a - b"),
        ("assistant", ""),
        ("tool", "ERROR: Failed: no such file"),
        ("assistant", "It adds now."),
    ]
    document = fold_of(draft).document()
    assert document.created_at == "2025-10-01T08:00:00.000000Z"
    assert document.updated_at == "2025-10-01T08:00:06.000000Z"
    assert (document.workspace_root, document.git_branch) == ("/w", "main")
    assert (document.provider, document.model) == ("anthropic", "anthropic:claude-y")
    assert document.treadle_version == "claude-code 2.0.1"
    assert (document.imported_from, document.metadata.title) == ("claude-code", "Mend the sum")
    assert (draft.title, draft.message_count, draft.repaired) == ("Mend the sum", 6, 0)


def test_lines_of_one_answer_are_put_together_and_its_usage_counts_once() -> None:
    answers = [step for step in one("claude-code", CLAUDE).steps if isinstance(step, Answered)]
    assert [len(step.calls) for step in answers] == [1, 1, 0]
    assert answers[0].usage == Usage(
        103, 30, cache_read_tokens=100, cache_write_tokens=0, unpriced_tokens=133
    )


def test_a_call_that_comes_after_the_result_of_another_belongs_to_its_own_answer() -> None:
    session = one(
        "claude-code",
        [
            claude("user", 0, "go"),
            claude("assistant", 1, [use("a")], message={"id": "m1"}),
            claude("user", 2, [result("a")]),
            claude("assistant", 3, [use("b")], message={"id": "m1"}),
            claude("user", 4, [result("b", "well")]),
        ],
    )
    draft = draft_of(session)
    assert [role for role, _ in talk_of(draft)] == ["user", "assistant", "tool", "tool"]
    assert [text for role, text in talk_of(draft) if role == "tool"] == ["fine", "well"]


def test_thinking_is_kept_and_not_said() -> None:
    entries = entries_of(draft_of(one("claude-code", CLAUDE)))
    texts = [entry.text for entry in entries if isinstance(entry, Foreign)]
    assert any('"thinking":"hm"' in text for text in texts)
    assert any("file-history-snapshot" in text for text in texts)
    assert not any("hm" in text for _, text in talk_of(draft_of(one("claude-code", CLAUDE))))


def test_a_summary_of_another_session_is_not_this_ones_title() -> None:
    other = {"type": "summary", "summary": "Another", "leafUuid": "elsewhere"}
    assert draft_of(one("claude-code", [other, *CLAUDE[1:]])).title == "mend add()"


def test_a_title_that_a_person_gave_outranks_one_by_a_model() -> None:
    named = {"type": "custom-title", "customTitle": "Mine", "sessionId": NAME}
    guessed = {"type": "ai-title", "aiTitle": "Its", "sessionId": NAME}
    fold = fold_of(draft_of(one("claude-code", [*CLAUDE, named, guessed])))
    assert (fold.title(), fold.is_named_by_person) == ("Mine", True)


def test_what_the_program_put_into_the_persons_place_is_kept_and_not_said() -> None:
    session = one(
        "claude-code",
        [
            claude("user", 0, "Caveat: ...", isMeta=True),
            claude("user", 1, "<local-command-stdout>ok</local-command-stdout>"),
            claude("user", 2, "hello"),
        ],
    )
    assert [step.text for step in session.steps if isinstance(step, Said)] == ["hello"]
    assert len([step for step in session.steps if isinstance(step, Kept)]) == 2


def test_a_request_that_failed_and_a_stop_bring_the_thread_to_rest() -> None:
    draft = draft_of(
        one(
            "claude-code",
            [
                claude("user", 0, "go"),
                claude("assistant", 1, [block("API Error: 500")], isApiErrorMessage=True),
                claude("user", 2, "again"),
                claude("user", 3, [block("[Request interrupted by user]")]),
                claude("user", 4, "and again"),
                claude("assistant", 5, [block("No response")], message={"model": "<synthetic>"}),
            ],
        )
    )
    assert talk_of(draft) == [("user", "go"), ("user", "again"), ("user", "and again")]
    assert fold_of(draft).is_idle
    assert draft.repaired == 0


def test_a_compaction_is_one_here_too() -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": NAME}
    summary = claude("user", 8, "They mended add().", isCompactSummary=True)
    after = [claude("user", 9, "and sub()"), claude("assistant", 10, [block("So do I.")])]
    fold = fold_of(draft_of(one("claude-code", [*CLAUDE, boundary, summary, *after])))
    assert len(fold.conversation) == 8
    assert [message.content for message in fold.conversation.in_view][-2:] == [
        "and sub()",
        "So do I.",
    ]
    assert "They mended add()." in fold.conversation.in_view[0].content


def test_pictures_and_documents_become_a_mark() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
    session = one("claude-code", [claude("user", 0, [block("see"), picture, {"type": "document"}])])
    assert talk_of(draft_of(session)) == [("user", "see\n[image: image/png]\n[document]")]


def test_a_sub_agent_among_the_records_becomes_a_thread_that_names_its_parent() -> None:
    aside = {"isSidechain": True}
    main, child = sessions(
        "claude-code",
        [
            claude("user", 0, "go"),
            claude("assistant", 1, [use("t", "Task", prompt="look for me")], message={"id": "m"}),
            claude("user", 2, "look for me", uuid="s1", parentUuid=None, **aside),
            claude("assistant", 3, [block("seen")], uuid="s2", parentUuid="s1", **aside),
            claude("user", 4, [result("t", "seen")]),
        ],
    )
    header = fold_of(draft_of(child)).header
    assert (header.parent, header.parent_call) == (draft_of(main).thread, "t")
    assert header.depth == 1
    assert talk_of(draft_of(child)) == [("user", "look for me"), ("assistant", "seen")]
    assert [role for role, _ in talk_of(draft_of(main))] == ["user", "assistant", "tool"]


def test_the_file_of_a_sub_agent_is_one_session_by_itself() -> None:
    of_agent = {"isSidechain": True, "agentId": "a1b2"}
    [session] = sessions(
        "claude-code",
        [claude("user", 0, "look", **of_agent), claude("assistant", 1, "seen", **of_agent)],
        "agent-a1b2",
    )
    assert (session.name, session.parent) == (f"{NAME}/a1b2", None)


def test_records_that_stand_twice_count_once() -> None:
    session = one("claude-code", [*CLAUDE, *CLAUDE[1:4]])
    assert session.problems == ("records that are repeated: 3",)
    assert talk_of(draft_of(session)) == talk_of(draft_of(one("claude-code", CLAUDE)))


def test_a_file_is_named_after_the_session_that_it_goes_on_from_only_if_it_has_no_name() -> None:
    assert one("claude-code", CLAUDE, "some-file").name == NAME
    assert one("claude-code", [{"type": "x"}], "some-file").name == "some-file"
    resumed = {**claude("user", 20, "on"), "sessionId": "another"}
    assert one("claude-code", [*CLAUDE, resumed], "another").name == "another"


def test_an_unfinished_last_line_is_told_and_not_counted() -> None:
    whole = one("claude-code", CLAUDE)
    cut = one("claude-code", [*CLAUDE, '{"type":"user","message":{"ro'])
    assert cut.record_count == whole.record_count
    assert cut.problems == ("records that are no JSON: 1",)
    assert talk_of(draft_of(cut)) == talk_of(draft_of(whole))
    assert cut.started_at == "2025-10-01T08:00:00.000000Z"
    assert time(0).startswith("2025-10-01T08:00:00")
