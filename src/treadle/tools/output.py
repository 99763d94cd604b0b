"""Keeping the output of a program within bounds, and telling of it while it comes."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from typing import Final

from treadle.core.tools import ToolProgress

HEAD_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes kept from the beginning: a build's first error is near it. What a model is shown of it is
far less; all of this is kept beside the thread."""
TAIL_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes kept from the end: a test run's summary stands there."""
REPORT_S: Final = 0.1
"""Seconds between reports; a person cannot read faster."""
REPORT_SIZE_MAX: Final = 4 * 1024
"""Bytes in one report; of more, the newest."""


class Output:
    """The beginning and the end of a stream of bytes, within a fixed amount of memory.

    Args:
        report: called on the event loop with what has come since the last report, at most once in
            `REPORT_S`; `units_processed` counts all bytes.
    """

    def __init__(self, report: Callable[[ToolProgress], None]) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._report = report
        self._fresh = bytearray()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Take more bytes."""
        self._size += len(data)
        room = HEAD_SIZE_MAX - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * TAIL_SIZE_MAX:
            del self._tail[:-TAIL_SIZE_MAX]
        self._fresh += data
        del self._fresh[:-REPORT_SIZE_MAX]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(REPORT_S, self._tell)

    def mute(self) -> None:
        """Report nothing from now on: nobody waits for the call any more."""
        self._report = lambda progress: None

    def close(self) -> None:
        """No more bytes will come: report what was not reported yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()

    def text(self) -> str:
        """What was kept; bytes that are not UTF-8 are replaced, and a gap says how long it is."""
        tail_size = min(len(self._tail), TAIL_SIZE_MAX)
        dropped_size = self._size - len(self._head) - tail_size
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # Views, not copies: at the full size each copy is 4 MiB of the runtime's memory.
        with memoryview(self._tail) as kept, kept[len(kept) - tail_size :] as tail:
            if not dropped_size:
                return decode(self._head) + decode(tail, final=True)
            gap = f"\n[{dropped_size} bytes dropped here]\n"
            return "".join((self._head.decode(errors="replace"), gap, decode(tail, final=True)))

    def _tell(self) -> None:
        self._timer = None
        message = self._decode(bytes(self._fresh))
        self._fresh.clear()
        self._report(ToolProgress(message=message, units_processed=self._size))
