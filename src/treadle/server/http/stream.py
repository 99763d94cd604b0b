"""Changes as they happen: one look at the database for all who listen, and no queue for anybody.

A listener has no buffer: it is woken, and reads what is new for it from the database, as far as its
caller may see it at that moment. So a slow one costs nothing but its connection, which ends when it
does not read; and one whose token was revoked ends with its next look.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.api.codes import Code
from treadle.api.types import ThreadHead
from treadle.server.http.settings import ServerConfig
from treadle.server.problems import Refusal

PAGE_COUNT: Final = 100
"""Changes that a listener reads at a time."""

HEARTBEAT: Final = b": still here\n\n"


class Look(Struct, frozen=True):
    """What a listener found: changes after its place, and up to where it has looked."""

    heads: tuple[ThreadHead, ...]
    change: int


class Changes:
    """Who listens in this process, and what wakes them.

    Args:
        config: how many may listen, and how often is looked.
        look_newest: asks the database for the newest change.
    """

    def __init__(self, config: ServerConfig, look_newest: Callable[[], Awaitable[int]]) -> None:
        self._config = config
        self._look_newest = look_newest
        self._listeners: dict[asyncio.Event, int] = {}
        self._per_user: Counter[int] = Counter()
        self._seen = 0
        self._poller: asyncio.Task[None] | None = None
        self.is_stopping = False

    @property
    def count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def poke(self) -> None:
        """Something was written in this process: whoever listens looks now."""
        for wake in self._listeners:
            wake.set()

    def stop(self) -> None:
        """End every stream, now; none begins after that."""
        self.is_stopping = True
        self.poke()
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None

    @contextmanager
    def listener(self, user_id: int) -> Iterator[asyncio.Event]:
        """One more listener; the event is set when there may be something new.

        Raises:
            Refusal: there are too many, of this user or of all; or the server stops.
        """
        config = self._config
        if self.is_stopping:
            raise Refusal(Code.UNAVAILABLE, "the server is stopping", headers=_LATER)
        if self._per_user[user_id] >= config.stream_count_max_per_user:
            raise Refusal(
                Code.TOO_MANY,
                "too many streams of this user are open",
                hint="close one of them",
                headers=_LATER,
            )
        if self.count >= config.stream_count_max:
            raise Refusal(Code.UNAVAILABLE, "too many streams are open", headers=_LATER)
        wake = asyncio.Event()
        self._listeners[wake] = user_id
        self._per_user[user_id] += 1
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        try:
            yield wake
        finally:
            del self._listeners[wake]
            self._per_user[user_id] -= 1
            if not self._per_user[user_id]:
                del self._per_user[user_id]
            if not self._listeners and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    @asynccontextmanager
    async def watch(
        self, receive: Callable[[], Awaitable[Any]], wake: asyncio.Event
    ) -> AsyncIterator[asyncio.Task[None]]:
        """A task that is done when the caller has gone; the listener is woken then."""

        async def wait() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            wake.set()

        task = asyncio.get_running_loop().create_task(wait())
        try:
            yield task
        finally:
            task.cancel()

    async def _poll(self) -> None:
        """Notice what other processes write; a database that is away is asked again."""
        while True:
            await asyncio.sleep(self._config.poll_time_s)
            with suppress(Refusal):
                found = await self._look_newest()
                if found != self._seen:
                    self._seen = found
                    self.poke()

    async def events(
        self,
        wake: asyncio.Event,
        after: int,
        look: Callable[[int], Awaitable[Look]],
        gone: asyncio.Task[None],
    ) -> AsyncIterator[bytes]:
        """The text of a stream; ends when the server stops or the caller may not listen any more.

        Args:
            wake: of `listener`.
            after: the last change that the caller knows.
            look: reads the changes after one, as the caller may see them now.
            gone: of `watch`.
        """
        yield b"retry: 2000\n\n"
        while not self.is_stopping and not gone.done():
            wake.clear()
            try:
                found = await look(after)
            except Refusal as refusal:
                if refusal.code is not Code.UNAVAILABLE:
                    return
                found = Look((), after)
            after = found.change
            if found.heads:
                yield b"".join(map(event_of, found.heads))
            if len(found.heads) >= PAGE_COUNT:
                continue
            try:
                async with asyncio.timeout(self._config.heartbeat_time_s):
                    await wake.wait()
            except TimeoutError:
                yield HEARTBEAT


def event_of(head: ThreadHead) -> bytes:
    """A change as an event; its id is the number of the change."""
    return b"id: %d\ndata: %s\n\n" % (head.change, msgspec.json.encode(head))


_LATER: Final = {"retry-after": "5"}
