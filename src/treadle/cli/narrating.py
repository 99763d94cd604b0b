"""A thread's records in words, one after the other, for somebody who follows it live."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.cli.render import describe_call, head
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
    ToolCompleted,
    ToolUncertain,
    UserInput,
)
from treadle.core.messages import ToolCall
from treadle.core.task.events import StateCompleted, StateFailed, TaskGiven, TimeRanOut
from treadle.core.tools import ToolExecutionOutcome
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import (
    Annotated,
    ChildStarted,
    Foreign,
    Granted,
    Imported,
    InputQueued,
    Recovered,
    Renamed,
    Restored,
    Scrubbed,
    TaskEnded,
    ThreadCreated,
    Trashed,
)
from treadle.thread.record import Record


class Line(Struct, frozen=True):
    """A piece of text, and what it is: `who` (who speaks), `said`, `call`, `result` or `aside`."""

    kind: str
    text: str


Calls: TypeAlias = dict[str, ToolCall]


class Narrator:
    """Tells records. Remembers the calls of the last answer only."""

    def __init__(self) -> None:
        self._calls: Calls = {}

    def tell(self, record: Record) -> Iterator[Line]:
        """What a person should read of a record; nothing if it says nothing to people."""
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            yield Line("aside", f"record {record.seq} was written by a newer Treadle")
            return
        if isinstance(entry, LlmEvent.Completed):
            self._calls = {call.id: call for call in entry.response.tool_calls}
        words = _WORDS.get(type(entry))
        if words is not None:
            yield from words(self._calls, entry)


def _says(who: str, text: str) -> Iterator[Line]:
    yield Line("who", f"{who}:")
    yield Line("said", text)


def _prompt(_: Calls, entry: UserInput) -> Iterator[Line]:
    return _says(entry.message.name or entry.message.role, entry.message.content)


def _answer(_: Calls, entry: LlmEvent.Completed) -> Iterator[Line]:
    message = entry.response.message
    if message.content:
        yield from _says(message.role, message.content)
    for call in message.tool_calls:
        yield Line("call", describe_call(call))


def _result(calls: Calls, entry: ToolCompleted) -> Iterator[Line]:
    outcome = entry.outcome
    if len(calls) > 1 or entry.call_id not in calls:
        yield Line("aside", f"{_name(calls, entry.call_id)}:")
    is_good = isinstance(outcome, ToolExecutionOutcome.Success)
    text = (
        outcome.output
        if isinstance(outcome, ToolExecutionOutcome.Success)
        else f"ERROR: {outcome.error.text}"
    )
    yield Line("result" if is_good else "failure", head(text) or "(no output)")


def _name(calls: Calls, call_id: str) -> str:
    return describe_call(calls[call_id]) if call_id in calls else call_id


def _decision(calls: Calls, entry: ApprovalDecided) -> str:
    name = _name(calls, entry.call_id)
    if isinstance(entry.decision, Approved):
        return f"a person allowed {name}"
    if isinstance(entry.decision, Rejected):
        return f"a person refused {name}{_behind(entry.decision.reason)}"
    return f"a person changed {name}: {entry.decision.arguments_json}"


def _behind(reason: str) -> str:
    return f": {reason}" if reason else ""


def _aside(words: Callable[[Any], str]) -> Callable[[Calls, Any], Iterator[Line]]:
    """What says one line, or none."""

    def tell(_: Calls, entry: Any) -> Iterator[Line]:
        if text := words(entry):
            yield Line("aside", text)

    return tell


def _by_call(words: Callable[[Calls, Any], str]) -> Callable[[Calls, Any], Iterator[Line]]:
    def tell(calls: Calls, entry: Any) -> Iterator[Line]:
        yield Line("aside", words(calls, entry))

    return tell


_WORDS: Final[Mapping[type, Callable[[Calls, Any], Iterator[Line]]]] = MappingProxyType(
    {
        ThreadCreated: _aside(lambda e: f"thread begun in {e.workspace}" if e.workspace else ""),
        UserInput: _prompt,
        InputQueued: _aside(lambda e: f"queued: {e.message.content}"),
        TaskGiven: lambda _, e: _says("task", e.task),
        LlmEvent.Completed: _answer,
        LlmEvent.Error: _aside(lambda e: f"the request failed: {e.error.text}"),
        ToolCompleted: _result,
        ToolUncertain: _by_call(
            lambda calls, e: f"{_name(calls, e.call_id)}: it may or may not have happened"
        ),
        ApprovalDecided: _by_call(_decision),
        Granted: _aside(
            lambda e: f"a person allowed {e.tool_name}, up to {e.risk.name.lower()} risk"
        ),
        PostToolsHookCompleted: _aside(lambda e: e.note),
        CompactionRequested: _aside(lambda _: "a person asked for a summary"),
        Compacted: _aside(lambda e: f"a summary stands for the first {e.through} messages"),
        CompactionFailed: _aside(lambda e: f"no summary was written: {e.error.text}"),
        Rewound: _aside(lambda e: f"gone back to version {e.to}"),
        CancelRequested: _aside(lambda e: f"stopped{_behind(e.reason)}"),
        StateCompleted: _aside(lambda e: f"{e.state}: {e.event}"),
        StateFailed: _aside(lambda e: f"{e.state}: failed"),
        TimeRanOut: _aside(lambda _: "the time limit has passed"),
        TaskEnded: _aside(lambda e: f"the task has ended: {e.state}{_behind(e.error)}"),
        ChildStarted: _aside(lambda e: f"a sub-agent works on it in {e.thread}"),
        Recovered: _aside(lambda e: e.note),
        Renamed: _aside(lambda e: f"titled: {e.title}" if e.title else "the title was removed"),
        Annotated: _aside(lambda e: f"note: {e.text}"),
        Scrubbed: _aside(lambda e: f"{e.count} records were scrubbed"),
        Imported: _aside(lambda e: f"imported from {e.source}"),
        Foreign: _aside(lambda _: "a record of another program"),
        Trashed: _aside(lambda _: "put into the trash"),
        Restored: _aside(lambda _: "taken out of the trash"),
    }
)
"""What each kind of record says; those that are not here say nothing to people."""
