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
from treadle.core.conversation import Conversation
from treadle.core.llm import Usage
from treadle.core.messages import is_by_person
from treadle.exchange.journal_builder import ImportedThread
from treadle.exchange.session_builder import CALL_COUNT_MAX, KEPT_COUNT_MAX
from treadle.exchange.session_steps import (
    SessionAnswer,
    SessionForeignRecord,
    SessionParent,
    SessionPrompt,
)
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
    answers = [step for step in one("claude-code", CLAUDE).steps if isinstance(step, SessionAnswer)]
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
    assert [step.text for step in session.steps if isinstance(step, SessionPrompt)] == ["hello"]
    assert len([step for step in session.steps if isinstance(step, SessionForeignRecord)]) == 2


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
    said = [message.content for message in fold.conversation if is_by_person(message)]
    seen = [message.content for message in fold.conversation.in_view]
    assert seen[: len(said) - 1] == said[:-1], "the words of the person are gone"
    assert "They mended add()." in seen[len(said) - 1]


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
    assert (session.name, session.parent) == (f"{NAME}/a1b2", SessionParent(NAME, ""))


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


def seen(draft: ImportedThread) -> list[str]:
    """What a model is shown of the conversation."""
    conversation = fold_of(draft).conversation
    assert isinstance(conversation, Conversation)
    return [message.content for message in conversation.in_view]


def test_a_prompt_that_was_taken_back_is_out_of_view_with_all_that_followed() -> None:
    draft = draft_of(
        one(
            "claude-code",
            [
                claude("user", 0, "first"),
                claude("assistant", 1, [block("one")], message={"id": "m1"}),
                claude("user", 2, "wrong"),
                claude("assistant", 3, [block("lost")], message={"id": "m2"}),
                claude("user", 4, "right", parentUuid="u1"),
                claude("assistant", 5, [block("kept")], message={"id": "m3"}),
            ],
        )
    )
    assert seen(draft) == ["first", "one", "right", "kept"]
    assert [text for _, text in talk_of(draft)] == [
        "first",
        "one",
        "wrong",
        "lost",
        "right",
        "kept",
    ]


def test_results_of_parallel_calls_and_new_beginnings_are_not_taken_back() -> None:
    draft = draft_of(
        one(
            "claude-code",
            [
                claude("user", 0, "go"),
                claude("assistant", 1, [use("a")], message={"id": "m1"}),
                claude("assistant", 2, [use("b")], message={"id": "m1"}),
                claude("user", 3, [result("a", "A")], parentUuid="u1"),
                claude("user", 4, [result("b", "B")], parentUuid="u2"),
                claude("assistant", 5, [block("both")], message={"id": "m2"}),
                claude("user", 6, "anew", parentUuid=None),
                claude("assistant", 7, [block("yes")], message={"id": "m3"}),
            ],
        )
    )
    assert seen(draft) == ["go", "", "A", "B", "both", "anew", "yes"]


def test_what_is_behind_a_compaction_goes_on_from_what_is_before_it() -> None:
    boundary = {**claude("system", 2, ""), "subtype": "compact_boundary", "parentUuid": None}
    records = [
        claude("user", 0, "first"),
        claude("assistant", 1, [block("one")], message={"id": "m1"}),
        claude("user", 12, "wrong", parentUuid="u1"),
        {**boundary, "logicalParentUuid": "u1"},
        claude("user", 3, "right"),
        claude("assistant", 4, [block("two")], message={"id": "m2"}),
    ]
    assert seen(draft_of(one("claude-code", records))) == ["first", "one", "right", "two"]


def test_what_the_program_says_about_its_own_commands_is_no_prompt() -> None:
    noise = [
        "Caveat: The messages below were generated by the user while running local commands. Do",
        "<command-name>/clear</command-name>",
        "<command-message>clear</command-message>",
        "<bash-input>git status</bash-input>",
        "<bash-stdout>clean</bash-stdout>",
        "<local-command-stdout></local-command-stdout>",
    ]
    records = [claude("user", second, text) for second, text in enumerate(noise)]
    draft = draft_of(one("claude-code", [*records, claude("user", 9, "mend the login")]))
    assert talk_of(draft) == [("user", "mend the login")]
    assert draft.title == "mend the login"


def test_a_prompt_that_was_queued_is_one() -> None:
    attached = {"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"}
    told = {**attached, "commandMode": "task-notification"}
    records = [
        claude("user", 0, "go"),
        {"type": "attachment", "uuid": "u1", "sessionId": NAME, "attachment": attached},
        {"type": "attachment", "uuid": "u2", "sessionId": NAME, "attachment": told},
    ]
    assert [text for _, text in talk_of(draft_of(one("claude-code", records)))] == [
        "go",
        "and the docs",
    ]


def test_what_is_left_out_of_too_much_is_counted() -> None:
    calls = claude("assistant", 1, [use("x")] * (CALL_COUNT_MAX + 2), message={"id": "m"})
    session = one("claude-code", [claude("user", 0, "go"), calls, *["{}"] * (KEPT_COUNT_MAX + 3)])
    assert session.problems == (
        f"calls left out, as an answer has up to {CALL_COUNT_MAX}: 2",
        f"records left out, as {KEPT_COUNT_MAX} are kept as they were: 3",
    )
    [answer] = [step for step in session.steps if isinstance(step, SessionAnswer)]
    assert len(answer.calls) == CALL_COUNT_MAX
    assert len(session.steps) < KEPT_COUNT_MAX + 10


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands() -> None:
    half = claude("user", 0, "cut \ud83d", sessionId="s\udc00", gitBranch="\ud800")
    calls = claude("assistant", 1, [use("\ud800", "\ud800", **{"\ud800": "\ud800"})])
    draft = draft_of(one("claude-code", [half, calls]))
    assert talk_of(draft)[0] == ("user", "cut \N{REPLACEMENT CHARACTER}")
    whole = claude("user", 0, "\N{GRINNING FACE}")
    assert talk_of(draft_of(one("claude-code", [whole]))) == [("user", "\N{GRINNING FACE}")]
