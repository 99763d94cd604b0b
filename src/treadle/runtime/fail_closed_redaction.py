"""A redactor that fails: what it could not look at is not stored, sent or shown.

The work goes on: only the text it failed on is lost. A call with such arguments is refused, as with
any label in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treadle.runtime.ports import RedactedStream

UNREADABLE_LABEL: Final = "[REDACTED:unreadable]"


def make_fail_closed(redact: Callable[[str], str]) -> Callable[[str], str]:
    """The same, but a text that it fails on becomes a label. Never fails."""

    def redacted(text: str) -> str:
        try:
            return redact(text)
        except Exception:  # noqa: BLE001  whatever it is, nobody has looked at the text
            return UNREADABLE_LABEL

    return redacted


def make_fail_closed_streams(streams: Callable[[], RedactedStream]) -> Callable[[], RedactedStream]:
    """The same, but of a text that one fails on the rest becomes one label. Never fails."""
    return lambda: _FailClosedStream(streams)


class _FailClosedStream:
    """Of a text in pieces, what could be looked at."""

    def __init__(self, streams: Callable[[], RedactedStream]) -> None:
        self._streams = streams
        self._open: RedactedStream | None = None
        self._is_lost = False

    def feed(self, piece: str) -> str:
        def redact_piece() -> str:
            self._open = self._open or self._streams()
            return self._open.feed(piece)

        return self._call_or_label(redact_piece)

    def end(self) -> str:
        return "" if self._open is None else self._call_or_label(self._open.end)

    def _call_or_label(self, ask: Callable[[], str]) -> str:
        if self._is_lost:
            return ""
        try:
            return ask()
        except Exception:  # noqa: BLE001  whatever it is, nobody has looked at the text
            self._is_lost = True
            return UNREADABLE_LABEL
