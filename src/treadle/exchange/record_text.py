"""Records in words: what a person should read of them, besides what was said and called. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.core import events
from treadle.core.approval import Approved, Rejected
from treadle.core.task.events import (
    StateCompleted,
    StateFailed,
    TaskGiven,
    TaskInformed,
    TaskResumed,
    TimeRanOut,
)
from treadle.thread import facts
from treadle.thread.codec import Entry

NameOf: TypeAlias = Callable[[str], str]
"""From the id of a call to how people know it."""


class RecordText(Struct, frozen=True):
    """What happened, in one line; `detail` is what belongs to it, of any length, or empty."""

    text: str
    detail: str = ""

    @property
    def full_text(self) -> str:
        """Both, one behind the other."""
        return f"{self.text}: {self.detail}" if self.detail else self.text


def describe_record(entry: Entry, name_of: NameOf = str) -> RecordText | None:
    """What a record says to people; `None` if nothing, or if it is a message, a call or a result.

    Args:
        entry: the record's content.
        name_of: names a call; by default its id does.
    """
    words = DESCRIPTIONS.get(type(entry))
    found = None if words is None else words(entry, name_of)
    return found if found is not None and found.text else None


def _describe_requirement(entry: events.ApprovalRequired, name_of: NameOf) -> RecordText:
    names = ", ".join(name_of(one.call.id) for one in entry.questions)
    reasons = dict.fromkeys(reason for one in entry.questions for reason in one.reasons)
    return RecordText(f"needs a person's yes after all: {names}", "; ".join(reasons))


def _describe_decision(entry: events.ApprovalDecided, name_of: NameOf) -> RecordText:
    name, decision = name_of(entry.call_id), entry.decision
    if isinstance(decision, Approved):
        return RecordText(f"a person allowed {name}")
    if isinstance(decision, Rejected):
        return RecordText(f"a person refused {name}", decision.reason)
    return RecordText(f"a person changed {name}", decision.arguments_json)


def _describe_grant(entry: facts.Granted, _: NameOf) -> RecordText:
    risk = entry.risk.name.lower()
    return RecordText(f"a person allowed {entry.tool_name} for good, up to {risk} risk")


def _describe_kind_grant(entry: facts.KindGranted, _: NameOf) -> RecordText:
    risk, kind = entry.risk.name.lower(), entry.kind
    return RecordText(f"a person allowed {entry.tool_name}: {kind} for good, up to {risk} risk")


def _describe_revocation(entry: facts.Revoked, _: NameOf) -> RecordText:
    what = f"{entry.tool_name}: {entry.kind}" if entry.kind else f"all of {entry.tool_name}"
    return RecordText(f"a person allows {what} for good no longer")


def _describe_sandbox(entry: events.ToolStarted, name_of: NameOf) -> RecordText:
    """Only what nothing else says of the call: what held it while it ran."""
    return RecordText(
        f"sandbox of {name_of(entry.call_id)}: {entry.confined}" if entry.confined else ""
    )


def _describe_workspace_hook(entry: events.PostToolsHookCompleted, _: NameOf) -> RecordText:
    commit = entry.commit[:7]
    if not commit or commit in entry.note:
        return RecordText(entry.note)
    return RecordText(f"committed {commit}", entry.note)


def _describe_title(entry: facts.Renamed, _: NameOf) -> RecordText:
    if entry.title:
        return RecordText(f"titled: {entry.title}")
    return RecordText("" if entry.by == "model" else "the title was taken back")


def _describe_import(entry: facts.Imported, _: NameOf) -> RecordText:
    text = f"imported from {entry.source}, session {entry.session}"
    if entry.foreign_count:
        text += f"; {entry.foreign_count} of its records have no counterpart here"
    return RecordText(text, "\n".join(entry.problems))


def _describe_visibility(entry: facts.Shared, _: NameOf) -> RecordText:
    seen_by = {
        "organization": "the organization may see it",
        "private": "nobody else may see it",
        "public": "anybody may see it",
    }
    told = [] if entry.visibility is None else [seen_by[entry.visibility]]
    if entry.with_support is not None:
        told.append("shared with support" if entry.with_support else "not shared with support")
    return RecordText(", ".join(told))


def _describe_command_start(entry: facts.CommandBegun, _: NameOf) -> RecordText:
    """For where its end is not known; else that is told alone.

    It may still be running, or have ended after a fork of the thread had begun.
    """
    where = f" in {entry.folder}" if entry.folder else ""
    unknown = "its end is not recorded here, and it is not run again"
    return RecordText(f"a person began $ {entry.command}{where}: {unknown}")


def _describe_command(entry: facts.CommandShown, _: NameOf) -> RecordText:
    ended = f" (exit code {entry.exit_code})" if entry.exit_code else ""
    return RecordText(f"a person ran $ {entry.command}{ended}", entry.output.rstrip())


def _describe_background_end(entry: facts.BackgroundEnded, _: NameOf) -> RecordText:
    how = {
        "exit": f"exit code {entry.exit_code}",
        "timeout": "stopped, its time was over",
        "stopped": "stopped",
        "session": "stopped with its session",
        "unknown": "its session died, and nobody knows whether and how it ended",
    }[entry.how]
    text = f"in the background, $ {entry.command} ended ({how})"
    return RecordText(text, entry.output.rstrip())


_ASKED: Final = {
    "approve": "yes to",
    "always": "yes, and always, to",
    "change": "a changed call in place of",
    "reject": "no to",
    "prompt": "said something",
    "steer": "said something into the turn",
    "interrupt": "stopped the turn",
    "start": "began it",
    "cancel": "cancelled the task",
    "retry": "had the task tried again",
}
"""What a request asks for, by its act, behind who made it."""

_WANTED: Final = {
    "form": "a form",
    "visit": "the visit of an address",
    "answer": "a model's answer",
}
_ANSWERED: Final = {
    "accept": "the server got it",
    "decline": "a person has said no to the server",
    "cancel": "the server got no answer",
    "nobody": "the server got no answer: nobody could be asked",
    "limit": "the server was refused: a limit is used up",
}


def _describe_merge(entry: facts.Merged, _: NameOf) -> RecordText:
    where = f" on {entry.host}" if entry.host else " on another machine"
    text = f"conflict, merged: what was done{where} after version {entry.version} joins here"
    return RecordText(text, f"{len(entry.messages)} messages, {len(entry.records)} records")


DescribeRecord: TypeAlias = Callable[[Any, NameOf], RecordText | None]
"""(entry, names of calls) -> words."""

DESCRIPTIONS: Final[Mapping[type, DescribeRecord | None]] = MappingProxyType(
    {
        events.UserInput: None,
        events.Steered: None,
        events.LlmEvent.Completed: None,
        events.ToolCompleted: None,
        events.RetryTimeoutFired: None,
        TaskGiven: None,
        TaskResumed: None,
        facts.ThreadCreated: None,
        facts.Configured: None,
        facts.GitObserved: None,
        facts.ContextObserved: None,
        facts.FilesSaved: None,
        facts.Tagged: None,
        facts.Pinned: None,
        facts.ExtraSet: None,
        events.ApprovalRequired: _describe_requirement,
        events.ApprovalDecided: _describe_decision,
        facts.Granted: _describe_grant,
        facts.KindGranted: _describe_kind_grant,
        facts.Revoked: _describe_revocation,
        events.ToolStarted: _describe_sandbox,
        events.PostToolsHookCompleted: _describe_workspace_hook,
        events.LlmEvent.Error: lambda entry, _: RecordText("the request failed", entry.error.text),
        events.ToolUncertain: lambda entry, name_of: RecordText(
            f"{name_of(entry.call_id)}: it may or may not have happened"
        ),
        events.CompactionRequested: lambda _, __: RecordText("a person asked for a summary"),
        events.Compacted: lambda entry, _: RecordText(
            f"a summary stands for the first {entry.through} messages", entry.summary
        ),
        events.CompactionFailed: lambda entry, _: RecordText(
            "no summary was written", entry.error.text
        ),
        events.ResultsMasked: lambda entry, _: RecordText(
            f"old results among the first {entry.masking.through} messages are not shown any more"
        ),
        events.Rewound: lambda entry, _: RecordText(f"gone back to version {entry.to}"),
        events.CancelRequested: lambda entry, _: RecordText("stopped", entry.reason),
        facts.InputQueued: lambda entry, _: RecordText("said meanwhile", entry.message.content),
        facts.InputWithdrawn: lambda _, __: RecordText(
            "what was said last was taken back before it was heard"
        ),
        facts.CommandBegun: _describe_command_start,
        facts.CommandShown: _describe_command,
        facts.RequestTaken: lambda entry, name_of: RecordText(
            f"{entry.by}: {_ASKED.get(entry.act, entry.act)}"
            + (f" {name_of(entry.call_id)}" if entry.call_id else "")
        ),
        facts.BackgroundEnded: _describe_background_end,
        facts.ServerAsked: lambda entry, _: RecordText(
            f"the server {entry.server} asks for {_WANTED[entry.wants]}", entry.text
        ),
        facts.ServerAnswered: lambda entry, _: RecordText(_ANSWERED[entry.action], entry.text),
        StateCompleted: lambda entry, _: RecordText(f"{entry.state}: {entry.event}"),
        StateFailed: lambda entry, _: RecordText(f"{entry.state}: failed", entry.error),
        TimeRanOut: lambda _, __: RecordText("the time limit has passed"),
        TaskInformed: lambda entry, _: RecordText("the model is told what has changed", entry.text),
        facts.TaskEnded: lambda entry, _: RecordText(
            f"the task has ended: {entry.state}", entry.error
        ),
        facts.ChildStarted: lambda entry, name_of: RecordText(
            f"a sub-agent works on {name_of(entry.call_id)} in {entry.thread}"
        ),
        facts.Recovered: lambda entry, _: RecordText(entry.note),
        facts.FilesNotSaved: lambda entry, _: RecordText(
            f"the files were not kept as they were {entry.moment} a round", entry.why
        ),
        facts.Renamed: _describe_title,
        facts.Annotated: lambda entry, _: RecordText("note", entry.text),
        facts.Scrubbed: lambda entry, _: RecordText(f"{entry.count} records were scrubbed"),
        facts.Imported: _describe_import,
        facts.Foreign: lambda _, __: RecordText(
            "a record of the other program without a counterpart here"
        ),
        facts.Shared: _describe_visibility,
        facts.PrivacySet: lambda entry, _: RecordText(
            "from here on it stays on this machine"
            if entry.is_private
            else "it may leave this machine again"
        ),
        facts.Merged: _describe_merge,
        facts.TakenOver: lambda _, __: RecordText(
            "gone on with elsewhere: no yes given before counts"
        ),
        facts.Trashed: lambda _, __: RecordText("put into the trash"),
        facts.Restored: lambda _, __: RecordText("taken out of the trash"),
    }
)
"""What each kind of record says; `None` for what the messages or the document tell."""
