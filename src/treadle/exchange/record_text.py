"""Records in words: what a person should read of them, besides what was said and called. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.core import events
from treadle.core.approval import Approved, Rejected
from treadle.core.task.events import StateCompleted, StateFailed, TimeRanOut
from treadle.thread import facts
from treadle.thread.codec import Entry

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


def _decided(entry: events.ApprovalDecided, name_of: NameOf) -> Words:
    name, decision = name_of(entry.call_id), entry.decision
    if isinstance(decision, Approved):
        return Words(f"a person allowed {name}")
    if isinstance(decision, Rejected):
        return Words(f"a person refused {name}", decision.reason)
    return Words(f"a person changed {name}", decision.arguments_json)


def _granted(entry: facts.Granted, _: NameOf) -> Words:
    risk = entry.risk.name.lower()
    return Words(f"a person allowed {entry.tool_name} for good, up to {risk} risk")


def _kind_granted(entry: facts.KindGranted, _: NameOf) -> Words:
    risk, kind = entry.risk.name.lower(), entry.kind
    return Words(f"a person allowed {entry.tool_name}: {kind} for good, up to {risk} risk")


def _revoked(entry: facts.Revoked, _: NameOf) -> Words:
    what = f"{entry.tool_name}: {entry.kind}" if entry.kind else f"all of {entry.tool_name}"
    return Words(f"a person allows {what} for good no longer")


def _started(entry: events.ToolStarted, name_of: NameOf) -> Words:
    """Only what nothing else says of the call: what held it while it ran."""
    return Words(f"sandbox of {name_of(entry.call_id)}: {entry.confined}" if entry.confined else "")


def _hooked(entry: events.PostToolsHookCompleted, _: NameOf) -> Words:
    commit = entry.commit[:7]
    if not commit or commit in entry.note:
        return Words(entry.note)
    return Words(f"committed {commit}", entry.note)


def _titled(entry: facts.Renamed, _: NameOf) -> Words:
    if entry.title:
        return Words(f"titled: {entry.title}")
    return Words("" if entry.by == "model" else "the title was taken back")


def _imported(entry: facts.Imported, _: NameOf) -> Words:
    text = f"imported from {entry.source}, session {entry.session}"
    if entry.foreign_count:
        text += f"; {entry.foreign_count} of its records have no counterpart here"
    return Words(text, "\n".join(entry.problems))


def _shared(entry: facts.Shared, _: NameOf) -> Words:
    seen_by = {
        "organization": "the organization may see it",
        "private": "nobody else may see it",
        "public": "anybody may see it",
    }
    told = [] if entry.visibility is None else [seen_by[entry.visibility]]
    if entry.with_support is not None:
        told.append("shared with support" if entry.with_support else "not shared with support")
    return Words(", ".join(told))


def _begun(entry: facts.CommandBegun, _: NameOf) -> Words:
    """For where its end is not known; else that is told alone.

    It may still be running, or have ended after a fork of the thread had begun.
    """
    where = f" in {entry.folder}" if entry.folder else ""
    unknown = "its end is not recorded here, and it is not run again"
    return Words(f"a person began $ {entry.command}{where}: {unknown}")


def _shown(entry: facts.CommandShown, _: NameOf) -> Words:
    ended = f" (exit code {entry.exit_code})" if entry.exit_code else ""
    return Words(f"a person ran $ {entry.command}{ended}", entry.output.rstrip())


def _merged(entry: facts.Merged, _: NameOf) -> Words:
    where = f" on {entry.host}" if entry.host else " on another machine"
    text = f"conflict, merged: what was done{where} after version {entry.version} joins here"
    return Words(text, f"{len(entry.messages)} messages, {len(entry.records)} records")


_WORDS: Final[Mapping[type, Callable[[Any, NameOf], Words | None]]] = MappingProxyType(
    {
        events.ApprovalDecided: _decided,
        facts.Granted: _granted,
        facts.KindGranted: _kind_granted,
        facts.Revoked: _revoked,
        events.ToolStarted: _started,
        events.PostToolsHookCompleted: _hooked,
        events.LlmEvent.Error: lambda entry, _: Words("the request failed", entry.error.text),
        events.ToolUncertain: lambda entry, name_of: Words(
            f"{name_of(entry.call_id)}: it may or may not have happened"
        ),
        events.CompactionRequested: lambda _, __: Words("a person asked for a summary"),
        events.Compacted: lambda entry, _: Words(
            f"a summary stands for the first {entry.through} messages", entry.summary
        ),
        events.CompactionFailed: lambda entry, _: Words("no summary was written", entry.error.text),
        events.Rewound: lambda entry, _: Words(f"gone back to version {entry.to}"),
        events.CancelRequested: lambda entry, _: Words("stopped", entry.reason),
        facts.InputQueued: lambda entry, _: Words("said meanwhile", entry.message.content),
        facts.InputWithdrawn: lambda _, __: Words(
            "what was said last was taken back before it was heard"
        ),
        facts.CommandBegun: _begun,
        facts.CommandShown: _shown,
        StateCompleted: lambda entry, _: Words(f"{entry.state}: {entry.event}"),
        StateFailed: lambda entry, _: Words(f"{entry.state}: failed"),
        TimeRanOut: lambda _, __: Words("the time limit has passed"),
        facts.TaskEnded: lambda entry, _: Words(f"the task has ended: {entry.state}", entry.error),
        facts.ChildStarted: lambda entry, name_of: Words(
            f"a sub-agent works on {name_of(entry.call_id)} in {entry.thread}"
        ),
        facts.Recovered: lambda entry, _: Words(entry.note),
        facts.FilesNotSaved: lambda entry, _: Words(
            f"the files were not kept as they were {entry.moment} a round", entry.why
        ),
        facts.Renamed: _titled,
        facts.Annotated: lambda entry, _: Words("note", entry.text),
        facts.Scrubbed: lambda entry, _: Words(f"{entry.count} records were scrubbed"),
        facts.Imported: _imported,
        facts.Foreign: lambda _, __: Words(
            "a record of the other program without a counterpart here"
        ),
        facts.Shared: _shared,
        facts.PrivacySet: lambda entry, _: Words(
            "from here on it stays on this machine"
            if entry.is_private
            else "it may leave this machine again"
        ),
        facts.Merged: _merged,
        facts.TakenOver: lambda _, __: Words("gone on with elsewhere: no yes given before counts"),
        facts.Trashed: lambda _, __: Words("put into the trash"),
        facts.Restored: lambda _, __: Words("taken out of the trash"),
    }
)
"""What each kind of record says; those that are not here say nothing."""
