"""The thread at hand: what is staged, made durable, and told to people once it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from treadle.core.actions import AgentAction
from treadle.core.machine import Machine
from treadle.core.messages import BlobRef
from treadle.errors import StoreError
from treadle.outputs import Output
from treadle.runtime.group_sync import find_group_syncs
from treadle.runtime.ports import Writer
from treadle.runtime.store_calls import CALLS, call_beside, call_store, start_call
from treadle.thread.codec import Entry
from treadle.thread.fold import ThreadFold


class PendingSync(Protocol):
    """A sync that was begun and is waited for."""

    async def wait(self) -> None:
        """Until it has ended; whoever is cancelled here does not end it. Raises `StoreError`."""
        ...

    def result(self) -> None:
        """Wait for it here and now. Raises `StoreError`."""
        ...


class _ThreadSync:
    """A sync of a store over a network, in a thread."""

    def __init__(self, future: Future[None]) -> None:
        self._future = future

    async def wait(self) -> None:
        await asyncio.shield(asyncio.wrap_future(self._future))

    def result(self) -> None:
        self._future.result()


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
        self._pending: tuple[PendingSync, list[Output]] | None = None
        self._batch_count = 0
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
        self._end_pending()
        announced, self._announced = self._announced, []
        if self.writer.has_staged:
            self._write()
            self.writer.sync()
        self._emit_all(announced)

    async def commit_beside(self) -> bool:
        """As `commit`; where that takes long, or is done for many, the loop goes on meanwhile.

        Others may record something then: they wait until this batch is durable, and write theirs
        behind it. Who is cancelled here does not undo it: the next `commit` waits for it.

        Returns:
            Whether others have recorded something meanwhile, so that what is due may have changed.
        """
        await self._wait_for_pending()
        sync_beside = self._choose_sync()
        if sync_beside is None:
            self.commit()
            return False
        self._end_pending()
        announced, self._announced = self._announced, []
        self._write()
        count = self._batch_count
        sync = sync_beside()
        pending = self._pending = (sync, announced)
        try:
            await sync.wait()
        except Exception:
            self._pending = None
            raise
        if self._pending is pending:
            self._end_pending()
        return self._batch_count != count or self.writer.has_staged

    def _choose_sync(self) -> Callable[[], PendingSync] | None:
        """What begins a sync that the loop does not stand still for; `None` to sync at once."""
        writer = self.writer
        if not writer.has_staged:
            return None
        if writer.has_slow_sync:
            return lambda: _ThreadSync(start_call(writer.sync))
        member = writer.member
        if member is None or not member.group.is_worth_waiting:
            return None
        syncs = find_group_syncs(member.group, CALLS)
        return None if syncs is None else lambda: syncs.add(writer.sync, member)

    async def record_beside(self, *entries: Entry) -> None:
        """Make these durable together, while no turn is running; raises as `commit`."""
        self.check_writable()
        for entry in entries:
            self.stage(entry)
        await self.commit_beside()

    def close(self) -> Exception | None:
        """Give the thread free, once nothing is being written; see `ThreadWriter.close`."""
        with suppress(StoreError):  # whoever wrote it was told, or is
            self._end_pending()
        return self.writer.close()

    async def close_beside(self) -> Exception | None:
        """As `close`; where that takes long the loop goes on meanwhile."""
        if not self.writer.has_slow_sync:
            return self.close()
        with suppress(StoreError):
            await self._wait_for_pending()
        return await call_beside(self.writer.close)

    async def keep(self, data: bytes) -> BlobRef:
        """Keep bytes beside the thread; see `Writer.keep`."""
        return await call_store(self.writer.has_slow_sync, lambda: self.writer.keep(data))

    async def read_kept(self, ref: BlobRef) -> bytes:
        """What is kept beside the thread; see `Writer.read_kept`."""
        return await call_store(self.writer.has_slow_sync, lambda: self.writer.read_kept(ref))

    def _write(self) -> None:
        self.writer.write()
        self._batch_count += 1

    async def _wait_for_pending(self) -> None:
        """`_end_pending` where the store is slow; the loop goes on."""
        while (pending := self._pending) is not None and self.writer.has_slow_sync:
            with suppress(StoreError):  # it is raised below, once
                await pending[0].wait()
            if self._pending is pending:
                self._end_pending()

    def _end_pending(self) -> None:
        """Wait until the batch before is durable, and tell what it made true."""
        if self._pending is None:
            return
        (sync, announced), self._pending = self._pending, None
        sync.result()
        self._emit_all(announced)

    def _emit_all(self, announced: list[Output]) -> None:
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
