"""What of a record people look for: its texts, each with what it is. Pure.

Records are searched, not the document: what a rewind has hidden and what a compaction has summed
up is found all the same, and every text names the version at which it was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from treadle.core import events
from treadle.core.approval import Modified, Rejected
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import (
    StateCompleted,
    StateFailed,
    TaskGiven,
    TaskResumed,
    TimeRanOut,
)
from treadle.core.tools import BlobRef, ToolExecutionOutcome
from treadle.thread import facts
from treadle.thread.branches import event_of
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry


class SearchTextKind(IntEnum):
    """What a text is to a thread. The numbers are stored: they are not given anew."""

    TITLE = 1
    TAG = 2
    NOTE = 3
    """What a person wrote down, or a program keeps with the thread."""
    PROMPT = 4
    ANSWER = 5
    CALL = 6
    """A call's tool and arguments."""
    OUTPUT = 7
    PLACE = 8
    """Folders, project, branch, remote, names of changed files."""
    COMMIT = 9
    """A full commit hash; found by its beginning."""
    OTHER = 10
    """What was told about the work: failures, notes of hooks, records of other programs."""


Text: TypeAlias = tuple[SearchTextKind, str]


def texts_of(
    event: bytes | msgspec.Raw, whole: Callable[[BlobRef], str | None] = lambda _: None
) -> list[Text]:
    """The texts of a record's event that are not empty.

    An event that this version does not know is one text, as it stands.

    Args:
        event: its JSON.
        whole: the whole of an output of which the event has beginning and end; `None` if it is
            not to be had.
    """
    try:
        entry = decode_entry(event)
    except UnknownEntryError:
        raw = bytes(event).decode("utf-8", "replace")
        return [(SearchTextKind.OTHER, _unescaped(raw))]
    found = [(kind, text) for kind, text in _TEXTS[type(entry)](entry) if text.strip()]
    if isinstance(entry, events.ToolCompleted) and entry.outcome.blob is not None:
        text = whole(entry.outcome.blob)
        if text is not None:
            places = [one for one in found if one[0] is not SearchTextKind.OUTPUT]
            return [(SearchTextKind.OUTPUT, text), *places]
    return found


def _none(_: Entry) -> Iterator[Text]:
    yield from ()


def _strings(value: Any) -> Iterator[str]:
    """Every string in builtins, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _unescaped(text: str) -> str:
    """JSON as words: an escaped line break would stick to the word behind it."""
    for escape in ("\\n", "\\t", "\\r", '\\"'):
        text = text.replace(escape, " ")
    return text


def _arguments(text: str) -> str:
    """The words in a call's arguments; a model may write what is no JSON."""
    try:
        return "\n".join(_strings(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return _unescaped(text)


def _calls(calls: Iterable[ToolCall]) -> Iterator[Text]:
    for call in calls:
        yield SearchTextKind.CALL, f"{call.tool_name}\n{_arguments(call.arguments_json)}"


def _said(message: Message) -> Iterator[Text]:
    yield SearchTextKind.PROMPT, message.content
    yield from _calls(message.tool_calls)


def texts_of_message(message: Message) -> list[Text]:
    """The texts of a message as a document holds it; those that are not empty."""
    kinds = {
        "user": SearchTextKind.PROMPT,
        "assistant": SearchTextKind.ANSWER,
        "tool": SearchTextKind.OUTPUT,
    }
    kind = kinds.get(message.role, SearchTextKind.OTHER)
    found = [(kind, message.content), *_calls(message.tool_calls)]
    return [(kind, text) for kind, text in found if text.strip()]


def _header(entry: facts.ThreadCreated) -> Iterator[Text]:
    folders = dict.fromkeys((entry.workspace or "", entry.cwd or ""))
    yield SearchTextKind.PLACE, "\n".join(filter(None, folders))


def _git(entry: facts.GitObserved) -> Iterator[Text]:
    names = (entry.branch or "", entry.remote or "", *entry.changed)
    yield SearchTextKind.PLACE, "\n".join(filter(None, names))
    yield SearchTextKind.COMMIT, entry.head or ""


def _context(entry: facts.ContextObserved) -> Iterator[Text]:
    yield SearchTextKind.PLACE, "\n".join(filter(None, (entry.project_name, entry.directory)))


def _tags(entry: facts.Tagged) -> Iterator[Text]:
    yield SearchTextKind.TAG, "\n".join(entry.added)


def _imported(entry: facts.Imported) -> Iterator[Text]:
    yield SearchTextKind.OTHER, "\n".join((entry.source, entry.session, *entry.problems))
    yield SearchTextKind.PLACE, entry.path


def _completed(entry: events.LlmEvent.Completed) -> Iterator[Text]:
    message = entry.response.message
    yield SearchTextKind.ANSWER, message.content
    yield from _calls(message.tool_calls)


def _result(entry: events.ToolCompleted) -> Iterator[Text]:
    outcome = entry.outcome
    if isinstance(outcome, ToolExecutionOutcome.Error):
        yield SearchTextKind.OUTPUT, outcome.error.text
        return
    yield SearchTextKind.OUTPUT, outcome.output
    yield SearchTextKind.PLACE, "\n".join(outcome.changed)


def _hook(entry: events.PostToolsHookCompleted) -> Iterator[Text]:
    yield SearchTextKind.OTHER, entry.note
    yield SearchTextKind.COMMIT, entry.commit


def _decision(entry: events.ApprovalDecided) -> Iterator[Text]:
    if isinstance(entry.decision, Rejected):
        yield SearchTextKind.NOTE, entry.decision.reason
    elif isinstance(entry.decision, Modified):
        yield SearchTextKind.CALL, _arguments(entry.decision.arguments_json)


def _rewound(entry: events.Rewound) -> Iterator[Text]:
    if entry.view.compaction is not None:
        yield SearchTextKind.ANSWER, entry.view.compaction.summary


def _merged(entry: facts.Merged) -> Iterator[Text]:
    for record in entry.records:
        yield from texts_of(event_of(record))


def _command_shown(entry: facts.CommandShown) -> Iterator[Text]:
    if not entry.id:  # else its beginning was recorded, and is found there
        yield SearchTextKind.CALL, entry.command
    yield SearchTextKind.OUTPUT, entry.output


def _task_state(entry: StateCompleted) -> Iterator[Text]:
    changes = entry.changes
    written = (changes.last_observation, changes.final_answer, changes.error)
    yield SearchTextKind.ANSWER, "\n".join(_strings(written))
    if isinstance(changes.extra, dict):
        yield SearchTextKind.NOTE, "\n".join(_strings(changes.extra))
    told = (text for line in entry.logged for text in (line.event, line.data))
    yield SearchTextKind.OTHER, "\n".join(filter(None, (*entry.notes, *told)))


_TEXTS: Final[Mapping[type, Callable[[Any], Iterable[Text]]]] = MappingProxyType(
    {
        facts.ThreadCreated: _header,
        facts.Configured: _none,
        facts.GitObserved: _git,
        facts.InputQueued: lambda entry: _said(entry.message),
        facts.InputWithdrawn: _none,
        facts.CommandBegun: lambda entry: [
            (SearchTextKind.CALL, entry.command),
            (SearchTextKind.PLACE, entry.folder),
        ],
        facts.CommandShown: _command_shown,
        facts.Recovered: lambda entry: [(SearchTextKind.OTHER, entry.note)],
        facts.Granted: _none,
        facts.KindGranted: _none,
        facts.Revoked: _none,
        facts.ChildStarted: _none,
        facts.TaskEnded: lambda entry: [(SearchTextKind.OTHER, entry.error)],
        facts.ContextObserved: _context,
        facts.FilesSaved: lambda entry: [(SearchTextKind.PLACE, "\n".join(entry.skipped))],
        facts.FilesNotSaved: lambda entry: [(SearchTextKind.OTHER, entry.why)],
        facts.Renamed: lambda entry: [(SearchTextKind.TITLE, entry.title)],
        facts.Tagged: _tags,
        facts.Pinned: _none,
        facts.Annotated: lambda entry: [(SearchTextKind.NOTE, entry.text)],
        facts.ExtraSet: lambda entry: [(SearchTextKind.NOTE, "\n".join(_strings(entry.extra)))],
        facts.Trashed: _none,
        facts.Restored: _none,
        facts.Scrubbed: _none,
        facts.Shared: _none,
        facts.PrivacySet: _none,
        facts.Merged: _merged,
        facts.TakenOver: _none,
        facts.Imported: _imported,
        facts.Foreign: lambda entry: [(SearchTextKind.OTHER, _unescaped(entry.text))],
        events.UserInput: lambda entry: _said(entry.message),
        events.Steered: lambda entry: _said(entry.message),
        events.LlmEvent.Completed: _completed,
        events.LlmEvent.Error: lambda entry: [(SearchTextKind.OTHER, entry.error.text)],
        events.ToolStarted: _none,
        events.ToolUncertain: _none,
        events.ToolCompleted: _result,
        events.PostToolsHookCompleted: _hook,
        events.ApprovalDecided: _decision,
        events.CompactionRequested: lambda entry: [(SearchTextKind.NOTE, entry.focus)],
        events.Compacted: lambda entry: [(SearchTextKind.ANSWER, entry.summary)],
        events.CompactionFailed: lambda entry: [(SearchTextKind.OTHER, entry.error.text)],
        events.Rewound: _rewound,
        events.RetryTimeoutFired: _none,
        events.CancelRequested: lambda entry: [
            (SearchTextKind.ANSWER, entry.partial_text),
            (SearchTextKind.OTHER, entry.reason),
        ],
        TaskGiven: lambda entry: [(SearchTextKind.PROMPT, entry.task)],
        StateCompleted: _task_state,
        StateFailed: _none,
        TimeRanOut: _none,
        TaskResumed: _none,
    }
)
"""Of every entry. Not the same for all threads: system prompts, tools, variables are left out."""
