"""What a model says while it says it, shown without the secrets that are cut up between pieces."""

from __future__ import annotations

from collections.abc import Callable

from treadle.outputs import Output, TextDelta, ThinkingDelta
from treadle.runtime.ports import LivePublisher, RedactedStream
from treadle.thread.record import replace_surrogates


class AnswerStreamRedactor:
    """The pieces of answers on their way to people.

    Args:
        streams: makes what takes secrets out of a text that comes in pieces; without it all is
            shown as it comes.
        emit: tells people.
        live: tells those who watch from another process, if anybody can; of what is said only.
    """

    def __init__(
        self,
        streams: Callable[[], RedactedStream] | None,
        emit: Callable[[Output], None],
        live: LivePublisher | None = None,
    ) -> None:
        self._streams = streams
        self._emit = emit
        self._live = live
        self._kind: type[TextDelta] | type[ThinkingDelta] = TextDelta
        self._open: RedactedStream | None = None

    def begin(self, version: int) -> None:
        """An answer is asked for; `version` is that of the thread."""
        if self._live is not None:
            self._live.begin(version)

    def add(self, kind: type[TextDelta] | type[ThinkingDelta], piece: str) -> None:
        """The next piece of what is said or thought; the end of a secret may be waited for."""
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        if self._streams is None:
            self._emit_text(replace_surrogates(piece))
            return
        if self._open is None:
            self._open = self._streams()
        self._emit_text(self._open.feed(replace_surrogates(piece)))

    def end(self) -> None:
        """What is said is over: show what was held back."""
        self._flush()
        if self._live is not None:
            self._live.end()

    def _flush(self) -> None:
        held, self._open = self._open, None
        if held is not None:
            self._emit_text(held.end())

    def _emit_text(self, text: str) -> None:
        if not text:
            return
        if self._live is not None and self._kind is TextDelta:
            self._live.add(text)
        self._emit(self._kind(text))
