"""What happened between the messages of a thread: approvals, commits, failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.events import Compacted, CompactionRequested, ToolUncertain
from treadle.core.task.events import StateCompleted, StateFailed, TaskInformed, TimeRanOut
from treadle.exchange.record_text import describe_record
from treadle.thread.branches import list_ended_command_ids
from treadle.thread.facts import (
    ChildStarted,
    CommandBegun,
    CommandShown,
    InputQueued,
    InputWithdrawn,
    Merged,
    Renamed,
    Restored,
    TaskEnded,
    Trashed,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.history import NumberedEntry

_SHOWN_ELSEWHERE: Final = (
    *(Compacted, CompactionRequested, ToolUncertain, StateCompleted, StateFailed, TimeRanOut),
    *(ChildStarted, InputQueued, InputWithdrawn, Renamed, Restored, TaskEnded, Trashed),
    TaskInformed,
)
"""What the document, the messages or a note of the recovery say as well."""


class SideEventLine(Struct, frozen=True):
    """A line that stands before the message of this `index`; behind the last if there is none."""

    index: int
    version: int
    at: str
    text: str


def list_side_events(fold: ThreadFold, entries: Iterable[NumberedEntry]) -> Iterator[SideEventLine]:
    """The lines of some records, in order; that of a merge stands before the messages that join.

    Args:
        fold: the thread before the first of them; it is used up.
        entries: the records.
    """
    entries = list(entries)
    ended = {command for _, _, entry in entries for command in list_ended_command_ids(entry)}
    waiting: list[SideEventLine] = []
    for seq, at, entry in entries:
        names = {one.call.id: one.call.tool_name for one in fold.machine.questions}
        is_told = not isinstance(entry, _SHOWN_ELSEWHERE)
        if isinstance(entry, CommandBegun):
            is_told = entry.id not in ended
        words = describe_record(entry, lambda call_id: names.get(call_id, call_id))  # noqa: B023  at once
        joining = len(fold.joining_messages)
        fold.apply(seq, at, entry)
        if words is not None and is_told:
            text = words.text if isinstance(entry, CommandShown) else words.full_text
            told = SideEventLine(len(fold.conversation), seq, at, text)
            if isinstance(entry, Merged) and entry.messages:
                joining += len(entry.messages)
                waiting.append(told)
            else:
                yield told
        if waiting and not fold.joining_messages:
            index = len(fold.conversation) - joining
            yield from (replace(one, index=index) for one in waiting)
            waiting.clear()
    yield from waiting  # a call is still open: they join when it is over
