"""Records in words: what a person should read of them, besides what was said and called. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.core.approval import Approved, Rejected
from treadle.core.events import (
    ApprovalDecided,
    CancelRequested,
    Compacted,
    CompactionFailed,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
    Rewound,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.task.events import StateCompleted, StateFailed, TimeRanOut
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    Annotated,
    ChildStarted,
    CommandBegun,
    CommandShown,
    FilesNotSaved,
    Foreign,
    Granted,
    Imported,
    InputQueued,
    InputWithdrawn,
    KindGranted,
    Merged,
    PrivacySet,
    Recovered,
    Renamed,
    Restored,
    Revoked,
    Scrubbed,
    Shared,
    TakenOver,
    TaskEnded,
    Trashed,
)

NameOf: TypeAlias = Callable[[str], str]
"""From the id of a call to how people know it."""


class Words(Struct, frozen=True):
    """What happened, in one line; `detail` is what belongs to it, of any length, or empty."""

    text: str
    detail: str = ""

    @property
    def whole(self) -> str:
        """Both, one behind the other."""
        return f"{self.text}: {self.detail}" if self.detail else self.text


def words_of(entry: Entry, name_of: NameOf = str) -> Words | None:
    """What a record says to people; `None` if nothing, or if it is a message, a call or a result.

    Args:
        entry: the record's content.
        name_of: names a call; by default its id does.
    """
    words = _WORDS.get(type(entry))
    found = None if words is None else words(entry, name_of)
    return found if found is not None and found.text else None


def _decided(entry: ApprovalDecided, name_of: NameOf) -> Words:
    name, decision = name_of(entry.call_id), entry.decision
    if isinstance(decision, Approved):
        return Words(f"a person allowed {name}")
    if isinstance(decision, Rejected):
        return Words(f"a person refused {name}", decision.reason)
    return Words(f"a person changed {name}", decision.arguments_json)


def _granted(entry: Granted, _: NameOf) -> Words:
    risk = entry.risk.name.lower()
    return Words(f"a person allowed {entry.tool_name} for good, up to {risk} risk")


def _kind_granted(entry: KindGranted, _: NameOf) -> Words:
    risk, kind = entry.risk.name.lower(), entry.kind
    return Words(f"a person allowed {entry.tool_name}: {kind} for good, up to {risk} risk")


def _revoked(entry: Revoked, _: NameOf) -> Words:
    what = f"{entry.tool_name}: {entry.kind}" if entry.kind else f"all of {entry.tool_name}"
    return Words(f"a person allows {what} for good no longer")


def _started(entry: ToolStarted, name_of: NameOf) -> Words:
    """Only what nothing else says of the call: what held it while it ran."""
    return Words(f"sandbox of {name_of(entry.call_id)}: {entry.confined}" if entry.confined else "")


def _hooked(entry: PostToolsHookCompleted, _: NameOf) -> Words:
    commit = entry.commit[:7]
    if not commit or commit in entry.note:
        return Words(entry.note)
    return Words(f"committed {commit}", entry.note)


def _titled(entry: Renamed, _: NameOf) -> Words:
    if entry.title:
        return Words(f"titled: {entry.title}")
    return Words("" if entry.by == "model" else "the title was taken back")


def _imported(entry: Imported, _: NameOf) -> Words:
    text = f"imported from {entry.source}, session {entry.session}"
    if entry.foreign_count:
        text += f"; {entry.foreign_count} of its records have no counterpart here"
    return Words(text, "\n".join(entry.problems))


def _shared(entry: Shared, _: NameOf) -> Words:
    seen_by = {
        "organization": "the organization may see it",
        "private": "nobody else may see it",
        "public": "anybody may see it",
    }
    told = [] if entry.visibility is None else [seen_by[entry.visibility]]
    if entry.with_support is not None:
        told.append("shared with support" if entry.with_support else "not shared with support")
    return Words(", ".join(told))


def _begun(entry: CommandBegun, _: NameOf) -> Words:
    """For where its end is not known; else that is told alone.

    It may still be running, or have ended after a fork of the thread had begun.
    """
    where = f" in {entry.folder}" if entry.folder else ""
    unknown = "its end is not recorded here, and it is not run again"
    return Words(f"a person began $ {entry.command}{where}: {unknown}")


def _shown(entry: CommandShown, _: NameOf) -> Words:
    ended = f" (exit code {entry.exit_code})" if entry.exit_code else ""
    return Words(f"a person ran $ {entry.command}{ended}", entry.output.rstrip())


def _merged(entry: Merged, _: NameOf) -> Words:
    where = f" on {entry.host}" if entry.host else " on another machine"
    text = f"conflict, merged: what was done{where} after version {entry.version} joins here"
    return Words(text, f"{len(entry.messages)} messages, {len(entry.records)} records")


_WORDS: Final[Mapping[type, Callable[[Any, NameOf], Words | None]]] = MappingProxyType(
    {
        ApprovalDecided: _decided,
        Granted: _granted,
        KindGranted: _kind_granted,
        Revoked: _revoked,
        ToolStarted: _started,
        PostToolsHookCompleted: _hooked,
        LlmEvent.Error: lambda entry, _: Words("the request failed", entry.error.text),
        ToolUncertain: lambda entry, name_of: Words(
            f"{name_of(entry.call_id)}: it may or may not have happened"
        ),
        CompactionRequested: lambda _, __: Words("a person asked for a summary"),
        Compacted: lambda entry, _: Words(
            f"a summary stands for the first {entry.through} messages", entry.summary
        ),
        CompactionFailed: lambda entry, _: Words("no summary was written", entry.error.text),
        Rewound: lambda entry, _: Words(f"gone back to version {entry.to}"),
        CancelRequested: lambda entry, _: Words("stopped", entry.reason),
        InputQueued: lambda entry, _: Words("said meanwhile", entry.message.content),
        InputWithdrawn: lambda _, __: Words(
            "what was said last was taken back before it was heard"
        ),
        CommandBegun: _begun,
        CommandShown: _shown,
        StateCompleted: lambda entry, _: Words(f"{entry.state}: {entry.event}"),
        StateFailed: lambda entry, _: Words(f"{entry.state}: failed"),
        TimeRanOut: lambda _, __: Words("the time limit has passed"),
        TaskEnded: lambda entry, _: Words(f"the task has ended: {entry.state}", entry.error),
        ChildStarted: lambda entry, name_of: Words(
            f"a sub-agent works on {name_of(entry.call_id)} in {entry.thread}"
        ),
        Recovered: lambda entry, _: Words(entry.note),
        FilesNotSaved: lambda entry, _: Words(
            f"the files were not kept as they were {entry.moment} a round", entry.why
        ),
        Renamed: _titled,
        Annotated: lambda entry, _: Words("note", entry.text),
        Scrubbed: lambda entry, _: Words(f"{entry.count} records were scrubbed"),
        Imported: _imported,
        Foreign: lambda _, __: Words("a record of the other program without a counterpart here"),
        Shared: _shared,
        PrivacySet: lambda entry, _: Words(
            "from here on it stays on this machine"
            if entry.is_private
            else "it may leave this machine again"
        ),
        Merged: _merged,
        TakenOver: lambda _, __: Words("gone on with elsewhere: no yes given before counts"),
        Trashed: lambda _, __: Words("put into the trash"),
        Restored: lambda _, __: Words("taken out of the trash"),
    }
)
"""What each kind of record says; those that are not here say nothing."""
