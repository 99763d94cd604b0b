"""Changes as they happen: one look at the database for all who listen, and no queue for anybody.

A process looks when something was written in it, a moment later, so that many writes are one look;
and once in a while for what other processes write. A look brings the new changes, with what says
who may hear of them, and whose the listeners' tokens are now. For each listener that is decided
without the database: he hears what he may see at the time of the look, and one whose token is good
no more ends with it.

Nothing is kept for a listener but its place: the newest changes are kept once, for all. Who is
further behind, has just come, or may be let in by what stands only in the database (support staff)
reads from there. So a slow one costs nothing but its connection, which ends when it does not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.api.error_codes import ErrorCode
from treadle.api.types import ThreadHead
from treadle.server.accounts.access import AccessAttributes, may_receive_changes
from treadle.server.context import Principal
from treadle.server.http import logs
from treadle.server.http.settings import ServerConfig
from treadle.server.refusals import Refusal
from treadle.server.threads.listener_updates import CHANGE_COUNT_MAX, ListenerUpdate

PAGE_COUNT: Final = 100
"""Changes that a listener reads at a time from the database."""

GATHER_TIME_S: Final = 0.05
"""Between a write and the look that it causes."""

HEARTBEAT: Final = b": still here\n\n"

UpdateReader = Callable[[int | None, Collection[int]], Awaitable[ListenerUpdate]]


class ChangePage(Struct, frozen=True):
    """What a listener found in the database: changes after its place, and where it is now."""

    heads: tuple[ThreadHead, ...]
    change: int


class Listener:
    """Somebody who listens.

    Args:
        caller: whose token it has brought; `None` when that is good no more.
    """

    def __init__(self, caller: Principal) -> None:
        assert caller.token_id is not None
        self.token_id = caller.token_id
        self.caller: Principal | None = caller
        self.wake = asyncio.Event()


class _EncodedChange(Struct, frozen=True):
    """One of the newest changes, ready to be sent."""

    change: int
    key: str
    version: int
    text: bytes


class SeenVersion(Struct, frozen=True):
    """The version of a thread, as it was after a change."""

    key: str
    version: int
    change: int


class ChangeListeners:
    """Who listens in this process, and what wakes them.

    Args:
        config: how many may listen, and how often is looked.
        read_update: asks the database for the changes after one, and whose these tokens are.
    """

    def __init__(self, config: ServerConfig, read_update: UpdateReader) -> None:
        self._config = config
        self._read_update = read_update
        self._listeners: set[Listener] = set()
        self._per_user: Counter[int | None] = Counter()
        self._poller: asyncio.Task[None] | None = None
        self._change_event = asyncio.Event()
        self._reset()
        self.is_stopping = False

    def _reset(self) -> None:
        """Nothing is known of the database."""
        self._last_change: int | None = None
        self._floor = 0
        self._recent_changes: deque[_EncodedChange] = deque()
        self._attributes_by_key: dict[str, AccessAttributes] = {}

    @property
    def count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def notify_change(self) -> None:
        """Something was written in this process: there is a look soon."""
        self._change_event.set()

    def stop(self) -> None:
        """End every stream, now; none begins after that."""
        self.is_stopping = True
        self._wake_all()
        self._stop_polling()

    def _wake_all(self) -> None:
        for one in self._listeners:
            one.wake.set()

    def _stop_polling(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None
        self._reset()

    @contextmanager
    def add_listener(self, caller: Principal) -> Iterator[Listener]:
        """One more listener; its event is set when there may be something new.

        Raises:
            Refusal: there are too many, of this user or of all; or the server stops.
        """
        config, user_id = self._config, caller.user_id
        if self.is_stopping:
            raise Refusal(ErrorCode.UNAVAILABLE, "the server is stopping", headers=_RETRY_HEADERS)
        if self._per_user[user_id] >= config.stream_count_max_per_user:
            raise Refusal(
                ErrorCode.TOO_MANY,
                "too many streams of this user are open",
                hint="close one of them",
                headers=_RETRY_HEADERS,
            )
        if self.count >= config.stream_count_max:
            raise Refusal(
                ErrorCode.UNAVAILABLE, "too many streams are open", headers=_RETRY_HEADERS
            )
        listener = Listener(caller)
        self._listeners.add(listener)
        self._per_user[user_id] += 1
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll_changes())
        try:
            yield listener
        finally:
            self._listeners.remove(listener)
            self._per_user[user_id] -= 1
            if not self._per_user[user_id]:
                del self._per_user[user_id]
            if not self._listeners:
                self._stop_polling()

    @asynccontextmanager
    async def watch_disconnect(
        self, receive: Callable[[], Awaitable[Any]], listener: Listener
    ) -> AsyncIterator[asyncio.Task[None]]:
        """A task that is done when the caller has gone; the listener is woken then."""

        async def wait() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            listener.wake.set()

        task = asyncio.get_running_loop().create_task(wait())
        try:
            yield task
        finally:
            task.cancel()

    async def _poll_changes(self) -> None:
        """Look whenever something was written here, and for what other processes write.

        Whatever goes wrong, it goes on: a database that is away comes back, and a fault that ended
        the looking would leave every listener waiting for ever.
        """
        while True:
            self._change_event.clear()
            try:
                self._store_update(
                    await self._read_update(
                        self._last_change, {one.token_id for one in self._listeners}
                    )
                )
            except Refusal:
                pass
            except Exception as error:  # noqa: BLE001  it is in the log; the next look may succeed
                logs.log_event("look_failed", level=logging.ERROR, error=error)
            try:
                async with asyncio.timeout(self._config.poll_time_s):
                    await self._change_event.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(GATHER_TIME_S)

    def _store_update(self, update: ListenerUpdate) -> None:
        """Keep what a look has brought, and wake those whom it may concern."""
        if update.floor != self._last_change:
            self._recent_changes.clear()
            self._attributes_by_key.clear()
            self._floor = update.floor
        self._last_change = update.change
        for one in update.told:
            self._recent_changes.append(
                _EncodedChange(one.head.change, one.key, one.head.version, encode_event(one.head))
            )
            self._attributes_by_key[one.key] = one.place
        while len(self._recent_changes) > CHANGE_COUNT_MAX:
            self._floor = self._recent_changes.popleft().change
        if len(self._attributes_by_key) > 2 * CHANGE_COUNT_MAX:
            still = {one.key for one in self._recent_changes}
            self._attributes_by_key = {key: self._attributes_by_key[key] for key in still}
        for listener in self._listeners:
            # Who has come during the look was not asked for, and has shown his token just now.
            if listener.token_id in update.callers:
                listener.caller = update.callers[listener.token_id]
            elif listener.token_id in update.asked:
                listener.caller = None
            if update.told or listener.caller is None:
                listener.wake.set()

    def _find_known_changes(self, caller: Principal, after: int) -> tuple[bytes, int] | None:
        """What is new for a caller and where he is then; `None`: only the database knows."""
        if self._last_change is None or after < self._floor or caller.is_support:
            return None
        found: list[bytes] = []
        for one in reversed(self._recent_changes):
            if one.change <= after:
                break
            if may_receive_changes(caller, self._attributes_by_key[one.key]):
                found.append(one.text)
        return b"".join(reversed(found)), max(after, self._last_change)

    def find_newer_version(self, caller: Principal, key: str, after: int) -> SeenVersion | None:
        """The version of a thread that has changed after a change; 0 if it has not.

        Returns:
            `None` if only the database knows, or knows whether the caller may hear of it.
        """
        if self._last_change is None or after < self._floor or caller.is_support:
            return None
        for one in reversed(self._recent_changes):
            if one.change <= after:
                break
            if one.key == key:
                may = may_receive_changes(caller, self._attributes_by_key[key])
                return SeenVersion(key, one.version, self._last_change) if may else None
        return SeenVersion(key, 0, max(after, self._last_change))

    def find_newest_heard(self, caller: Principal, after: int) -> int:
        """The newest change that a caller hears of, or one after which only the database knows."""
        known = self._find_known_changes(caller, after) if self._last_change else (b"", after)
        if known is None:
            return self._last_change or after
        return known[1] if known[0] else after

    async def stream_events(
        self,
        listener: Listener,
        after: int,
        read_changes: Callable[[int], Awaitable[ChangePage]],
        disconnect_task: asyncio.Task[None],
    ) -> AsyncIterator[bytes]:
        """The text of a stream; ends when the server stops or the caller may not listen any more.

        Args:
            listener: of `listener`.
            after: the last change that the caller knows.
            read_changes: reads the changes after one, as the caller may see them now.
            disconnect_task: of `watch`.
        """
        yield b"retry: 2000\n\n"
        is_first = True
        while not self.is_stopping and not disconnect_task.done():
            listener.wake.clear()
            if listener.caller is None:
                return
            wait_s = self._config.heartbeat_time_s
            known = None if is_first else self._find_known_changes(listener.caller, after)
            if known is not None:
                text, after = known
            else:
                try:
                    found = await read_changes(after)
                except Refusal as refusal:
                    if refusal.code is not ErrorCode.UNAVAILABLE:
                        return
                    found, wait_s = ChangePage((), after), self._config.poll_time_s
                else:
                    is_first = False
                after = found.change
                text = b"".join(map(encode_event, found.heads))
                if len(found.heads) >= PAGE_COUNT:
                    listener.wake.set()
            if text:
                yield text
            try:
                async with asyncio.timeout(wait_s):
                    await listener.wake.wait()
            except TimeoutError:
                yield HEARTBEAT


def encode_event(head: ThreadHead) -> bytes:
    """A change as an event; its id is the number of the change."""
    return b"id: %d\ndata: %s\n\n" % (head.change, msgspec.json.encode(head))


_RETRY_HEADERS: Final = {"retry-after": "5"}
