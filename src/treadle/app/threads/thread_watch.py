"""Follows a thread while another process works on it: what is recorded, and what is being said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Event
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from treadle.core.events import LlmEvent
from treadle.store.live_answer import LiveAnswer, read_live_answer
from treadle.store.local_store import LocalStore
from treadle.store.thread_follower import JournalChange, ThreadFollower
from treadle.store.thread_lock import Holder
from treadle.thread.codec import UnknownEntryError, decode_entry, strip_attachment_mark
from treadle.thread.record import Record

POLL_S: Final = 0.2
"""Between two looks at the journal. A look that finds nothing reads less than a hundred bytes."""

FIRST_RECORDS_MAX: Final = 200
"""Of the turn that is there already; a long one is shown from somewhere in its middle."""

_TURN_BEGINS: Final = frozenset(("user_input", "task_given"))

_ANSWER_ENDS: Final = frozenset(("llm_completed", "llm_error", "cancel_requested", "recovered"))
"""After these nothing that was being said before is said any more."""

_CHANGE_TEXTS: Final = {
    JournalChange.TRASHED: "the thread is in the trash now: `treadle restore` brings it back",
    JournalChange.REMOVED: "the thread is gone",
}


class WatchedRecord(Struct, frozen=True):
    """A record, and its type; empty where it has none that can be read."""

    record: Record
    kind: str

    @property
    def answer(self) -> str:
        """What the model said, of the record of an answer; otherwise empty."""
        if self.kind != "llm_completed":
            return ""
        try:
            entry = decode_entry(self.record.event)
        except UnknownEntryError:
            return ""
        return entry.response.message.content if isinstance(entry, LlmEvent.Completed) else ""


class WatchNotice(Struct, frozen=True):
    """A sentence about the thread. `is_break`: what follows does not go on with what was shown."""

    text: str
    is_break: bool = False


class IdleNotice(Struct, frozen=True):
    """Nobody works on the thread any more: how it stands, in a sentence."""

    text: str


WatchEvent: TypeAlias = WatchedRecord | LiveAnswer | WatchNotice | IdleNotice
"""What follows from a look at a thread; `LiveAnswer` is what a model is saying now."""


class _RecordType(Struct):
    type: str = ""


def follow_thread(
    store: LocalStore,
    thread_id: str,
    since: int | None = None,
    *,
    is_kept: bool = False,
    wants_speech: bool = True,
) -> Iterator[WatchEvent]:
    """What is recorded on a thread, from its last turn on, until nobody works on it.

    Reads only, and holds nothing: no writer waits or fails because of it.

    Args:
        store: where the thread is.
        thread_id: the thread.
        since: the first version that is told; by default that of the last prompt.
        is_kept: go on when nobody works on the thread any more.
        wants_speech: tell an answer while it is written, if the process that works tells of it.

    Raises:
        UnknownThreadError: there is no such thread.
        DamagedJournalError: there is damage; what stands before it was told.
        DiskError: the disk refused.
    """
    watched = ThreadWatch(store, thread_id)
    yield from watched.read_first_events(since)
    waiting = Event()
    is_held = True
    while True:
        # Asked before it is read: what the last holder wrote is read then, all of it.
        was_held, is_held = is_held, store.find_holder(thread_id) is not None
        yield from watched.poll_records()
        if is_held and wants_speech:
            yield from watched.poll_live()
        if watched.is_over:
            return
        if was_held and not is_held:
            yield IdleNotice(_describe_idle_thread(store, thread_id))
        if not is_held and not is_kept:
            return
        waiting.wait(POLL_S)


class ThreadWatch:
    """A thread, as far as it was told. Reads only, and holds nothing.

    Args:
        store: where the thread is.
        thread_id: the thread.
    """

    def __init__(self, store: LocalStore, thread_id: str) -> None:
        self._store = store
        self._follower = ThreadFollower(store.folders, thread_id)
        self.version = 0
        """The last one that was told; 0 before the first."""
        self._said = 0
        """The version at which an answer ended last."""
        self._holder = store.find_holder(thread_id)
        self._thread_id = thread_id

    @property
    def is_over(self) -> bool:
        """Whether the thread is gone."""
        return self._follower.is_over

    def read_first_events(self, since: int | None) -> Iterator[WatchEvent]:
        """What is there already."""
        if isinstance(self._holder, Holder):
            yield WatchNotice(f"{self._thread_id} is open in {self._holder.description}")
        first: deque[WatchedRecord] = deque(maxlen=FIRST_RECORDS_MAX)
        count = 0
        for item in self.poll_records():
            if not isinstance(item, WatchedRecord):
                yield item
            elif since is not None:
                if item.record.seq >= since:
                    yield item
            else:
                if item.kind in _TURN_BEGINS:
                    first.clear()
                    count = 0
                first.append(item)
                count += 1
        if count > len(first):
            text = f"the first {count - len(first)} records of this turn are left out"
            yield WatchNotice(text)
        yield from first

    def poll_records(self) -> Iterator[WatchEvent]:
        """What is new."""
        for item in self._follower.read_new():
            if isinstance(item, JournalChange):
                self.version = self._said = 0
                text = "records that were shown were rewritten; they follow as they stand now"
                yield WatchNotice(_CHANGE_TEXTS.get(item, text), is_break=True)
                continue
            kind = _read_kind(item)
            self.version = item.seq
            if kind in _ANSWER_ENDS:
                self._said = item.seq
            yield WatchedRecord(item, kind)

    def poll_live(self) -> Iterator[LiveAnswer]:
        """What is being said now."""
        live = read_live_answer(self._store.places, self._thread_id)
        if live is None or not self._said <= live.after <= self.version:
            return  # its record was shown, or others that stand before it were not
        holder = self._store.find_holder(self._thread_id)
        if not isinstance(holder, Holder) or holder.pid == live.pid:
            yield live


def _read_kind(record: Record) -> str:
    try:
        return strip_attachment_mark(msgspec.json.decode(record.event, type=_RecordType).type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _describe_idle_thread(store: LocalStore, thread_id: str) -> str:
    """What is to be done with a thread on which nobody works, in a line."""
    line = store.summary(thread_id)
    if line is None or line.problem:
        return "nobody works on the thread" + (f": {line.problem}" if line else "")
    if line.questions:
        return f"it waits for a yes, and nobody works on it: treadle approve {thread_id}"
    if line.is_unfinished or line.queued:
        return f"it was left unfinished, and nobody works on it: treadle resume {thread_id}"
    return "the thread is idle, and nobody works on it"
