"""Merging: two machines went on with one thread from the same version. Pure.

The server's records stand as they are. What the other branch did becomes one `Merged` record behind
them, so that nothing is lost, on either side, and every machine reaches the same state by folding.
The position (what is open, what the machine waits for) is the server's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from treadle.core.branch_join import pair_calls_with_results
from treadle.core.events import ToolCompleted
from treadle.core.messages import Message
from treadle.core.tools import ToolExecutionStatus as Status
from treadle.thread.branches import flatten_records
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Merged
from treadle.thread.fold import CHAT, ThreadFold
from treadle.thread.record import Record


def make_merge_record(
    common: ThreadFold,
    ancestor: Record,
    ours: Sequence[Record],
    known_ids: Collection[str],
    host: str,
) -> Merged | None:
    """What is to be recorded behind the other side's records, so that ours are not lost.

    Args:
        common: the thread folded up to the last record that both sides have; it is used up.
        ancestor: that record.
        ours: our own records after it, in order.
        known_ids: the ids of the records the other side has (`branches.known_in`).
        host: our machine, for people.

    Returns:
        `None` if the other side has all of ours already: there is nothing to be recorded.
    """
    lacking = [
        record
        for record in ours
        if record.id not in known_ids
        and any(one.hash not in known_ids for one in flatten_records([record]))
    ]
    if not lacking:
        return None
    branch = _Branch(common)
    added = {record.id for record in lacking}
    for record in ours:
        try:
            branch.add_record(record, is_added=record.id in added)
        except UnknownEntryError:
            break  # what a newer version wrote is kept as it is, and not understood
    is_chat = common.header.machine == CHAT
    return Merged(
        ancestor.seq,
        ancestor.id,
        tuple(
            {
                one.hash: one for one in flatten_records(lacking) if one.hash not in known_ids
            }.values()
        ),
        pair_calls_with_results(branch.list_messages()) if is_chat else (),
        branch.list_undelivered() if is_chat else (),
        host,
    )


class _Branch:
    """What the records that are added bring to the conversation, beside what others bring."""

    def __init__(self, fold: ThreadFold) -> None:
        self._fold = fold
        self._added: list[int] = []
        self._not_ours = list(fold.queued)
        self._held = [False] * len(fold.joining_messages)
        """Of each message that waits to join, whether an added record has brought it."""
        calls = getattr(fold.state, "executions", ())
        self._answered = {one.call_id for one in calls if isinstance(one, Status.Completed)}
        """Calls with a result that others have, too; it may join with an added record."""

    def add_record(self, record: Record, *, is_added: bool) -> None:
        fold, entry = self._fold, decode_entry(record.event)
        start, queued = len(fold.conversation), () if is_added else fold.queued
        fold.apply(record.seq, record.at, entry)
        if isinstance(entry, Merged):
            self._held += [is_added] * len(entry.messages)
        stop = end = len(fold.conversation)
        if (
            self._held and not fold.joining_messages
        ):  # they have joined, behind what the record itself said
            stop = end - len(self._held)
            self._added += (stop + nth for nth, is_ours in enumerate(self._held) if is_ours)
            self._held.clear()
        if is_added:
            self._added += range(start, stop)
        else:
            self._not_ours += (one for one in fold.queued if not any(one is it for it in queued))
            if isinstance(entry, ToolCompleted):
                self._answered.add(entry.call_id)

    def list_messages(self) -> list[Message]:
        """Those that no rewind has taken out of view, in order, and those that wait."""
        conversation = self._fold.conversation
        found = [
            conversation[index]
            for index in sorted(self._added)
            if conversation[index].tool_call_id not in self._answered
            and not any(first <= index < last for first, last in conversation.hidden)
        ]
        waiting = zip(self._fold.joining_messages, self._held, strict=True)
        return [*found, *(message for message, is_ours in waiting if is_ours)]

    def list_undelivered(self) -> tuple[Message, ...]:
        """The prompts of added records that nobody has heard; the same text may be said twice."""
        others = self._not_ours
        return tuple(one for one in self._fold.queued if not any(one is it for it in others))
