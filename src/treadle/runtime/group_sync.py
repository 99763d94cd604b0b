"""Batches of many threads that one event loop works on, made durable with one sync.

While one sync runs, in a thread, other threads write theirs and wait for the next. So the more
there are, the more a sync does. Nothing of a batch is told, and nothing follows from it, before the
sync that began behind its write has ended.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from treadle.errors import StoreError


class SyncGroup(Protocol):
    """The writers of a store in this process, as far as one sync may do for many."""

    @property
    def is_worth_waiting(self) -> bool:
        """Whether so many are open that a batch should wait for others to be synced with."""
        ...

    def find_sync(self, members: Sequence[Any]) -> Callable[[], None] | None:
        """What syncs what these members wrote, at once; `None` if each is to be synced by itself.

        It may be called in another thread, and raises `OSError`. Who called it tells each member
        how it ended.
        """
        ...


class SyncMember(Protocol):
    """What a group knows of a writer."""

    @property
    def group(self) -> SyncGroup:
        """Where it belongs."""
        ...

    def end_sync(self, error: OSError | None) -> None:
        """Hear how a sync of many ended. Raises as the sync of one writer."""
        ...


class GroupedSync:
    """The sync of one batch; ended by its group, or by whoever cannot wait for that."""

    __slots__ = ("_error", "_future", "_is_ended", "_sync_alone", "member")

    def __init__(
        self, sync_alone: Callable[[], None], member: SyncMember, loop: AbstractEventLoop
    ) -> None:
        self._sync_alone = sync_alone
        self.member = member
        self._future: Future[None] = loop.create_future()
        self._is_ended = False
        self._error: StoreError | None = None

    async def wait(self) -> None:
        """Until it is durable. Who is cancelled here does not undo it. Raises as `result`."""
        await self._future
        self.result()

    def result(self) -> None:
        """Make it durable now, if it is not yet.

        Raises:
            StoreError: the disk refused; this writer is finished.
        """
        if not self._is_ended:
            self.sync()
        if self._error is not None:
            raise self._error

    @property
    def is_ended(self) -> bool:
        """Whether it is durable, or failed."""
        return self._is_ended

    def sync(self) -> None:
        """Sync this journal alone."""
        try:
            self._sync_alone()
        except StoreError as error:
            self._error = error
        self._end()

    def end(self, error: OSError | None) -> None:
        """Hear how the sync of the group ended.

        Also where this one did not wait for it: a disk that has refused is trusted no more.
        """
        try:
            self.member.end_sync(error)
        except StoreError as refused:
            self._error = self._error or refused
        self._end()

    def _end(self) -> None:
        self._is_ended = True
        if not self._future.done():
            self._future.set_result(None)


class GroupSyncs:
    """The syncs that wait, of one group in one loop.

    It does not hold the group: that is a key of `_GROUPS`, and ends with its store.

    Args:
        loop: where they are waited for.
        executor: where a sync of many runs.
    """

    def __init__(self, loop: AbstractEventLoop, executor: Executor) -> None:
        self.loop = loop
        self._executor = executor
        self._waiting: list[GroupedSync] = []
        self._is_busy = False

    def add(self, sync_alone: Callable[[], None], member: SyncMember) -> GroupedSync:
        """Have what a writer has just written made durable with that of others."""
        one = GroupedSync(sync_alone, member, self.loop)
        self._waiting.append(one)
        if not self._is_busy:
            self._is_busy = True
            self.loop.call_soon(self._begin)  # who is ready to write in this pass comes along
        return one

    def _begin(self) -> None:
        waiting = [one for one in self._waiting if not one.is_ended]
        self._waiting = []
        members = [one.member for one in waiting]
        sync = members[0].group.find_sync(members) if members else None
        if sync is None:
            self._is_busy = False
            for one in waiting:
                one.sync()
            return
        future = self.loop.run_in_executor(self._executor, sync)
        future.add_done_callback(lambda done: self._end(waiting, done))

    def _end(self, waiting: Sequence[GroupedSync], done: Future[None]) -> None:
        error = OSError("the sync was cancelled") if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, OSError):
            error = OSError(str(error))
        for one in waiting:
            one.end(error)
        if self._waiting:
            self._begin()
        else:
            self._is_busy = False


_GROUPS: Final[WeakKeyDictionary[SyncGroup, GroupSyncs]] = WeakKeyDictionary()


def find_group_syncs(group: SyncGroup, executor: Executor) -> GroupSyncs | None:
    """The syncs of a group in the running loop.

    A group is of one loop at a time. To another one, in another thread, this is `None`: the disk
    vouches for what was written since it first saw the group, and cannot tell in which thread.
    """
    loop = asyncio.get_running_loop()
    found = _GROUPS.get(group)
    if found is None or (found.loop is not loop and found.loop.is_closed()):
        found = _GROUPS[group] = GroupSyncs(loop, executor)
    return found if found.loop is loop else None
