"""What a model is saying, for whoever watches it from another process.

The journal has whole answers only. What is said before one is whole stands in a file of its own,
in the state folder: bounded, never synced, gone when the answer is. It is told on a best effort: a
disk that refuses it costs the watcher the text, and nobody else anything.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from treadle.store.disk import PosixDisk
from treadle.store.paths import Places
from treadle.thread.ids import is_thread_id

INTERVAL_S: Final = 0.1
"""At least between two writes: a watcher sees at most ten pictures a second."""

LENGTH_MAX: Final = 64 * 1024
"""Characters of a text that are kept for watchers: its end."""

_DRAFT: Final = ".draft"

SIZE_MAX: Final = 8 * LENGTH_MAX
"""Bytes of a file that are read; what is longer was not written here."""

CLOSE_S_MAX: Final = 1.0
"""Seconds that the end of the work waits for a file to be removed."""

_log = logging.getLogger("treadle.store")


class LiveAnswer(Struct, frozen=True):
    """What is said so far of the answer that the version `after` is asked for with.

    `start` is how many characters of it stand before `text`; `pid` is the process that works.
    """

    after: int
    start: int
    text: str
    pid: int


_encode: Final = msgspec.json.encode
_decode: Final = msgspec.json.Decoder(LiveAnswer).decode


def live_answer_path(places: Places, thread_id: str) -> Path:
    """The file of a thread that is being worked on."""
    assert is_thread_id(thread_id), thread_id
    return places.state / "live" / thread_id


def read_live_answer(places: Places, thread_id: str) -> LiveAnswer | None:
    """What is being said on a thread; `None` if nothing is, or it cannot be read.

    A process that was killed leaves its last words: they count only while that process works.
    """
    try:
        found = _decode(
            PosixDisk().read_range(str(live_answer_path(places, thread_id)), 0, SIZE_MAX)
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.after >= 0 and found.start >= 0 else None


def remove_live_answer(places: Places, thread_id: str) -> None:
    """Remove what a process has left that was killed; whoever calls holds the thread's lock."""
    path = live_answer_path(places, thread_id)
    for left in (path, path.with_suffix(_DRAFT)):
        with suppress(OSError):
            left.unlink()


class LiveAnswerWriter:
    """Tells watchers what is being said. Never waits for the disk, and never fails.

    A thread of its own writes, from the first word on.

    Args:
        places: where the state folder is.
        thread_id: the thread, which this process holds.
    """

    def __init__(self, places: Places, thread_id: str) -> None:
        self._path = live_answer_path(places, thread_id)
        remove_live_answer(places, thread_id)
        self._change = threading.Condition()
        self._after = 0
        self._start = 0
        self._pieces: list[str] = []
        self._length = 0
        self._is_new = False
        """Whether the file is not what has been said."""
        self._is_closed = False
        self._worker: threading.Thread | None = None

    def begin(self, version: int) -> None:
        """An answer is asked for; `version` is that of the thread."""
        with self._change:
            self._after, self._start, self._pieces, self._length = version, 0, [], 0

    def add(self, text: str) -> None:
        """The next piece of the answer, without secrets."""
        with self._change:
            self._pieces.append(text)
            self._length += len(text)
            if self._length > 2 * LENGTH_MAX:
                self._cut()
            self._notify_writer()

    def end(self) -> None:
        """The answer is whole, or there is none: the records tell of it."""
        with self._change:
            self._pieces, self._length = [], 0
            if self._worker is not None:
                self._notify_writer()

    def close(self) -> None:
        """Remove the file; nothing more is told."""
        with self._change:
            worker, self._is_closed = self._worker, True
            self._pieces = []
            self._change.notify()
        if worker is not None:
            worker.join(CLOSE_S_MAX)

    # ---- the thread that writes ----------------------------------------------------------------

    def _cut(self) -> str:
        """What is kept for watchers; the lock is held."""
        text = "".join(self._pieces)
        kept = text[-LENGTH_MAX:]
        self._start += len(text) - len(kept)
        self._pieces, self._length = [kept], len(kept)
        return kept

    def _notify_writer(self) -> None:
        if self._is_closed:
            return
        self._is_new = True
        if self._worker is None:
            self._worker = threading.Thread(
                target=self._run_writer, name="treadle-live", daemon=True
            )
            self._worker.start()
        self._change.notify()

    def _run_writer(self) -> None:
        try:
            while self._write_next():
                with self._change:
                    self._change.wait_for(lambda: self._is_closed, INTERVAL_S)
        except (OSError, UnicodeError) as error:
            _log.info("what is being said cannot be watched: %s", error)
            with self._change:
                self._is_closed = True
        finally:
            with suppress(OSError):
                self._path.unlink()

    def _write_next(self) -> bool:
        """Wait for news, and write them; returns whether there can be more."""
        with self._change:
            self._change.wait_for(lambda: self._is_new or self._is_closed)
            if self._is_closed:
                return False
            self._is_new = False
            text = self._cut() if self._pieces else ""
            live = LiveAnswer(self._after, self._start, text, os.getpid())
        if text:
            self._replace_file(_encode(live))
        else:
            with suppress(FileNotFoundError):
                self._path.unlink()
        return True

    def _replace_file(self, data: bytes) -> None:
        """In one step, readable by its owner only. A crash may lose it: nothing is synced."""
        disk, draft = PosixDisk(), str(self._path.with_suffix(_DRAFT))
        with suppress(FileNotFoundError):
            disk.unlink(draft)
        try:
            handle = disk.create(draft)
        except FileNotFoundError:
            disk.make_folder(str(self._path.parent))
            handle = disk.create(draft)
        try:
            disk.write(handle, data)
        finally:
            disk.close(handle)
        os.replace(draft, self._path)
