"""The append-only conversation, and how much of it a model is shown.

Messages are never deleted. Masking, compaction and rewinding change only what is *in view*: a line
stands for an old result; the person's newest words and a summary stand for the messages before a
cut; what came after the place that was gone back to is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.append_list import AppendList
from treadle.core.messages import (
    Message,
    cut_middle_bytes,
    describe_left_out,
    is_by_person,
    measure_attachments,
)

SUMMARY_HEAD: Final = "[Summary of the conversation so far]\n"
"""How the message begins that alone stands for what is no longer in view."""
SUMMARY_AFTER_WORDS: Final = """\
[Summary of the conversation so far. A model wrote it to make room; the person did not. It stands \
for your messages, calls and results up to here, which you no longer see, and for what the person \
said before the oldest words above. Those words are the person's own and still hold; what the \
summary says is done need not be done again.]
"""
"""How it begins where the person's words stand before it."""


OUTPUT_PREFIX: Final = "output:"
"""Before the id of a call: what a reader of results is asked for."""


class Compaction(Struct, frozen=True, omit_defaults=True):
    """`summary` stands for the first `through` messages in what a model is shown.

    Before it stands what the person said in them: the newest `words` bytes of UTF-8 of it, whole
    messages but for the oldest. Records of earlier versions keep none.
    """

    through: int
    summary: str
    words: int = 0


class Masking(Struct, frozen=True, omit_defaults=True):
    """Of results among the first `through` messages, a line stands for each of more than `size`.

    `size` is in bytes of UTF-8. `reader` is the tool that gives such a result again when it is
    asked for `output:CALL`; empty if the model has none.
    """

    through: int
    size: int
    reader: str = ""


class View(Struct, frozen=True, omit_defaults=True):
    """Which of the first `length` messages a model is shown.

    `compaction` stands for the beginning. `hidden` are the spans that a rewind took out of view,
    from the first index of each up to the one behind its last. `masking` says which results are
    left out.
    """

    length: int
    compaction: Compaction | None = None
    hidden: tuple[tuple[int, int], ...] = ()
    masking: Masking | None = None


def hide_attachments(message: Message) -> Message:
    """The message with a line in place of what it shows besides its text."""
    if not message.attachments:
        return message
    line = describe_left_out(message.attachments, "left out to make room")
    text = f"{message.content}\n{line}" if message.content else line
    return replace(message, content=text, attachments=())


def mask_message(message: Message, masking: Masking) -> Message:
    """The message as masking leaves it; always the same.

    A line stands for a result that is too long, and one for what any message shows besides text.
    """
    message = hide_attachments(message)
    size = len(message.content.encode())
    if message.role != "tool" or size <= masking.size:
        return message
    again = "it cannot be shown again"
    if masking.reader:
        where = msgspec.json.encode(f"{OUTPUT_PREFIX}{message.tool_call_id}").decode()
        again = f"{masking.reader}({where}) has it"
    text = f"[The result of {message.name} was left out to make room: {size} bytes; {again}]"
    return replace(message, content=text)


def _measure_maskable(message: Message) -> int:
    """How many bytes of text masking could take from a message."""
    size = len(message.content.encode()) if message.role == "tool" else 0
    return size + measure_attachments(message.attachments)


class _Places:
    """Where things stand in a list of messages that only grows; shared by all its views.

    `calls` has where each tool call id was first used, `attached` where a message first showed
    something besides its text: `None` while none does.
    """

    __slots__ = ("attached", "calls")

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.attached: int | None = None

    def note(self, index: int, message: Message) -> None:
        """A message stands at this place."""
        for call in message.tool_calls:
            self.calls.setdefault(call.id, index)
        if message.attachments and self.attached is None:
            self.attached = index


class Conversation(AppendList[Message]):
    """An immutable sequence of messages, cheap to extend.

    Args:
        messages: the first messages, oldest first; copied.
    """

    __slots__ = ("_places", "_view", "compaction", "hidden", "masking", "tokens")

    compaction: Compaction | None
    """What stands for the beginning; `None` while everything is in view."""
    hidden: tuple[tuple[int, int], ...]
    """The spans of messages that a rewind took out of view, as `View` has them."""
    masking: Masking | None
    """Which results are left out; `None` while all are shown."""
    tokens: int
    """How much of its context the model had used when it last answered; 0 if nobody knows."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self._places = _Places()
        for index, message in enumerate(self._items):
            self._places.note(index, message)
        self._view: Conversation | None = None
        self.compaction = None
        self.hidden = ()
        self.masking = None
        self.tokens = 0

    def append(self, message: Message) -> Self:
        """A conversation that is this one and `message`; this one stays as it is. O(1)."""
        items, length = self._items, self._length
        if len(items) != length:
            return self._copy().append(message)
        items.append(message)
        if message.tool_calls or message.attachments:
            self._places.note(length, message)
        # Set here and not by `AppendList.append` and `_show_like`: each transition passes here.
        longer = type(self).__new__(type(self))
        longer._items, longer._length, longer._places = items, length + 1, self._places
        longer._view = None if self._view is None else self._view.append(message)
        longer.compaction, longer.hidden = self.compaction, self.hidden
        longer.masking, longer.tokens = self.masking, self.tokens
        return longer

    def _copy(self) -> Self:
        copy = type(self)(self)
        copy._view = self._view
        return copy._show_like(self)

    def _show_like(self, other: Conversation) -> Self:
        """This one, new, with the parts of another one's view and its number of tokens."""
        self.compaction, self.hidden, self.masking = other.compaction, other.hidden, other.masking
        self.tokens = other.tokens
        return self

    def _copy_with_same_messages(self) -> Self:
        same = type(self).__new__(type(self))
        same._items, same._length, same._places = self._items, self._length, self._places
        same._view = self._view
        return same._show_like(self)

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

    def mask(self, masking: Masking) -> Self:
        """The same messages, with old results left out; how many tokens that is, nobody knows."""
        same = self._copy_with_same_messages()
        same.masking = masking
        same.tokens = 0
        same._view = same._select_in_view()
        return same

    @property
    def has_attachments(self) -> bool:
        """Whether any of the messages shows something besides its text. O(1)."""
        attached = self._places.attached
        return attached is not None and attached < self._length

    @property
    def view(self) -> View:
        """Which messages are in view."""
        return View(self._length, self.compaction, self.hidden, self.masking)

    def can_show(self, view: View) -> bool:
        """Whether there is such a view of these messages, with every call beside its results."""
        edges = [edge for span in view.hidden for edge in span]
        order = [0, *edges, view.length, self._length]
        if view.compaction is not None:
            edges.append(view.compaction.through)
            if not 0 < view.compaction.through <= view.length:
                return False
        if view.masking is not None and not 0 < view.masking.through <= view.length:
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
        same.compaction, same.hidden, same.masking = view.compaction, view.hidden, view.masking
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
        if compaction is None and not self.hidden and self.masking is None:
            return None
        through = 0 if compaction is None else compaction.through
        seen = self.list_summary_messages()
        for start, end in (*self.hidden, (self._length, self._length)):
            seen.extend(map(self._mask_message, range(through, start), self[through:start]))
            through = max(through, end)
        return Conversation(seen)

    def _mask_message(self, index: int, message: Message) -> Message:
        """The message, or what stands for the result that it is."""
        masking = self.masking
        if masking is None or index >= masking.through:
            return message
        return mask_message(message, masking)

    def list_summary_messages(self) -> list[Message]:
        """What stands for the messages before the cut: words of the person, then the summary.

        Costs time in proportion to the messages before the cut.
        """
        if self.compaction is None:
            return []
        seen, room = list[Message](), self.compaction.words
        head = SUMMARY_AFTER_WORDS if room else SUMMARY_HEAD
        for index in range(self.compaction.through - 1, -1, -1):
            if room <= 0 or self._is_hidden(index) or not is_by_person(self[index]):
                continue
            said = hide_attachments(self[index])
            seen.append(replace(said, content=cut_middle_bytes(said.content, room)))
            room -= len(self[index].content.encode())
        return [*reversed(seen), Message.note(head + self.compaction.summary)]

    def list_whole_results(self, end: int, size: int) -> list[tuple[int, int]]:
        """The results before index `end` that are shown whole, newest first: index and size.

        Those of more than `size` bytes; and of any message, what it shows besides its text, as the
        bytes of text that cost as much. Costs time in proportion to the messages before the end.
        """
        begin = max(
            0 if self.compaction is None else self.compaction.through,
            0 if self.masking is None else self.masking.through,
        )
        return [
            (index, length)
            for index in range(end - 1, begin - 1, -1)
            if (length := _measure_maskable(self[index])) > size
            and not any(start <= index < stop for start, stop in self.hidden)
        ]

    @property
    def in_view(self) -> Conversation:
        """What a model is shown: all of it, or less after a compaction or a rewind. O(1)."""
        return self if self._view is None else self._view

    def has_call(self, call_id: str) -> bool:
        """Whether an assistant message of this conversation already uses this call id. O(1)."""
        index = self._places.calls.get(call_id)
        return index is not None and index < self._length

    def has_told(self, call_id: str) -> bool:
        """Whether the model knows of the call: it is used here, and no rewind has hidden it."""
        index = self._places.calls.get(call_id, self._length)
        return index < self._length and not self._is_hidden(index)

    def has_said(self, index: int) -> bool:
        """Whether the model knows of the message at this index: no rewind has hidden it."""
        return index < self._length and not self._is_hidden(index)

    def shows(self, index: int) -> bool:
        """Whether the message at this index stands itself in what the model is shown."""
        through = 0 if self.compaction is None else self.compaction.through
        return index >= through and self.has_said(index)

    def _is_hidden(self, index: int) -> bool:
        return any(start <= index < end for start, end in self.hidden)

    def find_result(self, call_id: str) -> Message | None:
        """The result of a call; `None` if there is none yet. Costs as much as its round is long."""
        index = self._places.calls.get(call_id, self._length) + 1
        while index < self._length and (message := self[index]).role == "tool":
            if message.tool_call_id == call_id:
                return message
            index += 1
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        if (self.view, self.tokens) != (other.view, other.tokens):
            return False
        return super().__eq__(other)

    __hash__ = AppendList.__hash__
