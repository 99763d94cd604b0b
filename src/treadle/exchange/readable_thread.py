"""What happened in a thread, turn by turn, for people to read. Pure.

Told from the thread's records, so that it says more than the messages do: who allowed a call, what
was committed, what was taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.events import CompactionRequested, Steered
from treadle.core.llm import Usage
from treadle.core.messages import NOTE, Attachment, BlobRef, Message, ToolCall, describe_attachment
from treadle.core.task.events import StateFailed
from treadle.exchange.journal_files import JournalPart
from treadle.exchange.record_text import describe_record
from treadle.thread.branches import list_ended_command_ids
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.commits import MadeCommit, read_commit
from treadle.thread.document import Thread
from treadle.thread.facts import (
    ChildStarted,
    CommandBegun,
    Foreign,
    Restored,
    ThreadCreated,
    Trashed,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.output_references import find_kept_output
from treadle.thread.record import Record
from treadle.thread.safe_text import sanitize_text
from treadle.thread.thoughts import list_thoughts
from treadle.thread.usage import UsageState, add_usage_to_turn
from treadle.thread.web_searches import describe_web_search, list_web_searches

THINKING: Final = "thinking"
"""The text of a note whose detail is what the model has thought."""


class ReadableMessage(Struct, frozen=True):
    """A message in words. `who` is the role, or `note` for what no person wrote.

    The `version` of an item is that of the thread with it; 0 if it came before a fork began.
    """

    at: str
    who: str
    text: str
    index: int
    is_cut: bool = False
    is_hidden: bool = False
    version: int = 0


class ReadableCall(Struct, frozen=True):
    """A call and, once it has one, its result as the model read it."""

    at: str
    call_id: str
    tool_name: str
    arguments: str
    index: int
    result: str | None = None
    is_hidden: bool = False
    version: int = 0


class ReadableNote(Struct, frozen=True):
    """Something else that happened; `text` is one sentence, `detail` what belongs to it.

    `attachment` is the picture or document, `commit` the commit that it tells of.
    """

    at: str
    text: str
    detail: str = ""
    version: int = 0
    attachment: Attachment | None = None
    commit: MadeCommit | None = None


ReadableItem: TypeAlias = ReadableMessage | ReadableCall | ReadableNote


class ReadableTurn(Struct, frozen=True):
    """A turn: its number from 1 (0 for what came before the first), when it began, what it used."""

    number: int
    at: str
    items: tuple[ReadableItem, ...]
    usage: Usage | None = None


class ReadableThread(Struct, frozen=True):
    """A thread as it is told.

    Args:
        document: what it is as a whole.
        turns: what happened.
        problem: why it stops early, if it does.
        kept: where all is that calls put out, by their ids, if that is more than the result.
    """

    document: Thread
    turns: tuple[ReadableTurn, ...]
    problem: str = ""
    kept: Mapping[str, BlobRef] = MappingProxyType({})


def make_readable_thread(parts: Sequence[JournalPart]) -> ReadableThread:
    """The story of a thread.

    Args:
        parts: the journals, that of the thread last; before it those it was forked from, each up to
            where the next goes on.

    Raises:
        UnknownEntryError: not even the header can be read by this version.
    """
    builder = ReadableThreadBuilder()
    for part in parts:
        builder.add_records(part.records, is_own=part is parts[-1])
    return builder.build()


_SKIPPED_ENTRIES: Final = (
    CompactionRequested,
    StateFailed,
    ChildStarted,
    Foreign,
    Restored,
    Trashed,
)
"""What another record, or the page as a whole, says better."""


class ReadableThreadBuilder:
    """Tells a thread record by record, so that who watches it has only what is new told.

    All that it has told can be had at any moment; `build` costs by what has come since the last.
    """

    def __init__(self) -> None:
        self._fold: ThreadFold | None = None
        self._turns: list[tuple[str, list[ReadableItem | None]]] = [("", [])]
        self._built: list[ReadableTurn | None] = []
        self._changed: set[int] = set()
        self._hidden: tuple[tuple[int, int], ...] = ()
        self._usage = UsageState()
        self._spent: dict[int, Usage] = {}
        self._kept: dict[str, BlobRef] = {}
        self._count = 0
        self._version = 0
        self._place_of: dict[str, tuple[int, int]] = {}
        self._begun: dict[str, tuple[int, int]] = {}
        self._problem = ""

    def add_records(self, records: Iterable[Record], *, is_own: bool) -> None:
        """Go on with records of a journal; one that cannot be read ends the story before it.

        Args:
            records: those behind the last one; behind another journal all of the next.
            is_own: whether they are the thread's own, not of what it was forked from.

        Raises:
            UnknownEntryError: not even the header can be read by this version.
        """
        for record in records:
            if self._problem:
                return
            if record.seq == 1:
                self._begin_journal(record)
            self._version = record.seq if is_own else 0
            try:
                self._add_record(record)
            except UnknownEntryError as error:
                self._problem = (
                    f"record {record.seq} cannot be read by this version: {error.message}"
                )

    def _begin_journal(self, record: Record) -> None:
        header = decode_entry(record.event)
        if not isinstance(header, ThreadCreated):
            raise UnknownEntryError("record 1 does not create a thread")
        if self._fold is None:
            self._fold = ThreadFold(header)
        else:
            self._fold = self._fold.make_fork(header)
            told = f"forked: {header.thread} goes on from here"
            self._add_item(ReadableNote(record.at, told))

    def _add_record(self, record: Record) -> None:
        assert self._fold is not None
        entry = decode_entry(record.event)
        self._fold.apply(record.seq, record.at, entry)
        used = self._usage.read_entry(record.seq, record.at, entry)
        if used is not None:
            add_usage_to_turn(self._spent, used)
            self._changed.add(used.turn)
        kept = find_kept_output(entry)
        if kept is not None:
            self._kept[kept[0]] = kept[1]
        # The end of a command tells all of it: its begin is told as long as it has none.
        for ended in list_ended_command_ids(entry):
            self._drop_item(self._begun.pop(ended, None))
        is_told = not isinstance(entry, _SKIPPED_ENTRIES)
        words = describe_record(entry, self._name_call) if is_told else None
        if words is not None:
            if isinstance(entry, CommandBegun):
                self._begun[entry.id] = len(self._turns) - 1, len(self._turns[-1][1])
            text, detail = sanitize_text(words.text), sanitize_text(words.detail)
            self._add_item(ReadableNote(record.at, text, detail, commit=read_commit(entry)))
        self._add_new_messages(record.at, is_in_turn=isinstance(entry, Steered))

    def _name_call(self, call_id: str) -> str:
        """The tool of a call, and its id as the calls are marked with."""
        turn, place = self._place_of.get(call_id, (-1, -1))
        called = self._turns[turn][1][place] if place >= 0 else None
        return f"{called.tool_name} ({call_id})" if isinstance(called, ReadableCall) else call_id

    def _add_item(self, item: ReadableItem) -> None:
        self._changed.add(len(self._turns) - 1)
        self._turns[-1][1].append(replace(item, version=self._version))

    def _drop_item(self, place: tuple[int, int] | None) -> None:
        """Leave an item out; the places of the others stay."""
        if place is not None:
            self._changed.add(place[0])
            self._turns[place[0]][1][place[1]] = None

    def _add_new_messages(self, at: str, *, is_in_turn: bool) -> None:
        """Tell the messages that have come since; of a person's, those in a turn begin none."""
        assert self._fold is not None
        conversation = self._fold.conversation
        while self._count < len(conversation):
            message = conversation[self._count]
            if message.role == "user" and message.name != NOTE and not is_in_turn:
                self._turns.append((at, []))
            for attachment in message.attachments:
                told = f"shown: {describe_attachment(attachment)}"
                self._add_item(ReadableNote(at, sanitize_text(told), attachment=attachment))
            if message.role == "tool":
                self._set_result(message)
            else:
                self._add_message(at, message)
            self._count += 1

    def _add_message(self, at: str, message: Message) -> None:
        who = NOTE if message.name == NOTE else message.role
        for thought in list_thoughts(message):
            self._add_item(ReadableNote(at, THINKING, sanitize_text(thought)))
        for search in list_web_searches(message):
            self._add_item(ReadableNote(at, sanitize_text(describe_web_search(search))))
        if message.content or not message.tool_calls:
            is_cut = message.interrupted
            self._add_item(
                ReadableMessage(at, who, sanitize_text(message.content), self._count, is_cut)
            )
        for call in message.tool_calls:
            self._place_of[call.id] = len(self._turns) - 1, len(self._turns[-1][1])
            name, text = sanitize_text(call.tool_name), sanitize_text(_format_arguments(call))
            self._add_item(ReadableCall(at, sanitize_text(call.id), name, text, self._count))

    def _set_result(self, message: Message) -> None:
        turn, place = self._place_of[message.tool_call_id or ""]
        self._changed.add(turn)
        items = self._turns[turn][1]
        called = items[place]
        assert isinstance(called, ReadableCall)
        items[place] = replace(called, result=sanitize_text(message.content))

    def build(self) -> ReadableThread:
        """All of it so far; what was gone back from is marked."""
        assert self._fold is not None
        hidden = self._fold.conversation.hidden
        if hidden != self._hidden:
            self._hidden, self._changed = hidden, {*range(len(self._turns))}
        self._built += [None] * (len(self._turns) - len(self._built))
        for number in self._changed.intersection(range(len(self._turns))):
            at, items = self._turns[number]
            told = tuple(_mark_hidden(item, hidden) for item in items if item is not None)
            turn = ReadableTurn(number, at, told, self._spent.get(number))
            self._built[number] = turn if told else None
        self._changed.clear()
        turns = tuple(turn for turn in self._built if turn is not None)
        return ReadableThread(self._fold.document(), turns, self._problem, dict(self._kept))


def _mark_hidden(item: ReadableItem, hidden: tuple[tuple[int, int], ...]) -> ReadableItem:
    if isinstance(item, ReadableNote) or not hidden:
        return item
    return replace(item, is_hidden=any(start <= item.index < end for start, end in hidden))


def _format_arguments(call: ToolCall) -> str:
    """The arguments, laid out if they are JSON."""
    try:
        return msgspec.json.format(call.arguments_json, indent=2)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return call.arguments_json


HEADING_LENGTH_MAX: Final = 80


def find_heading(turn: ReadableTurn) -> str:
    """The first line of a turn's prompt, cut; empty if it has no words."""
    said = (
        item.text for item in turn.items if isinstance(item, ReadableMessage) and item.who == "user"
    )
    line = next(said, "").strip().partition("\n")[0]
    return line if len(line) <= HEADING_LENGTH_MAX else line[: HEADING_LENGTH_MAX - 1] + "…"


def format_usage(usage: Usage | None, describe: Callable[[Usage], str]) -> str:
    """What was used, in words; empty if nothing."""
    return "" if usage is None or not usage.total_tokens else describe(usage)


def list_thread_properties(
    story: ReadableThread, describe: Callable[[Usage], str]
) -> Iterator[tuple[str, str]]:
    """What a thread is, by name; what has no value is left out.

    Args:
        story: the thread.
        describe: puts a usage into words.
    """
    document = story.document
    base = document.forked_from
    pairs = (
        ("thread", f"{document.id} at version {document.version}"),
        ("state", document.agent_state.kind.replace("_", " ")),
        ("created", document.created_at),
        ("changed", document.updated_at),
        ("program", document.treadle_version),
        ("imported from", document.imported_from),
        ("forked from", None if base is None else f"{base.thread} at version {base.version}"),
        ("project", document.project_name),
        ("folder", document.workspace_root),
        ("repository", document.git_remote_url),
        ("branch", document.git_branch),
        ("commits", " ".join(sha[:10] for sha in document.git_commits)),
        ("model", document.model),
        ("used", format_usage(document.usage, describe)),
        ("tags", ", ".join(document.metadata.tags)),
        ("private", "yes" if document.is_private else None),
        ("not told", story.problem),
    )
    for name, value in pairs:
        if value:
            yield name, sanitize_text(value)
