"""What happened between the messages of a thread: approvals, commits, failures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from treadle.core.approval import Approved, Rejected
from treadle.core.events import (
    ApprovalDecided,
    CancelRequested,
    CompactionFailed,
    LlmEvent,
    PostToolsHookCompleted,
    Rewound,
)
from treadle.thread.facts import Annotated, Foreign, Granted, Imported, Recovered, Scrubbed
from treadle.thread.fold import ThreadFold
from treadle.thread.history import Numbered


class Aside(Struct, frozen=True):
    """A line that stands before the message of this `index`; behind the last if there is none."""

    index: int
    version: int
    at: str
    text: str


def asides(fold: ThreadFold, entries: Iterable[Numbered]) -> Iterator[Aside]:
    """The lines of some records, in order.

    Args:
        fold: the thread before the first of them; it is used up.
        entries: the records.
    """
    for seq, at, entry in entries:
        words = _WORDS.get(type(entry))
        text = "" if words is None else words(fold, entry)
        fold.apply(seq, at, entry)
        if text:
            yield Aside(len(fold.conversation), seq, at, text)


def _decided(fold: ThreadFold, entry: ApprovalDecided) -> str:
    names = [one.call.tool_name for one in fold.machine.questions if one.call.id == entry.call_id]
    what = names[0] if names else entry.call_id
    if isinstance(entry.decision, Approved):
        return f"a person allowed {what}"
    if isinstance(entry.decision, Rejected):
        reason = f": {entry.decision.reason}" if entry.decision.reason else ""
        return f"a person refused {what}{reason}"
    return f"a person changed {what}: {entry.decision.arguments_json}"


def _stopped(_: ThreadFold, entry: CancelRequested) -> str:
    return f"stopped: {entry.reason}" if entry.reason else "stopped"


def _imported(_: ThreadFold, entry: Imported) -> str:
    return "; ".join((f"imported from {entry.source}, session {entry.session}", *entry.problems))


_WORDS: Final[Mapping[type, Callable[[ThreadFold, Any], str]]] = MappingProxyType(
    {
        ApprovalDecided: _decided,
        Granted: lambda _, entry: (
            f"a person allowed {entry.tool_name} for good, up to {entry.risk.name.lower()} risk"
        ),
        PostToolsHookCompleted: lambda _, entry: entry.note,
        LlmEvent.Error: lambda _, entry: f"the request failed: {entry.error.text}",
        CompactionFailed: lambda _, entry: f"no summary was written: {entry.error.text}",
        CancelRequested: _stopped,
        Rewound: lambda _, entry: f"gone back to version {entry.to}",
        Recovered: lambda _, entry: entry.note,
        Annotated: lambda _, entry: f"note: {entry.text}",
        Scrubbed: lambda _, entry: f"{entry.count} records were scrubbed",
        Imported: _imported,
        Foreign: lambda _, __: "a record of the other program that has no counterpart here",
    }
)
"""What each kind of record says between messages; those that are not here say nothing."""
