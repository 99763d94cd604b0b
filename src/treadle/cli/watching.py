"""Follows a thread in a terminal or for a program, while another process works on it."""

from __future__ import annotations

from collections import deque
from threading import Event
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from treadle.cli.narrating import Narrator
from treadle.cli.render import printable
from treadle.store.following import Change, Follower
from treadle.store.lease import Holder
from treadle.store.local import LocalStore
from treadle.thread.record import Record

INTERVAL_S: Final = 0.2
"""Between two looks at the journal. A look that finds nothing reads less than a hundred bytes."""

FIRST_RECORDS_MAX: Final = 200
"""Of the turn that is there already; a long one is shown from somewhere in its middle."""

_TURN_BEGINS: Final = frozenset(("user_input", "task_given"))

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
        if watched.is_over:
            return
        if was_held and not is_held:
            _say(how_it_stands(store, thread_id))
        if not is_held and not is_kept:
            return
        waiting.wait(INTERVAL_S)


class _Watched:
    """A thread, as far as it was shown."""

    def __init__(self, store: LocalStore, thread_id: str, *, as_json: bool) -> None:
        self._follower = Follower(store.folders, thread_id)
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
                self._show(item)

    def _tell(self, change: Change) -> None:
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
            click.echo(msgspec.json.encode(line))
            return
        for piece in self._narrator.tell(record):
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
