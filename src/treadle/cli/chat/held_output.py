"""Drawing in one piece: what is erased, printed and drawn again is one write."""

from __future__ import annotations

from typing import Final

from prompt_toolkit.output.vt100 import Vt100_Output

_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
"""Terminals that know them show what is between as one picture; the others pass over them."""


class HeldOutput(Vt100_Output):
    """An output whose flushes wait from `hold` to `release`."""

    _is_held = False

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

    def flush(self) -> None:
        """Write, unless held."""
        if not self._is_held:
            super().flush()
