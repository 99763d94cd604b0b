"""A thread's records in words, one after the other, for somebody who follows it live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.app.threads.call_text import describe_call, list_plan_lines, preview_output
from treadle.core.events import Compacted, LlmEvent, Steered, ToolCompleted, UserInput
from treadle.core.messages import ToolCall, describe_attachment
from treadle.core.task.events import TaskGiven
from treadle.core.tool_families import PERSONS_COMMAND
from treadle.core.tools import ToolExecutionOutcome, format_outcome
from treadle.exchange.record_text import describe_record
from treadle.thread.branches import list_ended_command_ids
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.facts import CommandBegun, CommandShown, ThreadCreated
from treadle.thread.plan import read_plan_call
from treadle.thread.record import Record


class WatchLine(Struct, frozen=True):
    """A piece of text, and what it is: `who` (who speaks), `said`, `call`, `result` or `aside`."""

    kind: str
    text: str


CallsById: TypeAlias = dict[str, ToolCall]


class WatchFormatter:
    """Tells records. Remembers the calls of the last answer only."""

    def __init__(self) -> None:
        self._calls: CallsById = {}
        self._begun: dict[str, CommandBegun] = {}
        """The commands of people whose end was not told, nor told of to the model."""

    @property
    def unfinished_commands(self) -> list[str]:
        """What is to be said of commands whose end was not told, when nobody works any more."""
        told = map(describe_record, self._begun.values())
        return [words.text for words in told if words is not None]

    def format_record(self, record: Record) -> Iterator[WatchLine]:
        """What a person should read of a record; nothing if it says nothing to people."""
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            yield WatchLine("aside", f"record {record.seq} was written by a newer Treadle")
            return
        if isinstance(entry, LlmEvent.Completed):
            self._calls = {call.id: call for call in entry.response.tool_calls}
        self._track_commands(entry)
        tell = _FORMATTERS.get(type(entry))
        if tell is not None:
            yield from tell(self._calls, entry)
        elif isinstance(entry, ThreadCreated) and entry.workspace:
            yield WatchLine("aside", f"thread begun in {entry.workspace}")
        elif (
            words := describe_record(entry, lambda call_id: _describe_call_id(self._calls, call_id))
        ) is not None:
            yield WatchLine(
                "aside", words.text if isinstance(entry, Compacted) else words.full_text
            )

    def _track_commands(self, entry: Entry) -> None:
        if isinstance(entry, CommandBegun):
            self._begun[entry.id] = entry
        elif isinstance(entry, UserInput | Steered):
            self._begun.clear()  # the message says it
        for command_id in list_ended_command_ids(entry):
            self._begun.pop(command_id, None)


def _format_message(who: str, text: str) -> Iterator[WatchLine]:
    yield WatchLine("who", f"{who}:")
    yield WatchLine("said", text)


def _format_prompt(_: CallsById, entry: UserInput | Steered) -> Iterator[WatchLine]:
    for attachment in entry.message.attachments:
        yield WatchLine("aside", describe_attachment(attachment))
    yield from _format_message(entry.message.name or entry.message.role, entry.message.content)


def _format_answer(_: CallsById, entry: LlmEvent.Completed) -> Iterator[WatchLine]:
    message = entry.response.message
    if message.content:
        yield from _format_message(message.role, message.content)
    for call in message.tool_calls:
        plan = read_plan_call(call)
        steps = [] if plan is None else list_plan_lines(plan)
        yield WatchLine("call", "\n".join((describe_call(call), *steps)))


def _format_result(calls: CallsById, entry: ToolCompleted) -> Iterator[WatchLine]:
    outcome = entry.outcome
    if len(calls) > 1 or entry.call_id not in calls:
        yield WatchLine("aside", f"{_describe_call_id(calls, entry.call_id)}:")
    is_good = isinstance(outcome, ToolExecutionOutcome.Success)
    text = format_outcome(outcome)
    if isinstance(outcome, ToolExecutionOutcome.Success):
        for attachment in outcome.attachments:
            yield WatchLine("aside", describe_attachment(attachment))
    name = calls[entry.call_id].tool_name if entry.call_id in calls else ""
    shown = preview_output(text, name, is_whole=outcome.blob is None) or "(no output)"
    yield WatchLine("result" if is_good else "failure", shown)


def _format_command(_: CallsById, entry: CommandShown) -> Iterator[WatchLine]:
    yield WatchLine("aside", words.text if (words := describe_record(entry)) is not None else "")
    yield WatchLine(
        "failure" if entry.exit_code else "result",
        preview_output(entry.output, PERSONS_COMMAND) or "(no output)",
    )


def _describe_call_id(calls: CallsById, call_id: str) -> str:
    return describe_call(calls[call_id]) if call_id in calls else call_id


_FORMATTERS: Final[Mapping[type, Callable[[CallsById, Any], Iterable[WatchLine]]]] = (
    MappingProxyType(
        {
            UserInput: _format_prompt,
            Steered: _format_prompt,
            TaskGiven: lambda _, entry: _format_message("task", entry.task),
            LlmEvent.Completed: _format_answer,
            ToolCompleted: _format_result,
            CommandBegun: lambda _, entry: [WatchLine("aside", f"a person runs $ {entry.command}")],
            CommandShown: _format_command,
        }
    )
)
"""What is said, called and answered; of all else `describe_record` tells."""
