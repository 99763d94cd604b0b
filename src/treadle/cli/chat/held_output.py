"""Drawing in one piece: what is erased, printed and drawn again is one write.

Writing is done by a thread, as a terminal that nobody reads takes nothing and lets its writer wait
for good.
"""

from __future__ import annotations

import os
import threading
import time
from queue import SimpleQueue
from typing import Final

from prompt_toolkit.output.vt100 import Vt100_Output

_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
"""Terminals that know them show what is between as one picture; the others pass over them."""


BEHIND_SIZE: Final = 64_000
"""Bytes that wait to be written from which on drawing anew would only make more of them."""
UNREAD_S: Final = 1.0
"""Seconds without a byte taken after which nobody is thought to read."""
_WRITE_SIZE: Final = 4096


class Writer:
    """Writes to a file in the order it is told, in a thread.

    What cannot be written is dropped: that a terminal is gone is told by its input.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._queue: SimpleQueue[bytes] = SimpleQueue()
        self._changed = threading.Condition()
        self._waiting = 0
        threading.Thread(target=self._write, name="terminal-output", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Bytes that are not written yet."""
        return self._waiting

    def put(self, data: bytes) -> None:
        """Have it written; at once."""
        with self._changed:
            self._waiting += len(data)
        self._queue.put(data)

    def drain(self) -> bool:
        """Wait until all is written; false if nobody reads. At most `UNREAD_S` per piece taken."""
        with self._changed:
            while before := self._waiting:
                until = time.monotonic() + UNREAD_S
                while self._waiting == before and (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)
                if self._waiting == before:
                    return False
        return True

    def _write(self) -> None:
        while True:
            data = self._queue.get()
            while data:
                try:
                    count = os.write(self._file, data[:_WRITE_SIZE])
                except OSError:
                    count = len(data)
                data = data[count:]
                with self._changed:
                    self._waiting -= count
                    self._changed.notify_all()


class HeldOutput(Vt100_Output):
    """An output whose flushes wait from `hold` to `release`."""

    _is_held = False
    _writer: Writer | None = None

    def hold(self) -> None:
        """Keep what is written; holding twice is holding once."""
        if not self._is_held:
            self.write_raw(_BEGIN)
            self._is_held = True

    def release(self) -> None:
        """Write what was kept."""
        if self._is_held:
            self._is_held = False
            self.write_raw(_END)
            self.flush()

    @property
    def is_behind(self) -> bool:
        """Whether the terminal does not keep up with what it is sent."""
        return self._writer is not None and self._writer.waiting > BEHIND_SIZE

    def drain(self) -> bool:
        """Wait until all is on the screen; false if nobody reads."""
        return self._writer is None or self._writer.drain()

    def flush(self) -> None:
        """Write soon, unless held."""
        if self._is_held or not self._buffer:
            return
        text = "".join(self._buffer)
        self._buffer.clear()
        if self._writer is None:
            self._writer = Writer(self.stdout.fileno())
        self._writer.put(text.encode(self.stdout.encoding or "utf-8", "replace"))
