"""An answer that grows on the screen, and is not shown again when its record comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treadle.store.live_answer import LiveAnswer

_COMPARED: Final = 1000
"""Characters, the last ones shown, by which an answer is known again."""

_GAP: Final = "…"
"""Stands for what was said faster than it could be read."""


class StreamingAnswer:
    """The answer that is being written, as far as it was shown.

    Args:
        begin: shows who speaks.
        show: shows a piece of text, without a line break behind it.
    """

    def __init__(self, begin: Callable[[], None], show: Callable[[str], None]) -> None:
        self._begin = begin
        self._show = show
        self._after = -1
        """The version it was asked for with; -1 if none is shown."""
        self._length = 0
        self._end = ""
        self._is_in_line = False

    def update(self, live: LiveAnswer) -> None:
        """Show what is new of what is being said."""
        if live.after != self._after:
            self.interrupt()
            self._after, self._length, self._end = live.after, 0, ""
        # Half of a line break is no text yet.
        text = live.text.removesuffix("\r")
        new = text[max(0, self._length - live.start) :]
        if live.start > self._length:
            new = _GAP + new
        if not new:
            return
        if not self._length:
            self._begin()
        self._show(new)
        self._length = live.start + len(text)
        self._end = text[-_COMPARED:]
        self._is_in_line = not new.endswith("\n")

    def finish(self, content: str) -> bool:
        """Show the rest of an answer; returns whether it is the one that was shown so far.

        If it is not, nothing is shown, and it is to be shown whole.
        """
        is_known = self._length > 0 and content[: self._length].endswith(self._end)
        if is_known:
            rest = content[self._length :]
            self._show(rest)
            self._is_in_line = not (rest or self._end).endswith("\n")
        self.interrupt()
        self._after, self._length, self._end = -1, 0, ""
        return is_known

    def interrupt(self) -> None:
        """Something else is about to be shown: it stands in a line of its own."""
        if self._is_in_line:
            self._show("\n")
        self._is_in_line = False
