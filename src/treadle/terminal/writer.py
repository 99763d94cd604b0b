"""Writing by a thread: a terminal that nobody reads lets its writer wait for good."""

from __future__ import annotations

import os
import select
import threading
import time
from queue import SimpleQueue
from typing import Final

UNREAD_S: Final = 1.0
"""Seconds without a byte taken after which nobody is thought to read."""
_WRITE_SIZE: Final = 4096


class OutputWriter:
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
    def pending_size(self) -> int:
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
                except BlockingIOError:  # another process has made it so, and it is full
                    self._wait_until_writable()
                    continue
                except OSError:
                    count = len(data)
                data = data[count:]
                with self._changed:
                    self._waiting -= count
                    self._changed.notify_all()

    def _wait_until_writable(self) -> None:
        """Wait until something can be written, or nothing ever can."""
        room = select.poll()
        room.register(self._file, select.POLLOUT)
        room.poll()
