"""Follows a thread in a terminal or for a program, while another process works on it."""

from __future__ import annotations

from collections import deque
from threading import Event
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from treadle.app.threads.streaming_output import Growing
from treadle.cli.json_output import print_json
from treadle.cli.record_narration import Line, Narrator
from treadle.cli.render import printable
from treadle.core.events import LlmEvent
from treadle.store.lease import Holder
from treadle.store.live import read_live
from treadle.store.local import LocalStore
from treadle.store.thread_follower import Change, Follower
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.record import Record

INTERVAL_S: Final = 0.2
"""Between two looks at the journal. A look that finds nothing reads less than a hundred bytes."""

FIRST_RECORDS_MAX: Final = 200
"""Of the turn that is there already; a long one is shown from somewhere in its middle."""

_TURN_BEGINS: Final = frozenset(("user_input", "task_given"))

_SAID: Final = frozenset(("llm_completed", "llm_error", "cancel_requested", "recovered"))
"""After these nothing that was being said before is said any more."""

_STYLES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "who": ("", {"bold": True}),
    "said": ("", {}),
    "call": ("● ", {"fg": "cyan"}),
    "result": ("  ", {"dim": True}),
    "failure": ("  ", {"fg": "red"}),
    "aside": ("  · ", {"dim": True}),
}
"""What stands before each line of a kind, and how it looks."""

_ENDINGS: Final = {
    Change.TRASHED: "the thread is in the trash now: `treadle restore` brings it back",
    Change.REMOVED: "the thread is gone",
}


class _Kind(Struct):
    type: str = ""


def watch(
    store: LocalStore,
    thread_id: str,
    *,
    since: int | None = None,
    as_json: bool = False,
    is_kept: bool = False,
) -> None:
    """Show what is recorded on a thread, from its last turn on, until nobody works on it.

    An answer is shown while it is written, if the process that works tells of it.

    Reads only, and holds nothing: no writer waits or fails because of it.

    Args:
        store: where the thread is.
        thread_id: the thread.
        since: the first version that is shown; by default that of the last prompt.
        as_json: a line of JSON for each record instead of words.
        is_kept: go on when nobody works on the thread any more.

    Raises:
        UnknownThreadError: there is no such thread.
        DamagedJournalError: there is damage; what stands before it was shown.
        DiskError: the disk refused.
    """
    watched = _Watched(store, thread_id, as_json=as_json)
    watched.begin(since)
    waiting = Event()
    is_held = True
    while True:
        # Asked before it is read: what the last holder wrote is read then, all of it.
        was_held, is_held = is_held, store.holder(thread_id) is not None
        watched.look()
        if is_held:
            watched.listen()
        if watched.is_over:
            return
        if was_held and not is_held:
            watched.say_how_it_stands()
        if not is_held and not is_kept:
            return
        waiting.wait(INTERVAL_S)


class _Watched:
    """A thread, as far as it was shown."""

    def __init__(self, store: LocalStore, thread_id: str, *, as_json: bool) -> None:
        self._store = store
        self._follower = Follower(store.folders, thread_id)
        who = Line("who", "assistant:")
        self._growing = Growing(lambda: self._show_lines([who]), _write)
        self._version = 0
        self._said = 0
        """The version at which an answer ended last."""
        self._narrator = Narrator()
        self._as_json = as_json
        self._holder = store.holder(thread_id)
        self._thread_id = thread_id

    @property
    def is_over(self) -> bool:
        return self._follower.is_over

    def begin(self, since: int | None) -> None:
        """Show what is there already."""
        if isinstance(self._holder, Holder):
            _say(f"{self._thread_id} is open in {self._holder.words}")
        first: deque[Record] = deque(maxlen=FIRST_RECORDS_MAX)
        count = 0
        for item in self._follower.news():
            if isinstance(item, Record):
                self._note(item)
            if isinstance(item, Change):
                self._tell(item)
            elif since is not None:
                if item.seq >= since:
                    self._show(item)
            else:
                if _kind(item) in _TURN_BEGINS:
                    first.clear()
                    count = 0
                first.append(item)
                count += 1
        if count > len(first):
            _say(f"the first {count - len(first)} records of this turn are left out")
        for record in first:
            self._show(record)

    def look(self) -> None:
        """Show what is new."""
        for item in self._follower.news():
            if isinstance(item, Change):
                self._tell(item)
            else:
                self._note(item)
                self._show(item)

    def say_how_it_stands(self) -> None:
        """Nobody works on it: what is to be done with it, and what will never be told."""
        for text in self._narrator.unended:
            _say(text)
        _say(how_it_stands(self._store, self._thread_id))

    def listen(self) -> None:
        """Show what is being said now."""
        live = None if self._as_json else read_live(self._store.places, self._thread_id)
        if live is None or not self._said <= live.after <= self._version:
            return  # its record was shown, or others that stand before it were not
        holder = self._store.holder(self._thread_id)
        if not isinstance(holder, Holder) or holder.pid == live.pid:
            self._growing.grow(live)

    def _note(self, record: Record) -> None:
        """Remember what decides whether something that is being said is news."""
        self._version = record.seq
        if _kind(record) in _SAID:
            self._said = record.seq

    def _tell(self, change: Change) -> None:
        self._growing.interrupt()
        self._version = self._said = 0
        text = "records that were shown were rewritten; they follow as they stand now"
        _say(_ENDINGS.get(change, text))

    def _show(self, record: Record) -> None:
        if self._as_json:
            line = {
                "seq": record.seq,
                "at": record.at,
                "type": _kind(record),
                "event": record.event,
            }
            print_json(line, is_one_line=True)
            return
        lines = list(self._narrator.tell(record))
        if _kind(record) == "llm_completed" and self._growing.finish(_answer(record)):
            lines = [line for line in lines if line.kind == "call"]
        if lines:
            self._growing.interrupt()
        self._show_lines(lines)

    def _show_lines(self, lines: list[Line]) -> None:
        for piece in lines:
            mark, style = _STYLES[piece.kind]
            blank = " " * len(mark)
            for number, text in enumerate(printable(piece.text).splitlines()):
                before = blank if number and piece.kind == "call" else mark
                click.echo(click.style(before + text, **style))


def _kind(record: Record) -> str:
    try:
        return msgspec.json.decode(record.event, type=_Kind).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _answer(record: Record) -> str:
    """What the model said, of the record of an answer."""
    try:
        entry = decode_entry(record.event)
    except UnknownEntryError:
        return ""
    return entry.response.message.content if isinstance(entry, LlmEvent.Completed) else ""


def _write(text: str) -> None:
    click.echo(printable(text), nl=False)


def how_it_stands(store: LocalStore, thread_id: str) -> str:
    """What is to be done with a thread on which nobody works, in a line."""
    line = store.summary(thread_id)
    if line is None or line.problem:
        return "nobody works on the thread" + (f": {line.problem}" if line else "")
    if line.questions:
        return f"it waits for a yes, and nobody works on it: treadle approve {thread_id}"
    if line.is_unfinished or line.queued:
        return f"it was left unfinished, and nobody works on it: treadle resume {thread_id}"
    return "the thread is idle, and nobody works on it"


def _say(text: str) -> None:
    click.echo(click.style(printable(text), dim=True), err=True)
