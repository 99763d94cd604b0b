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
from treadle.core.messages import Attachment, BlobRef, Message, ToolCall
from treadle.core.task.events import (
    StateCompleted,
    StateFailed,
    TaskGiven,
    TaskInformed,
    TaskResumed,
    TimeRanOut,
)
from treadle.core.tools import ToolExecutionOutcome
from treadle.thread import facts
from treadle.thread.branches import encode_branch_event
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.output_references import find_kept_output
from treadle.thread.situation import strip_news


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


SearchText: TypeAlias = tuple[SearchTextKind, str]


def list_texts(event: bytes | msgspec.Raw) -> list[SearchText]:
    """The texts of a record's event that are not empty."""
    try:
        return list_entry_texts(decode_entry(event))
    except UnknownEntryError:
        return list_unknown_texts(event)


def list_unknown_texts(event: bytes | msgspec.Raw) -> list[SearchText]:
    """The texts of an event that this version does not know: one, as it stands."""
    return [(SearchTextKind.OTHER, _unescape_json(bytes(event).decode("utf-8", "replace")))]


def list_entry_texts(
    entry: Entry, read_output: Callable[[BlobRef], str | None] = lambda _: None
) -> list[SearchText]:
    """The texts of an entry that are not empty.

    `read_output` gives the whole of an output of which the entry has beginning and end; `None` if
    it is not to be had.
    """
    found = [one for one in TEXT_FUNCTIONS[type(entry)](entry) if one[1] and not one[1].isspace()]
    if (kept := find_kept_output(entry)) is not None:
        text = read_output(kept[1])
        if text is not None:
            places = [one for one in found if one[0] is not SearchTextKind.OUTPUT]
            return [(SearchTextKind.OUTPUT, text), *places]
    return found


def _list_no_texts(_: Entry) -> Iterator[SearchText]:
    yield from ()


def _list_strings(value: Any) -> Iterator[str]:
    """Every string in builtins, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _list_strings(key)
            yield from _list_strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_strings(item)


def _unescape_json(text: str) -> str:
    """JSON as words: an escaped line break would stick to the word behind it."""
    for escape in ("\\n", "\\t", "\\r", '\\"'):
        text = text.replace(escape, " ")
    return text


def _extract_argument_text(text: str) -> str:
    """The words in a call's arguments; a model may write what is no JSON."""
    try:
        return "\n".join(_list_strings(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return _unescape_json(text)


def _list_call_texts(calls: Iterable[ToolCall]) -> Iterator[SearchText]:
    for call in calls:
        yield (
            SearchTextKind.CALL,
            f"{call.tool_name}\n{_extract_argument_text(call.arguments_json)}",
        )


def _list_attachment_texts(attachments: Iterable[Attachment]) -> Iterator[SearchText]:
    yield SearchTextKind.PLACE, "\n".join(one.name for one in attachments)


def _list_prompt_texts(message: Message) -> Iterator[SearchText]:
    # News of the situation stands in many prompts, in our words: nobody looks for these.
    yield SearchTextKind.PROMPT, strip_news(message).content
    yield from _list_attachment_texts(message.attachments)
    yield from _list_call_texts(message.tool_calls)


def list_message_texts(message: Message) -> list[SearchText]:
    """The texts of a message as a document holds it; those that are not empty."""
    kinds = {
        "user": SearchTextKind.PROMPT,
        "assistant": SearchTextKind.ANSWER,
        "tool": SearchTextKind.OUTPUT,
    }
    kind = kinds.get(message.role, SearchTextKind.OTHER)
    found = [(kind, strip_news(message).content), *_list_call_texts(message.tool_calls)]
    return [(kind, text) for kind, text in found if text.strip()]


def _list_header_texts(entry: facts.ThreadCreated) -> Iterator[SearchText]:
    folders = dict.fromkeys((entry.workspace or "", entry.cwd or ""))
    yield SearchTextKind.PLACE, "\n".join(filter(None, folders))


def _list_git_texts(entry: facts.GitObserved) -> Iterator[SearchText]:
    names = (entry.branch or "", entry.remote or "", *entry.changed)
    yield SearchTextKind.PLACE, "\n".join(filter(None, names))
    yield SearchTextKind.COMMIT, entry.head or ""


def _list_context_texts(entry: facts.ContextObserved) -> Iterator[SearchText]:
    yield SearchTextKind.PLACE, "\n".join(filter(None, (entry.project_name, entry.directory)))


def _list_tag_texts(entry: facts.Tagged) -> Iterator[SearchText]:
    yield SearchTextKind.TAG, "\n".join(entry.added)


def _list_import_texts(entry: facts.Imported) -> Iterator[SearchText]:
    yield SearchTextKind.OTHER, "\n".join((entry.source, entry.session, *entry.problems))
    yield SearchTextKind.PLACE, entry.path


def _list_answer_texts(entry: events.LlmEvent.Completed) -> Iterator[SearchText]:
    message = entry.response.message
    yield SearchTextKind.ANSWER, message.content
    yield from _list_call_texts(message.tool_calls)


def _list_result_texts(entry: events.ToolCompleted) -> Iterator[SearchText]:
    outcome = entry.outcome
    if isinstance(outcome, ToolExecutionOutcome.Error):
        yield SearchTextKind.OUTPUT, outcome.error.text
        return
    yield SearchTextKind.OUTPUT, outcome.output
    yield from _list_attachment_texts(outcome.attachments)
    yield SearchTextKind.PLACE, "\n".join(outcome.changed)


def _list_hook_texts(entry: events.PostToolsHookCompleted) -> Iterator[SearchText]:
    yield SearchTextKind.OTHER, entry.note
    yield SearchTextKind.COMMIT, entry.commit


def _list_decision_texts(entry: events.ApprovalDecided) -> Iterator[SearchText]:
    if isinstance(entry.decision, Rejected):
        yield SearchTextKind.NOTE, entry.decision.reason
    elif isinstance(entry.decision, Modified):
        yield SearchTextKind.CALL, _extract_argument_text(entry.decision.arguments_json)


def _list_rewind_texts(entry: events.Rewound) -> Iterator[SearchText]:
    if entry.view.compaction is not None:
        yield SearchTextKind.ANSWER, entry.view.compaction.summary


def _list_merge_texts(entry: facts.Merged) -> Iterator[SearchText]:
    for record in entry.records:
        yield from list_texts(encode_branch_event(record))


def _list_command_texts(entry: facts.CommandShown) -> Iterator[SearchText]:
    if not entry.id:  # else its beginning was recorded, and is found there
        yield SearchTextKind.CALL, entry.command
    yield SearchTextKind.OUTPUT, entry.output


def _list_task_state_texts(entry: StateCompleted) -> Iterator[SearchText]:
    changes = entry.changes
    written = (changes.last_observation, changes.final_answer, changes.error)
    yield SearchTextKind.ANSWER, "\n".join(_list_strings(written))
    if isinstance(changes.extra, dict):
        yield SearchTextKind.NOTE, "\n".join(_list_strings(changes.extra))
    told = (text for line in entry.logged for text in (line.event, line.data))
    yield SearchTextKind.OTHER, "\n".join(filter(None, (*entry.notes, *told)))


TEXT_FUNCTIONS: Final[Mapping[type, Callable[[Any], Iterable[SearchText]]]] = MappingProxyType(
    {
        facts.ThreadCreated: _list_header_texts,
        facts.Configured: _list_no_texts,
        facts.GitObserved: _list_git_texts,
        facts.InputQueued: lambda entry: _list_prompt_texts(entry.message),
        facts.InputWithdrawn: _list_no_texts,
        facts.CommandBegun: lambda entry: [
            (SearchTextKind.CALL, entry.command),
            (SearchTextKind.PLACE, entry.folder),
        ],
        facts.CommandShown: _list_command_texts,
        facts.RequestTaken: _list_no_texts,
        facts.ServerAsked: lambda entry: [(SearchTextKind.OUTPUT, entry.text)],
        facts.ServerAnswered: lambda entry: [(SearchTextKind.OUTPUT, entry.text)],
        facts.BackgroundEnded: lambda entry: [(SearchTextKind.OUTPUT, entry.output)],
        facts.Recovered: lambda entry: [(SearchTextKind.OTHER, entry.note)],
        facts.Granted: _list_no_texts,
        facts.KindGranted: _list_no_texts,
        facts.Revoked: _list_no_texts,
        facts.ChildStarted: _list_no_texts,
        facts.TaskEnded: lambda entry: [(SearchTextKind.OTHER, entry.error)],
        facts.ContextObserved: _list_context_texts,
        facts.FilesSaved: lambda entry: [(SearchTextKind.PLACE, "\n".join(entry.skipped))],
        facts.FilesNotSaved: lambda entry: [(SearchTextKind.OTHER, entry.why)],
        facts.Renamed: lambda entry: [(SearchTextKind.TITLE, entry.title)],
        facts.Tagged: _list_tag_texts,
        facts.Pinned: _list_no_texts,
        facts.Annotated: lambda entry: [(SearchTextKind.NOTE, entry.text)],
        facts.ExtraSet: lambda entry: [
            (SearchTextKind.NOTE, "\n".join(_list_strings(entry.extra)))
        ],
        facts.Trashed: _list_no_texts,
        facts.Restored: _list_no_texts,
        facts.Scrubbed: _list_no_texts,
        facts.Shared: _list_no_texts,
        facts.PrivacySet: _list_no_texts,
        facts.Merged: _list_merge_texts,
        facts.TakenOver: _list_no_texts,
        facts.Imported: _list_import_texts,
        facts.Foreign: lambda entry: [(SearchTextKind.OTHER, _unescape_json(entry.text))],
        events.UserInput: lambda entry: _list_prompt_texts(entry.message),
        events.Steered: lambda entry: _list_prompt_texts(entry.message),
        events.LlmEvent.Completed: _list_answer_texts,
        events.LlmEvent.Error: lambda entry: [(SearchTextKind.OTHER, entry.error.text)],
        events.ToolStarted: _list_no_texts,
        events.ToolUncertain: _list_no_texts,
        events.ToolCompleted: _list_result_texts,
        events.PostToolsHookCompleted: _list_hook_texts,
        events.ApprovalRequired: lambda entry: [
            (SearchTextKind.OTHER, "\n".join(one.reasons)) for one in entry.questions
        ],
        events.ApprovalDecided: _list_decision_texts,
        events.CompactionRequested: lambda entry: [(SearchTextKind.NOTE, entry.focus)],
        events.Compacted: lambda entry: [(SearchTextKind.ANSWER, entry.summary)],
        events.CompactionFailed: lambda entry: [(SearchTextKind.OTHER, entry.error.text)],
        events.ResultsMasked: _list_no_texts,
        events.Rewound: _list_rewind_texts,
        events.RetryTimeoutFired: _list_no_texts,
        events.CancelRequested: lambda entry: [
            (SearchTextKind.ANSWER, entry.partial_text),
            (SearchTextKind.OTHER, entry.reason),
        ],
        TaskGiven: lambda entry: [
            (SearchTextKind.PROMPT, entry.task),
            *_list_attachment_texts(entry.attachments),
        ],
        StateCompleted: _list_task_state_texts,
        StateFailed: _list_no_texts,
        TimeRanOut: _list_no_texts,
        TaskResumed: _list_no_texts,
        TaskInformed: _list_no_texts,
    }
)
"""Of every entry. Not the same for all threads: system prompts, tools, variables are left out."""
