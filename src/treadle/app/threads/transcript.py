"""All that happened in a thread, part by part, to be looked through; whole outputs on demand.

Told from the thread's records as an export is, so it shows what a page shows. A large output is
read when somebody wants to see it, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial

from msgspec import Struct

from treadle.app.exchange.thread_export import read_journal_parts
from treadle.core.messages import NOTE, BlobRef, ToolCall
from treadle.errors import MissingBlobError
from treadle.exchange.readable_thread import (
    THINKING,
    ReadableCall,
    ReadableItem,
    ReadableMessage,
    ReadableNote,
    make_readable_thread,
)
from treadle.exchange.record_text import describe_record
from treadle.store.local_store import LocalStore
from treadle.thread.facts import CommandShown


class PartKind(Enum):
    """What a part of a transcript is."""

    PROMPT = "what a person said"
    ANSWER = "what the model said"
    THOUGHT = "what the model thought"
    CALL = "a call and its output"
    NOTE = "something else that happened"


class TranscriptPart(Struct, frozen=True):
    """One thing that happened.

    `title` is a line, or empty where the text says it all; `text` is of any length. Of a `call` it
    is the result as the model read it; where more was kept, `kept` says where. `is_hidden` says
    that it was gone back from.
    """

    kind: PartKind
    title: str = ""
    text: str = ""
    call: ToolCall | None = None
    kept: BlobRef | None = None
    is_hidden: bool = False


class Transcript(Struct, frozen=True):
    """A thread to be looked through. `read` gives all that a part says, see `read_whole_text`."""

    parts: Sequence[TranscriptPart]
    read: Callable[[TranscriptPart], tuple[bytes, bool]]


def read_transcript(store: LocalStore, thread_id: str) -> Transcript:
    """The parts of a thread, in order.

    Args:
        store: where it is.
        thread_id: the thread; what a fork has from its base stands before its own.

    Raises:
        StoreError: it cannot be read.
    """
    journals = read_journal_parts(store, thread_id)
    story = make_readable_thread(journals)
    parts = [_make_part(item, story.kept) for turn in story.turns for item in turn.items]
    if story.problem:
        parts.append(TranscriptPart(PartKind.NOTE, story.problem))
    return Transcript(parts, partial(read_whole_text, store))


def make_command_transcript(commands: Iterable[CommandShown]) -> Transcript:
    """The same of commands that a person has run before there was a thread."""
    told = filter(None, map(describe_record, commands))
    parts = [TranscriptPart(PartKind.NOTE, words.text, words.detail) for words in told]
    return Transcript(parts, partial(read_whole_text, None))


def read_whole_text(store: LocalStore | None, part: TranscriptPart) -> tuple[bytes, bool]:
    """All that a part says, as UTF-8, and whether that is less than there was once.

    Args:
        store: where its thread is, if there is one.
        part: the part.

    Raises:
        DiskError: it cannot be read.
    """
    if part.kept is not None and store is not None:
        try:
            return store.read_blob(part.kept), False
        except MissingBlobError:
            return part.text.encode("utf-8", "replace"), True
    return part.text.encode("utf-8", "replace"), False


def _make_part(item: ReadableItem, kept: Mapping[str, BlobRef]) -> TranscriptPart:
    if isinstance(item, ReadableMessage):
        if item.who == NOTE:
            first, _, more = item.text.partition("\n")
            return TranscriptPart(
                PartKind.NOTE, first, item.text * bool(more), None, None, item.is_hidden
            )
        kind = PartKind.PROMPT if item.who == "user" else PartKind.ANSWER
        cut = "interrupted" if item.is_cut else ""
        return TranscriptPart(kind, cut, item.text, is_hidden=item.is_hidden)
    if isinstance(item, ReadableNote):
        kind = PartKind.THOUGHT if item.text == THINKING else PartKind.NOTE
        return TranscriptPart(kind, item.text, item.detail)
    assert isinstance(item, ReadableCall)
    call = ToolCall(item.call_id, item.tool_name, item.arguments)
    text = "(it has not ended)" if item.result is None else item.result
    return TranscriptPart(
        PartKind.CALL, "", text, call, kept.get(item.call_id), is_hidden=item.is_hidden
    )
