"""Drawing in one piece: what is erased, printed and drawn again is one write."""

from __future__ import annotations

from typing import Final

from prompt_toolkit.output.vt100 import Vt100_Output

from treadle.terminal.early_prompt import ERASE_BELOW
from treadle.terminal.writer import OutputWriter

_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
"""Terminals that know them show what is between as one picture; the others pass over them."""


BEHIND_SIZE: Final = 64_000
"""Bytes that wait to be written from which on drawing anew would only make more of them."""


class BufferedOutput(Vt100_Output):
    """An output whose flushes wait from `hold` to `release`."""

    _is_held = False
    _writer: OutputWriter | None = None

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

    def erase_down(self) -> None:
        """Erase to the end of the screen; nothing of it is kept anywhere."""
        self.write_raw(ERASE_BELOW)

    @property
    def is_behind(self) -> bool:
        """Whether the terminal does not keep up with what it is sent."""
        return self._writer is not None and self._writer.pending_size > BEHIND_SIZE

    @property
    def is_written(self) -> bool:
        """Whether the terminal has taken all that it was sent."""
        return self._writer is None or not self._writer.pending_size

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
            self._writer = OutputWriter(self.stdout.fileno())
        self._writer.put(text.encode(self.stdout.encoding or "utf-8", "replace"))
