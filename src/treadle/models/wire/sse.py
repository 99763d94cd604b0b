"""Server-sent events from bytes, however they are cut.

Our own sixty lines, because the readers of the SDKs and of the HTTP client keep to themselves what
is needed here: that comments and unfinished lines are a sign of life, that an event may be larger
than any limit they have (or have none), and whether the end came in the middle of an event. Lines
end at CR, LF or CRLF and nowhere else, as the WHATWG HTML standard says (section 9.2.6).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from treadle.core.llm import LlmErrorKind
from treadle.models.failures import WireError

EVENT_SIZE_MAX: Final = 8 * 1024 * 1024
"""Bytes of one event; a model's whole answer is smaller."""

_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(Struct, frozen=True, gc=False):
    """One event: its type (`message` if none was given) and its data, UTF-8 as it came."""

    event: str
    data: bytes


class SseDecoder:
    """Feed it bytes, get the events that they complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """A line that has not ended yet."""
        self._size = 0
        """Bytes of the event so far."""
        self._event = ""
        self._data: list[bytes] = []
        self._is_first = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that end in this chunk; often none.

        Raises:
            WireError: an event is larger than `EVENT_SIZE_MAX`.
        """
        events: list[SseEvent] = []
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        lines = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for piece in lines[:-1]:
            self._append_to_line(piece)
            line = bytes(self._rest)
            self._rest.clear()
            if (event := self._handle_line(line)) is not None:
                events.append(event)
        self._append_to_line(lines[-1])
        return events

    def _append_to_line(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > EVENT_SIZE_MAX:
            size = EVENT_SIZE_MAX // 2**20
            raise WireError(
                LlmErrorKind.INVALID_RESPONSE, f"one event of the stream is over {size} MiB"
            )
        self._rest += piece

    def _handle_line(self, line: bytes) -> SseEvent | None:
        if self._is_first:
            line = line.removeprefix(_BOM)
            self._is_first = False
        if not line:
            return self._finish_event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"error" and value:
            # No field of the standard, but GPUStack puts the reason there when what is behind it
            # has died; often the connection then ends, without the line that ends an event.
            return SseEvent("error", value)
        elif not name:  # a comment
            self._size -= len(line)
        return None

    def _finish_event(self) -> SseEvent | None:
        self._size = 0
        event, data = self._event, self._data
        self._event, self._data = "", []
        return SseEvent(event or "message", b"\n".join(data)) if data else None
