"""Merging: two machines went on with one thread from the same version. Pure.

The server's records stand as they are. What the other branch did becomes one `Merged` record behind
them, so that nothing is lost, on either side, and every machine reaches the same state by folding.
The position (what is open, what the machine waits for) is the server's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from treadle.core.joining import made_whole
from treadle.core.messages import Message
from treadle.thread.branches import flat
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Merged
from treadle.thread.fold import CHAT, ThreadFold
from treadle.thread.record import Record


def merge(
    common: ThreadFold, ancestor: Record, ours: Sequence[Record], known: Collection[str], host: str
) -> Merged | None:
    """What is to be recorded behind the other side's records, so that ours are not lost.

    Args:
        common: the thread folded up to the last record that both sides have; it is used up.
        ancestor: that record.
        ours: our own records after it, in order.
        known: the hashes of the records the other side has (`branches.known_in`).
        host: our machine, for people.

    Returns:
        `None` if the other side has all of ours already: there is nothing to be recorded.
    """
    lacking = [
        record
        for record in ours
        if record.hash not in known and any(one.hash not in known for one in flat([record]))
    ]
    if not lacking:
        return None
    added = {record.hash for record in lacking}
    before = len(common.queued)
    spans: list[tuple[int, int]] = []
    for record in ours:
        start = len(common.conversation)
        try:
            common.apply(record.seq, record.at, decode_entry(record.event))
        except UnknownEntryError:
            break  # what a newer version wrote is kept as it is, and not understood
        if record.hash in added:
            spans.append((start, len(common.conversation)))
    is_chat = common.header.machine == CHAT
    return Merged(
        ancestor.seq,
        ancestor.hash,
        tuple(one for one in flat(lacking) if one.hash not in known),
        made_whole(_in_view(common, spans)) if is_chat else (),
        _unheard(common, before) if is_chat else (),
        host,
    )


def _in_view(fold: ThreadFold, spans: Sequence[tuple[int, int]]) -> list[Message]:
    """The messages in these spans that no rewind has taken out of view, and those that wait."""
    hidden = fold.conversation.hidden
    found = [
        fold.conversation[index]
        for start, end in spans
        for index in range(start, end)
        if not any(first <= index < last for first, last in hidden)
    ]
    return [*found, *fold.merging]


def _unheard(fold: ThreadFold, before: int) -> tuple[Message, ...]:
    """The prompts that were queued on our branch and not delivered."""
    return fold.queued[min(before, len(fold.queued)) :]
