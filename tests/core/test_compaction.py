"""A conversation is compacted on request, near the limit, and when a request did not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from case_tables import for_every_row
from core.random_events import check_pairs
from core.samples import (
    CONFIG,
    FULL,
    SUMMED_UP,
    TALK,
    Pending,
    answer,
    broken,
    call,
    ended,
    executing,
    machine,
    said,
    unsummed,
)
from treadle.core.actions import (
    DisplayError,
    ExecuteTools,
    RunPostToolsHook,
    SendLlmRequest,
    Summarize,
    WaitForInput,
)
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import (
    CallingLlm,
    Compacting,
    CompactionCause,
    ExecutingTools,
    WaitingForUserInput,
)
from treadle.core.compaction import (
    MESSAGE_LENGTH_MAX,
    SUMMARY_TOKENS_MAX,
    TRANSCRIPT_LENGTH_MAX,
    build_summary_request,
    compute_user_text_size,
    find_cut_at_end,
    find_cut_before_request,
)
from treadle.core.config import COMPACT_AT_TOKENS, AgentConfig
from treadle.core.conversation import (
    SUMMARY_AFTER_WORDS,
    SUMMARY_HEAD,
    Compaction,
    Conversation,
)
from treadle.core.events import (
    AgentEvent,
    CancelRequested,
    Compacted,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
)
from treadle.core.llm import LlmErrorKind, Usage
from treadle.core.messages import Message, is_by_person

TOO_LONG = broken(LlmErrorKind.CONTEXT_TOO_LONG)
FULL_USAGE = Usage(790, 10)
ROUND = (Message.assistant("", (call("a"), call("b"))), Message.tool(call("a"), "one"))
MIDDLE = TALK.extend([*ROUND, Message.tool(call("b"), "two")])
"""In the middle of a turn: a round has just ended."""


def summary(text: str) -> Message:
    return Message.note(SUMMARY_HEAD + text)


def sent(agent: ConversationMachine, event: AgentEvent) -> list[Message]:
    """The messages of the request that follows from the event."""
    action = agent.handle_event(event)
    assert isinstance(action, SendLlmRequest)
    check_pairs(action.request.messages)
    return list(action.request.messages)


def asked(agent: ConversationMachine, event: AgentEvent) -> Summarize:
    action = agent.handle_event(event)
    assert isinstance(action, Summarize)
    assert isinstance(agent.state, Compacting)
    assert agent.state.through == action.through
    return action


# ---- where it may be cut -------------------------------------------------------------------------


def test_when_a_turn_begins_what_the_person_just_said_stays() -> None:
    assert find_cut_before_request(TALK) == 2


def test_in_the_middle_of_a_turn_the_last_round_stays_whole() -> None:
    assert find_cut_before_request(MIDDLE) == 3


def test_when_the_turn_is_over_everything_can_be_summed_up() -> None:
    assert find_cut_at_end(MIDDLE.append(Message.assistant("done"))) == 7


@pytest.mark.parametrize("count", [0, 1])
def test_what_is_one_message_or_none_already_is_not_summed_up(count: int) -> None:
    short = Conversation(TALK[:count])
    assert (find_cut_at_end(short), find_cut_before_request(short.append(Message.user("go")))) == (
        0,
        0,
    )


def test_a_summary_alone_is_not_summed_up_again_but_with_one_more_message_it_is() -> None:
    whole = TALK.compact(Compaction(3, "all of it"))
    assert find_cut_at_end(whole) == 0
    assert find_cut_at_end(whole.append(Message.user("more"))) == 4
    assert find_cut_before_request(SUMMED_UP) == 0
    assert find_cut_before_request(SUMMED_UP.append(Message.user("more"))) == 3


# ---- a person asks for it ------------------------------------------------------------------------


def test_a_person_has_everything_summed_up_and_goes_on_with_the_summary() -> None:
    agent = machine(WaitingForUserInput(TALK))
    action = asked(agent, CompactionRequested("the names"))
    assert action == Summarize(build_summary_request(CONFIG, TALK, 3, "the names"), 3, 1000)
    assert agent.handle_event(Compacted(3, "they said hello")) == WaitForInput()
    assert isinstance(agent.state, WaitingForUserInput)
    assert list(agent.conversation) == list(TALK)
    assert sent(agent, said("next")) == [summary("they said hello"), Message.user("next")]


def test_a_person_who_asks_with_nothing_to_compact_is_told_so() -> None:
    agent = machine()
    before = agent.state
    action = agent.handle_event(CompactionRequested())
    assert action == DisplayError("there is nothing to compact")
    assert agent.state is before


def test_a_person_who_asked_is_told_why_there_is_no_summary() -> None:
    agent = machine(WaitingForUserInput(FULL))
    asked(agent, CompactionRequested())
    error = unsummed().error
    assert agent.handle_event(unsummed()) == DisplayError(f"{error.text}; {error.advice}")
    assert agent.state == WaitingForUserInput(FULL)


# ---- near the limit ------------------------------------------------------------------------------


def near(*statuses: Pending) -> ConversationMachine:
    state = executing(*statuses)
    return machine(ExecutingTools(state.conversation.with_tokens(800), statuses))


def test_what_the_model_has_read_and_written_is_known_from_its_answer() -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(answer("done", usage=Usage(700, 99)))
    assert agent.conversation.tokens == 799
    assert isinstance(agent.handle_event(said()), SendLlmRequest)
    agent.handle_event(answer("done"))
    assert agent.conversation.tokens == 799


def test_where_no_limit_is_known_nothing_is_counted() -> None:
    agent = machine(CallingLlm(TALK), replace(CONFIG, context_tokens_max=0))
    agent.handle_event(answer("done", usage=Usage(10**9, 1)))
    assert agent.conversation.tokens == 0
    assert isinstance(agent.handle_event(said()), SendLlmRequest)


def test_near_the_limit_a_summary_comes_before_the_next_request_of_a_person() -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(answer("done", usage=FULL_USAGE))
    action = asked(agent, said("next"))
    assert action.through == 4
    assert sent(agent, Compacted(4, "sum")) == [summary("sum"), Message.user("next")]
    assert agent.state == CallingLlm(agent.conversation)
    assert (len(agent.conversation), agent.conversation.tokens) == (5, 0)


def test_near_the_limit_a_summary_comes_before_the_request_after_a_round() -> None:
    agent = near(Pending("a", "look"), Pending("b", "look"))
    agent.handle_event(ended("a"))
    assert asked(agent, ended("b")).through == len(TALK)
    messages = sent(agent, Compacted(len(TALK), "sum"))
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool"]


def test_near_the_limit_the_hook_runs_before_the_summary() -> None:
    agent = near(Pending("a", "edit"))
    assert isinstance(agent.handle_event(ended("a")), RunPostToolsHook)
    assert asked(agent, PostToolsHookCompleted(True)).through == len(TALK)
    assert len(sent(agent, Compacted(len(TALK), "sum"))) == 3


def test_without_a_summary_the_request_is_sent_as_it_is_and_it_is_not_tried_at_once_again() -> None:
    agent = machine(WaitingForUserInput(FULL))
    asked(agent, said("next"))
    assert sent(agent, unsummed()) == [*TALK, Message.user("next")]
    agent.handle_event(answer("", call("a")))
    assert isinstance(agent.handle_event(ended("a")), SendLlmRequest)
    agent.handle_event(answer("", call("b"), usage=FULL_USAGE))
    asked(agent, ended("b"))


def test_near_the_limit_with_nothing_to_compact_the_request_is_sent() -> None:
    agent = machine(WaitingForUserInput(Conversation().with_tokens(5000)))
    assert isinstance(agent.handle_event(said()), SendLlmRequest)


# ---- when a request did not fit ------------------------------------------------------------------


def test_a_request_that_did_not_fit_is_sent_again_with_a_summary() -> None:
    agent = machine(CallingLlm(MIDDLE, 1))
    assert asked(agent, TOO_LONG).through == 3
    assert sent(agent, Compacted(3, "sum")) == [summary("sum"), *MIDDLE[3:]]
    assert agent.state == CallingLlm(agent.conversation)


def test_a_request_that_does_not_fit_even_so_is_given_up() -> None:
    agent = machine(CallingLlm(MIDDLE))
    asked(agent, TOO_LONG)
    sent(agent, Compacted(3, "sum"))
    assert isinstance(agent.handle_event(TOO_LONG), DisplayError)
    assert isinstance(agent.state, WaitingForUserInput)


def test_a_request_that_did_not_fit_is_given_up_without_a_summary() -> None:
    """Sending it again would fail again, for ever."""
    agent = machine(CallingLlm(MIDDLE))
    asked(agent, TOO_LONG)
    assert isinstance(agent.handle_event(unsummed()), DisplayError)
    assert agent.state == WaitingForUserInput(MIDDLE)


def test_after_giving_up_the_next_input_leaves_the_last_round_out_too() -> None:
    agent = machine(CallingLlm(MIDDLE))
    asked(agent, TOO_LONG)
    sent(agent, Compacted(3, "sum"))
    agent.handle_event(TOO_LONG)
    assert len(sent(agent, said("shorter"))) == 5
    assert asked(agent, TOO_LONG).through == 6
    assert sent(agent, Compacted(6, "more")) == [summary("more"), Message.user("shorter")]


# ---- what the person said ------------------------------------------------------------------------

ROUNDS = st.sampled_from(("prompt", "note", "answer", "round"))


def conversation_of(kinds: list[str], texts: list[str]) -> Conversation:
    talk = Conversation([Message.user(texts[0])])
    for place, (kind, text) in enumerate(zip(kinds, texts[1:], strict=False)):
        wish = call(f"r{place}")
        talk = talk.extend(
            {
                "prompt": (Message.user(text),),
                "note": (Message.note(text),),
                "answer": (Message.assistant(text),),
                "round": (Message.assistant("", (wish,)), Message.tool(wish, text)),
            }[kind]
        )
    return talk


@given(
    st.lists(ROUNDS, min_size=20, max_size=20),
    st.lists(st.text("aß漢🧵", max_size=30), min_size=21, max_size=21),
    st.lists(st.integers(1, 200), min_size=1, max_size=3),
    st.data(),
)
def test_the_newest_words_of_the_person_stay_before_every_summary(
    kinds: list[str], texts: list[str], sizes: list[int], data: st.DataObject
) -> None:
    talk = conversation_of(kinds, texts)
    cuts = [at for at in range(1, len(talk)) if talk[at].role != "tool"]
    through = 0
    for size in sizes:
        through = data.draw(st.sampled_from([at for at in cuts if at >= through] or cuts[-1:]))
        talk = talk.compact(Compaction(through, "sum", size))
        check_pairs(talk.in_view)
        said = [one.content for one in talk[:through] if is_by_person(one)]
        seen = talk.in_view[:]
        at = seen.index(Message.note(f"{SUMMARY_AFTER_WORDS}sum"))
        kept = [one.content for one in seen[:at]]
        whole, room = list[str](), size
        while said and len(said[-1].encode()) <= room and room:
            room -= len(said[-1].encode())
            whole.insert(0, said.pop())
        assert kept[len(kept) - len(whole) :] == whole
        assert len(kept) - len(whole) == (1 if said and room else 0)
        assert all(map(is_by_person, seen[:at]))
        assert seen[at + 1 :] == talk[through:]
        assert talk == talk.rewind(talk.view)
        assert talk.in_view == talk.rewind(talk.view).in_view


def test_what_was_gone_back_from_is_not_among_the_words_that_stay() -> None:
    talk = MIDDLE.append(Message.user("leave this"))
    talk = talk.rewind(TALK.view).append(Message.user("knit"))
    talk = talk.compact(Compaction(len(talk) - 1, "sum", 1000))
    assert [one.content for one in talk.in_view if is_by_person(one)] == ["hello", "go", "knit"]


def test_words_that_stayed_are_no_reason_to_sum_up_again() -> None:
    whole = MIDDLE.compact(Compaction(3, "sum", 1000))
    assert (
        find_cut_before_request(whole)
        == find_cut_at_end(TALK.compact(Compaction(3, "sum", 1000)))
        == 0
    )
    assert find_cut_at_end(whole) == 6


def test_of_what_did_not_fit_a_quarter_of_the_words_stays_at_most() -> None:
    long = Conversation([Message.user("x" * 400_000), *MIDDLE[1:]])
    known = replace(CONFIG, context_tokens_max=100_000)
    unknown = replace(CONFIG, context_tokens_max=0)
    assert compute_user_text_size(unknown, long, is_too_long=False) == 80_000
    assert compute_user_text_size(known, long, is_too_long=False) == 80_000
    assert (
        compute_user_text_size(replace(known, context_tokens_max=8_000), long, is_too_long=False)
        == 8_000
    )
    assert compute_user_text_size(unknown, MIDDLE, is_too_long=True) == 4_000
    small = Conversation([Message.user("x" * 100_000), *MIDDLE[1:]])
    assert 20_000 < compute_user_text_size(unknown, small, is_too_long=True) < 30_000
    agent = machine(CallingLlm(small), unknown)
    action = asked(agent, TOO_LONG)
    assert [one.role for one in action.request.messages] == ["user"], "a transcript, which is short"
    first, *_ = sent(agent, Compacted(action.through, "sum", words=action.words))
    assert len(first.content) < action.words + 100


# ---- where the limit is --------------------------------------------------------------------------


@for_every_row(
    "window, at, tokens, limit",
    [
        (0, 0.8, 0, 0),
        (1000, 0.8, 0, 800),
        (1000, 0.0, 200_000, 0),
        (0, 0.8, 200_000, 200_000),
        (200_000, 0.8, 200_000, 160_000),
        (250_000, 0.8, 200_000, 200_000),
        (1_000_000, 0.8, 200_000, 200_000),
        (1_000_000, 0.8, 500_000, 500_000),
        (1_000_000, 0.8, 900_000, 800_000),
    ],
)
def test_room_is_made_at_the_lesser_of_tokens_and_a_share_of_the_window(
    window: int, at: float, tokens: int, limit: int
) -> None:
    config = AgentConfig(context_tokens_max=window, compact_at=at, compact_at_tokens=tokens)
    assert config.compact_limit == limit
    assert config.is_near_limit(TALK.with_tokens(limit)) is bool(limit)
    assert not config.is_near_limit(TALK.with_tokens(max(0, limit - 1)))


def test_a_limit_that_nobody_set_is_filled_in_and_one_that_is_set_stays() -> None:
    unset, own = AgentConfig(), AgentConfig(context_tokens_max=5, compact_at_tokens=7)
    assert unset.with_limits(None) == AgentConfig(compact_at_tokens=COMPACT_AT_TOKENS)
    assert unset.with_limits(9).context_tokens_max == 9
    assert own.with_limits(9) == own


def test_where_the_window_is_unknown_what_was_read_is_counted_all_the_same() -> None:
    config = replace(CONFIG, context_tokens_max=0, compact_at_tokens=800)
    agent = machine(CallingLlm(TALK), config)
    agent.handle_event(answer("done", usage=FULL_USAGE))
    assert asked(agent, said("next")).through == 4


# ---- while it runs -------------------------------------------------------------------------------


@for_every_row("cause", list(CompactionCause))
@for_every_row("through", [0, 1, 3])
def test_a_summary_of_another_stretch_is_refused(cause: CompactionCause, through: int) -> None:
    state = Compacting(TALK, 2, cause)
    agent = machine(state)
    assert agent.handle_event(Compacted(through, "sum")) == WaitForInput()
    assert agent.state is state


@for_every_row("cause", list(CompactionCause))
def test_a_cancel_leaves_everything_in_view(cause: CompactionCause) -> None:
    agent = machine(Compacting(FULL, 2, cause))
    assert agent.handle_event(CancelRequested("partial")) == WaitForInput()
    assert agent.state == WaitingForUserInput(FULL)


def test_an_id_that_is_no_longer_in_view_is_still_not_used_again() -> None:
    agent = machine(CallingLlm(MIDDLE.compact(Compaction(6, "sum"))))
    action = agent.handle_event(answer("", call("a")))
    assert isinstance(action, ExecuteTools)
    assert action.calls[0].id not in ("a", "b")


# ---- what is asked of the model ------------------------------------------------------------------


def words(conversation: Conversation, through: int, focus: str = "") -> str:
    request = build_summary_request(CONFIG, conversation, through, focus)
    assert (request.model, request.tools, request.max_tokens) == ("model-1", (), SUMMARY_TOKENS_MAX)
    assert [message.role for message in request.messages] == ["user"]
    return request.messages[0].content


def test_the_request_holds_who_said_what_and_what_was_called_up_to_the_cut_and_no_further() -> None:
    talk = MIDDLE.extend([Message("assistant", "I was", interrupted=True), Message.user("secret")])
    assert words(talk, 7) == (
        "Person: hello\n\nAgent: hi\n\nPerson: go\n\n"
        "Agent: \nAgent calls look (a): {}\nAgent calls look (b): {}\n\n"
        "Result of look (a): one\n\nResult of look (b): two\n\nAgent: I was [interrupted]\n\n"
        "---\nWrite the summary of the conversation above."
    )


def test_what_the_person_wants_to_be_kept_is_asked_for() -> None:
    assert words(TALK, 3, "the names").endswith("Above all, keep this: the names")


def test_a_second_summary_is_made_of_the_first_and_what_came_after_it() -> None:
    first = "x" * 2 * MESSAGE_LENGTH_MAX
    talk = MIDDLE.compact(Compaction(3, first)).append(Message.user("next"))
    config = replace(CONFIG, context_tokens_max=0)
    text = build_summary_request(config, talk, 6).messages[0].content
    assert text.startswith(f"{SUMMARY_HEAD}{first}\n\nAgent: \nAgent calls look (a)")
    assert "hello" not in text
    assert "next" not in text


def test_a_long_message_is_cut_in_the_middle() -> None:
    config = replace(CONFIG, context_tokens_max=0)
    talk = Conversation([Message.user("begin" + "x" * 10_000 + "end"), Message.assistant("ok")])
    text = build_summary_request(config, talk, 2).messages[0].content
    assert text.startswith("Person: begin")
    assert "xend\n\nAgent: ok" in text
    assert "[... 6016 characters left out ...]" in text


@given(st.lists(st.integers(0, 9_000), min_size=2, max_size=80), st.sampled_from([0, 50, 9_000]))
def test_the_request_is_bounded_however_much_was_said(lengths: list[int], tokens: int) -> None:
    config = replace(CONFIG, context_tokens_max=tokens)
    talk = Conversation(Message.user("x" * length) for length in lengths)
    text = build_summary_request(config, talk, len(lengths)).messages[0].content
    assert len(text) <= (2 * tokens or TRANSCRIPT_LENGTH_MAX) + 100


def test_every_message_is_still_there_when_many_are_too_long_together() -> None:
    config = replace(CONFIG, context_tokens_max=20_000)
    talk = Conversation(Message.user(f"<{number}>" + "x" * 5_000) for number in range(60))
    text = build_summary_request(config, talk, 60).messages[0].content
    assert all(f"<{number}>" in text for number in range(60))


def test_deltas_do_not_begin_a_compaction() -> None:
    agent = machine(CallingLlm(FULL))
    agent.handle_event(LlmEvent.TextDelta("x"))
    assert agent.state == CallingLlm(FULL)
