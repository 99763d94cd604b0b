"""The append-only conversation, and how much of it a model is shown.

Messages are never deleted. Compaction changes only what is *in view*: a summary stands for the
messages before a cut, and what comes after the cut stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from msgspec import Struct

from treadle.core.log import Log
from treadle.core.messages import Message

SUMMARY_HEAD: Final = "[Summary of the conversation so far]\n"
"""How the message begins that stands for what is no longer in view."""


class Compaction(Struct, frozen=True):
    """`summary` stands for the first `through` messages in what a model is shown."""

    through: int
    summary: str


class Conversation(Log[Message]):
    """An immutable sequence of messages, cheap to extend.

    Args:
        messages: the first messages, oldest first; copied.
    """

    __slots__ = ("_call_at", "_view", "compaction", "tokens")

    compaction: Compaction | None
    """What stands for the beginning; `None` while everything is in view."""
    tokens: int
    """How much of its context the model had used when it last answered; 0 if nobody knows."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self._call_at: dict[str, int] = {}
        """Where each tool call id was first used; shared between views like the list."""
        for index, message in enumerate(self._items):
            for call in message.tool_calls:
                self._call_at.setdefault(call.id, index)
        self._view: Conversation | None = None
        self.compaction = None
        self.tokens = 0

    def append(self, message: Message) -> Self:
        """A conversation that is this one and `message`; this one stays as it is. O(1)."""
        if len(self._items) != self._length:
            return self._copy().append(message)
        longer = super().append(message)
        for call in message.tool_calls:
            self._call_at.setdefault(call.id, self._length)
        longer._call_at = self._call_at
        longer._view = None if self._view is None else self._view.append(message)
        longer.compaction = self.compaction
        longer.tokens = self.tokens
        return longer

    def _copy(self) -> Self:
        copy = type(self)(self)
        copy._view = self._view
        copy.compaction = self.compaction
        copy.tokens = self.tokens
        return copy

    def _same_messages(self) -> Self:
        same = type(self).__new__(type(self))
        same._items, same._length, same._call_at = self._items, self._length, self._call_at
        same._view, same.compaction, same.tokens = self._view, self.compaction, self.tokens
        return same

    def with_tokens(self, tokens: int) -> Self:
        """The same messages, of which the model has read `tokens`. O(1)."""
        same = self._same_messages()
        same.tokens = tokens
        return same

    def compact(self, compaction: Compaction) -> Self:
        """The same messages, of which fewer are in view; how many tokens that is, nobody knows."""
        same = self._same_messages()
        summary = Message.note(SUMMARY_HEAD + compaction.summary)
        same._view = Conversation([summary, *self[compaction.through :]])
        same.compaction = compaction
        same.tokens = 0
        return same

    @property
    def in_view(self) -> Conversation:
        """What a model is shown: all of it, or the summary and the messages after the cut. O(1)."""
        return self if self._view is None else self._view

    def has_call(self, call_id: str) -> bool:
        """Whether an assistant message of this conversation already uses this call id. O(1)."""
        index = self._call_at.get(call_id)
        return index is not None and index < self._length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        if (self.compaction, self.tokens) != (other.compaction, other.tokens):
            return False
        return super().__eq__(other)

    __hash__ = Log.__hash__
