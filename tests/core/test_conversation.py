"""A conversation is a value: appending makes a longer one and leaves every other as it was."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from treadle.core.conversation import Conversation
from treadle.core.messages import Attachment, BlobRef, Message, ToolCall

ids = st.sampled_from(["a", "b", "c", "d"])
SHOT = Attachment("image", "image/png", "shot.png", BlobRef("a" * 64, 10))
messages = st.one_of(
    st.builds(lambda text: Message.user(text, (SHOT,)), st.text(max_size=3)),
    st.builds(Message.user, st.text(max_size=3)),
    st.builds(
        lambda found: Message.assistant("", tuple(ToolCall(i, "look") for i in found)),
        st.lists(ids, max_size=3),
    ),
)


def hundred() -> Conversation:
    return Conversation(Message.user(str(i)) for i in range(100))


class Forks(RuleBasedStateMachine):
    """Conversations grow from any older one in any order; a plain tuple is the model of each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Conversation, tuple[Message, ...]]] = []

    made: Bundle[Any] = Bundle("made")

    def _keep(self, new: Conversation, model: tuple[Message, ...]) -> Any:
        self.seen.append((new, model))
        return new, model

    @rule(target=made, first=st.lists(messages, max_size=3))
    def begin(self, first: list[Message]) -> Any:
        return self._keep(Conversation(first), tuple(first))

    @rule(target=made, pair=made, message=messages)
    def append(self, pair: Any, message: Message) -> Any:
        return self._keep(pair[0].append(message), (*pair[1], message))

    @rule(target=made, pair=made, more=st.lists(messages, max_size=3))
    def extend(self, pair: Any, more: list[Message]) -> Any:
        return self._keep(pair[0].extend(more), (*pair[1], *more))

    @invariant()
    def every_value_ever_made_is_what_it_was(self) -> None:
        for conversation, model in self.seen:
            assert tuple(conversation) == model
            assert len(conversation) == len(model)
            used = {call.id for message in model for call in message.tool_calls}
            assert {i for i in "abcd" if conversation.has_call(i)} == used
            shows = any(message.attachments for message in model)
            assert conversation.has_attachments == shows
            assert conversation.with_tokens(7).has_attachments == shows

    @rule(one=made, other=made)
    def compare(self, one: Any, other: Any) -> None:
        assert (one[0] == other[0]) == (one[1] == other[1])
        if one[0] == other[0]:
            assert hash(one[0]) == hash(other[0])


TestForks = Forks.TestCase
TestForks.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


@given(st.lists(messages, max_size=6), st.integers(-9, 9), st.slices(6))
def test_it_is_indexed_and_sliced_like_a_tuple(
    first: list[Message], index: int, part: slice
) -> None:
    conversation = Conversation(first).append(Message.user("last"))
    model = (*first, Message.user("last"))
    assert conversation[part] == model[part]
    if -len(model) <= index < len(model):
        assert conversation[index] == model[index]
    else:
        with pytest.raises(IndexError):
            conversation[index]


def test_an_older_view_ends_where_it_ended() -> None:
    older = hundred()
    older.append(Message.user("later"))
    assert older[-1] == Message.user("99")
    with pytest.raises(IndexError):
        older[100]


def test_a_longer_conversation_holds_the_very_messages_of_the_shorter_one() -> None:
    older = hundred()
    newer = older.append(Message.user("more"))
    assert all(map(lambda one, other: one is other, older, newer))


def test_appending_shares_its_structure_instead_of_copying_it() -> None:
    kept = [hundred()]
    for _ in range(1000):
        kept.append(kept[-1].append(Message.user("x")))
    lists = {id(conversation._items) for conversation in kept}
    assert len(lists) == 1
    assert sum(sys.getsizeof(conversation) for conversation in kept) < 100 * len(kept)


def test_only_the_second_branch_of_a_fork_copies() -> None:
    trunk = hundred()
    first, second = trunk.append(Message.user("left")), trunk.append(Message.user("right"))
    assert first._items is trunk._items
    assert second._items is not trunk._items
    assert (first[-1].content, second[-1].content) == ("left", "right")


def test_a_call_of_the_newer_view_is_not_a_call_of_the_older_one() -> None:
    older = hundred()
    newer = older.append(Message.assistant("", (ToolCall("a", "look"),)))
    assert newer.has_call("a")
    assert not older.has_call("a")
    assert not older.append(Message.user("fork")).has_call("a")


def test_a_call_used_twice_is_known_from_its_first_use_on() -> None:
    asking = Message.assistant("", (ToolCall("a", "look"),))
    once = Conversation([asking])
    twice = once.append(asking)
    assert once.has_call("a")
    assert twice.has_call("a")


def test_it_equals_no_other_kind_of_sequence() -> None:
    assert Conversation() != ()
    assert Conversation([Message.user("x")]) != (Message.user("x"),)


def test_its_repr_says_how_long_it_is_and_not_what_is_in_it() -> None:
    assert repr(hundred()) == "<Conversation of 100>"
