"""The commands that go on when their call has its result: what is recorded and told of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from msgspec.structs import replace

from treadle import outputs
from treadle.core.messages import BlobRef
from treadle.errors import StoreError
from treadle.process.program import Cause
from treadle.runtime.calls import STORED_LENGTH_MAX, cut_middle
from treadle.runtime.inbox import Inbox
from treadle.runtime.stored_outputs import describe_output_location
from treadle.runtime.thread_journal import ThreadJournal
from treadle.thread.facts import BackgroundEnded
from treadle.thread.record import replace_surrogates
from treadle.thread.undelivered_input import describe_end
from treadle.tools.background import BackgroundCommand, BackgroundCommands, CommandEnd

_TAIL_LENGTH: Final = 1000
"""Characters of what it printed last that the model is told unasked."""
_CAUSES: Final[dict[Cause, Literal["exit", "timeout"]]] = {
    Cause.EXIT: "exit",
    Cause.TIMEOUT: "timeout",
}


class BackgroundCalls:
    """Records how commands in the background end, and has the model told once of each.

    Args:
        journal: the thread.
        inbox: where it arrives that the disk refused, which ends the turn.
    """

    def __init__(self, journal: ThreadJournal, inbox: Inbox) -> None:
        self.commands: Final = BackgroundCommands(self._record_end, self._redact)
        self._journal = journal
        self._inbox = inbox
        self._is_closing = False
        self._taken: set[str] = set()
        """Calls whose end a result tells of that is not recorded yet."""

    @property
    def running(self) -> tuple[BackgroundCommand, ...]:
        """Those that run, the oldest first."""
        return self.commands.running

    async def stop(self, call_ids: Collection[str]) -> None:
        """End those that these calls began; it is durable, and the model is told of it later."""
        await self.commands.stop([one for one in self.running if one.call_id in call_ids])

    def settle(self) -> None:
        """Say of what an earlier process has left that nobody knows how it ended.

        It is in the next batch, and nothing runs it again.

        Raises:
            StoreError: the thread cannot be written to.
        """
        self._journal.check_writable()
        for call_id, command in [*self._journal.fold.undelivered.running.items()]:
            if self.commands.find(call_id) is None:
                self._journal.stage(BackgroundEnded(call_id, command, "unknown"))

    def take_ends(self) -> tuple[BackgroundEnded, ...]:
        """What has ended and was not told yet, for one result that tells of it."""
        untold = self._journal.fold.undelivered.ends
        self._taken &= {one.call_id for one in untold}
        ends = tuple(one for one in untold if one.call_id not in self._taken)
        self._taken |= {one.call_id for one in ends}
        return ends

    async def read(self, call_id: str) -> str:
        """What a command has printed so far, secrets replaced; empty if it does not run."""
        running = self.commands.find(call_id)
        return "" if running is None else await running.read()

    async def close(self) -> None:
        """Stop all that runs, and record it."""
        self._is_closing = True
        await self.commands.stop(self.commands.running)

    def _record_end(self, begun: BackgroundCommand, end: CommandEnd) -> None:
        how = _CAUSES.get(end.cause) or ("session" if self._is_closing else "stopped")
        if not self._journal.writer.is_usable:
            return  # the next process finds it without an end
        text = self._redact(end.report)
        # As a shell says it of what a signal has ended.
        exit_code = 128 - end.exit_code if end.exit_code < 0 else end.exit_code
        fact = BackgroundEnded(
            begun.call_id,
            begun.command,
            how,
            exit_code if how == "exit" else 0,
            self._tell_tail(begun.call_id, text),
            self._keep(text) if text else None,
        )
        try:
            self._journal.stage(fact)
            self._journal.commit()
        except StoreError as error:
            self._inbox.put(error)  # a turn that runs cannot go on either
            told = (
                f"{describe_end(replace(fact, output=''))}; that is not recorded: {error.message}"
            )
            self._journal.emit(outputs.Notice(told))
            return
        # What was put aside may be the person's own, who may have worked here all the while.
        notes = "".join(f"\n[{self._redact(note)}]" for note in end.notes)
        self._journal.emit(outputs.Notice(f"{describe_end(replace(fact, output=''))}{notes}"))

    def _redact(self, text: str) -> str:
        return (self._journal.redact or str)(replace_surrogates(text))

    def _keep(self, text: str) -> BlobRef | None:
        """All that it printed, beside the thread before a record names it."""
        try:
            return self._journal.writer.keep(
                cut_middle(text, length_max=STORED_LENGTH_MAX).encode()
            )
        except StoreError as error:
            why = f"the output of a command in the background was not kept: {error.message}"
            self._journal.emit(outputs.Notice(why))
            return None

    def _tell_tail(self, call_id: str, text: str) -> str:
        if len(text) <= _TAIL_LENGTH:
            return text
        config, thread_id = self._journal.machine.config, self._journal.writer.thread_id
        where = describe_output_location(config, thread_id, call_id, None)
        return f"[the end of {len(text)} characters; all of them: {where}]\n{text[-_TAIL_LENGTH:]}"
