"""The thread at hand: what is staged, made durable, and told to people once it is durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.core.actions import AgentAction
from treadle.core.machine import Machine
from treadle.errors import StoreError
from treadle.outputs import Output
from treadle.runtime.ports import Writer
from treadle.thread.codec import Entry
from treadle.thread.fold import ThreadFold


class ThreadJournal:
    """A writer, with the redaction of what it writes and the outputs that wait for it.

    Args:
        writer: the thread.
        redact: replaces known secrets, if somebody can.
        on_error: gets what a listener raises; it is nobody else's fault.
    """

    def __init__(
        self,
        writer: Writer,
        redact: Callable[[str], str] | None,
        on_error: Callable[[Exception], None],
    ) -> None:
        self.writer = writer
        self.fold: ThreadFold = writer.fold  # as the thread stands, with what is staged
        self.redact = redact
        self._on_error = on_error
        self._listeners: list[Callable[[Output], None]] = []
        self._announced: list[Output] = []
        self._end_listeners: list[Callable[[], None]] = []

    @property
    def machine(self) -> Machine[Any]:
        """The thread's machine."""
        return self.fold.machine

    def now(self) -> str:
        """The clock, in the form of records."""
        return self.writer.now()

    def check_writable(self) -> None:
        """Raise `StoreError` if nothing can be written any more."""
        if not self.writer.is_usable:
            why = "this session is finished: it was closed, or the disk refused"
            raise StoreError(why, hint="open the thread again")

    def stage(self, entry: Entry) -> AgentAction | None:
        """Fold an entry and put it into the next batch; the action that the machine asks for."""
        return self.writer.stage(entry, self.redact)

    def announce(self, output: Output) -> None:
        """Have people told when what is staged now is durable."""
        self._announced.append(output)

    def commit(self) -> None:
        """Make the batch durable, then tell what it made true.

        Raises:
            StoreError: the disk refused; nothing of the batch was told.
        """
        announced, self._announced = self._announced, []
        if self.writer.has_staged:
            self.writer.write()
            self.writer.sync()
        for output in announced:
            self.emit(output)

    def emit(self, output: Output) -> None:
        """Tell everybody now."""
        for listener in tuple(self._listeners):
            try:
                listener(output)
            except Exception as error:  # noqa: BLE001  raised by the loop
                self._on_error(error)

    def add_listener(self, listener: Callable[[Output], None]) -> None:
        """Tell one more, from now on, of every output as it happens."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[Output], None]) -> None:
        """Tell this one no more."""
        self._listeners.remove(listener)

    def add_end_listener(self, listener: Callable[[], None]) -> None:
        """Call one more when a turn has ended, in whatever way; what is known of it is on disk."""
        self._end_listeners.append(listener)

    def report_end(self) -> None:
        """A turn has ended: its result is told to its caller alone."""
        for listener in self._end_listeners:
            listener()
