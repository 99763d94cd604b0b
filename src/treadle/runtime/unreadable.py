"""A redactor that fails: what it could not look at is not stored, sent or shown.

The work goes on: only the text it failed on is lost. A call with such arguments is refused, as with
any label in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treadle.runtime.ports import RedactedStream

UNREADABLE: Final = "[REDACTED:unreadable]"


def closed(redact: Callable[[str], str]) -> Callable[[str], str]:
    """The same, but a text that it fails on becomes a label. Never fails."""

    def redacted(text: str) -> str:
        try:
            return redact(text)
        except Exception:  # noqa: BLE001  whatever it is, nobody has looked at the text
            return UNREADABLE

    return redacted


def closed_streams(streams: Callable[[], RedactedStream]) -> Callable[[], RedactedStream]:
    """The same, but of a text that one fails on the rest becomes one label. Never fails."""
    return lambda: _ClosedStream(streams)


class _ClosedStream:
    """Of a text in pieces, what could be looked at."""

    def __init__(self, streams: Callable[[], RedactedStream]) -> None:
        self._streams = streams
        self._open: RedactedStream | None = None
        self._is_lost = False

    def take(self, piece: str) -> str:
        def taken() -> str:
            self._open = self._open or self._streams()
            return self._open.take(piece)

        return self._unless_lost(taken)

    def end(self) -> str:
        return "" if self._open is None else self._unless_lost(self._open.end)

    def _unless_lost(self, ask: Callable[[], str]) -> str:
        if self._is_lost:
            return ""
        try:
            return ask()
        except Exception:  # noqa: BLE001  whatever it is, nobody has looked at the text
            self._is_lost = True
            return UNREADABLE
