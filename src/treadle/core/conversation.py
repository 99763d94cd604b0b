"""The append-only conversation, and how much of it a model is shown.

Messages are never deleted. Compaction and rewinding change only what is *in view*: the person's
newest words and a summary stand for the messages before a cut; what came after the place that was
gone back to is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.append_list import AppendList
from treadle.core.messages import Message, cut_middle_bytes, is_by_person

SUMMARY_HEAD: Final = "[Summary of the conversation so far]\n"
"""How the message begins that alone stands for what is no longer in view."""
SUMMARY_AFTER_WORDS: Final = """\
[Summary of the conversation so far. A model wrote it to make room; the person did not. It stands \
for your messages, calls and results up to here, which you no longer see, and for what the person \
said before the oldest words above. Those words are the person's own and still hold; what the \
summary says is done need not be done again.]
"""
"""How it begins where the person's words stand before it."""


class Compaction(Struct, frozen=True, omit_defaults=True):
    """`summary` stands for the first `through` messages in what a model is shown.

    Before it stands what the person said in them: the newest `words` bytes of UTF-8 of it, whole
    messages but for the oldest. Records of earlier versions keep none.
    """

    through: int
    summary: str
    words: int = 0


class View(Struct, frozen=True, omit_defaults=True):
    """Which of the first `length` messages a model is shown.

    `compaction` stands for the beginning. `hidden` are the spans that a rewind took out of view,
    from the first index of each up to the one behind its last.
    """

    length: int
    compaction: Compaction | None = None
    hidden: tuple[tuple[int, int], ...] = ()


class Conversation(AppendList[Message]):
    """An immutable sequence of messages, cheap to extend.

    Args:
        messages: the first messages, oldest first; copied.
    """

    __slots__ = ("_call_at", "_view", "compaction", "hidden", "tokens")

    compaction: Compaction | None
    """What stands for the beginning; `None` while everything is in view."""
    hidden: tuple[tuple[int, int], ...]
    """The spans of messages that a rewind took out of view, as `View` has them."""
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
        self.hidden = ()
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
        longer.compaction, longer.hidden = self.compaction, self.hidden
        longer.tokens = self.tokens
        return longer

    def _copy(self) -> Self:
        copy = type(self)(self)
        copy._view = self._view
        copy.compaction, copy.hidden = self.compaction, self.hidden
        copy.tokens = self.tokens
        return copy

    def _copy_with_same_messages(self) -> Self:
        same = type(self).__new__(type(self))
        same._items, same._length, same._call_at = self._items, self._length, self._call_at
        same._view, same.compaction, same.hidden = self._view, self.compaction, self.hidden
        same.tokens = self.tokens
        return same

    def with_tokens(self, tokens: int) -> Self:
        """The same messages, of which the model has read `tokens`. O(1)."""
        same = self._copy_with_same_messages()
        same.tokens = tokens
        return same

    def compact(self, compaction: Compaction) -> Self:
        """The same messages, of which fewer are in view; how many tokens that is, nobody knows."""
        same = self._copy_with_same_messages()
        same.compaction = compaction
        same.tokens = 0
        same._view = same._select_in_view()
        return same

    @property
    def view(self) -> View:
        """Which messages are in view."""
        return View(self._length, self.compaction, self.hidden)

    def can_show(self, view: View) -> bool:
        """Whether there is such a view of these messages, with every call beside its results."""
        edges = [edge for span in view.hidden for edge in span]
        order = [0, *edges, view.length, self._length]
        if view.compaction is not None:
            edges.append(view.compaction.through)
            if not 0 < view.compaction.through <= view.length:
                return False
        return order == sorted(order) and all(map(self._is_whole_before, (*edges, view.length)))

    def _is_whole_before(self, index: int) -> bool:
        """Whether no call before `index` has its result behind it."""
        return index == self._length or self[index].role != "tool"

    def rewind(self, view: View) -> Self:
        """The same messages, of which those are in view that were when `view` was the present one.

        Costs time in proportion to the messages in view.
        """
        same = self._copy_with_same_messages()
        same.compaction, same.hidden = view.compaction, view.hidden
        if view.length < self._length:
            *before, last = view.hidden or ((view.length, view.length),)
            if last[1] != view.length:  # else one goes back again from where one had gone back to
                before, last = [*before, last], (view.length, view.length)
            same.hidden = (*before, (last[0], self._length))
        same.tokens = 0
        same._view = same._select_in_view()
        return same

    def _select_in_view(self) -> Conversation | None:
        """The messages in view, as a conversation of their own; `None` if that is all of them."""
        compaction = self.compaction
        if compaction is None and not self.hidden:
            return None
        through = 0 if compaction is None else compaction.through
        seen = self.list_summary_messages()
        for start, end in (*self.hidden, (self._length, self._length)):
            seen.extend(self[through:start])
            through = max(through, end)
        return Conversation(seen)

    def list_summary_messages(self) -> list[Message]:
        """What stands for the messages before the cut: words of the person, then the summary.

        Costs time in proportion to the messages before the cut.
        """
        if self.compaction is None:
            return []
        seen, room = list[Message](), self.compaction.words
        head = SUMMARY_AFTER_WORDS if room else SUMMARY_HEAD
        for index in range(self.compaction.through - 1, -1, -1):
            is_hidden = any(start <= index < end for start, end in self.hidden)
            if room <= 0 or is_hidden or not is_by_person(self[index]):
                continue
            seen.append(replace(self[index], content=cut_middle_bytes(self[index].content, room)))
            room -= len(self[index].content.encode())
        return [*reversed(seen), Message.note(head + self.compaction.summary)]

    @property
    def in_view(self) -> Conversation:
        """What a model is shown: all of it, or less after a compaction or a rewind. O(1)."""
        return self if self._view is None else self._view

    def has_call(self, call_id: str) -> bool:
        """Whether an assistant message of this conversation already uses this call id. O(1)."""
        index = self._call_at.get(call_id)
        return index is not None and index < self._length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        if (self.view, self.tokens) != (other.view, other.tokens):
            return False
        return super().__eq__(other)

    __hash__ = AppendList.__hash__
