"""What joins a conversation is whole, whatever it was cut out of."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from core.random_events import check_pairs
from core.samples import call
from treadle.core.branch_join import UNKNOWN_OUTCOME, join_messages, pair_calls_with_results
from treadle.core.conversation import Conversation
from treadle.core.messages import Message

randoms = st.randoms(use_true_random=True)


def whole_rounds(random: Random, count: int) -> list[Message]:
    """Messages whose pairs are whole, with ids of their own."""
    found: list[Message] = []
    for number in range(count):
        calls = [call(f"c{number}-{nth}") for nth in range(random.randrange(4))]
        found.append(random.choice((Message.user, Message.note))(f"said {number}"))
        found.append(Message.assistant(f"told {number}", calls))
        found += [Message.tool(one, f"done {one.id}") for one in calls]
    return found


@settings(max_examples=150)
@given(randoms, st.integers(0, 5))
def test_whatever_is_left_out_of_whole_messages_they_are_made_whole_again(
    random: Random, count: int
) -> None:
    messages = [one for one in whole_rounds(random, count) if random.random() < 0.7]
    whole = pair_calls_with_results(messages)
    check_pairs(whole)
    said = "\n".join(message.content for message in whole)
    assert all(message.content in said for message in messages), "nothing is lost"


@given(randoms, st.integers(0, 5))
def test_messages_that_are_whole_stay_as_they_are(random: Random, count: int) -> None:
    messages = tuple(whole_rounds(random, count))
    assert (
        pair_calls_with_results(messages)
        == messages
        == pair_calls_with_results(pair_calls_with_results(messages))
    )


@settings(max_examples=60)
@given(randoms, st.integers(0, 5), st.integers(1, 4))
def test_what_joins_has_fresh_ids_and_its_results_with_them(
    random: Random, count: int, times: int
) -> None:
    conversation = Conversation()
    for message in whole_rounds(random, count):
        conversation = conversation.append(message)
    for _ in range(times):
        conversation = join_messages(
            conversation, pair_calls_with_results(whole_rounds(random, count))
        )
    check_pairs(tuple(conversation))
    assert len(conversation) >= count * 2 * (times + 1)
    for asked, told in zip(conversation, tuple(conversation)[1:], strict=False):
        if asked.role == "assistant" and told.role == "tool":
            assert (
                asked.content.partition(" ")[2] == told.content[len("done c") :].partition("-")[0]
            )


def test_an_open_call_is_answered_that_nobody_knows_before_anything_else_is_said() -> None:
    asked = Message.assistant("", (call("a"), call("b")))
    later = Message.user("well?")
    assert pair_calls_with_results([asked, Message.tool(call("b"), "two"), later]) == (
        asked,
        Message.tool(call("a"), UNKNOWN_OUTCOME),
        Message.tool(call("b"), "two"),
        later,
    )


def test_a_result_without_its_call_becomes_a_note_and_never_stands_between_others() -> None:
    asked = Message.assistant("", (call("a"),))
    stray, own = Message.tool(call("x"), "lost"), Message.tool(call("a"), "one")
    whole = pair_calls_with_results([asked, stray, own, own])
    assert [message.role for message in whole] == ["assistant", "tool", "user", "user"]
    assert whole[1] == own
    assert "lost" in whole[2].content
    assert "one" in whole[3].content
