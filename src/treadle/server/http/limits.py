"""What a request may cost: the size and time of its body, and how many may come."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from treadle.api.error_codes import ErrorCode
from treadle.server.http.settings import ServerConfig
from treadle.server.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BUCKETS_MAX: Final = 10_000
"""Callers whose rate is remembered; the one that has not called for longest is forgotten."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class ClientDisconnect(Exception):  # noqa: N818  nobody is at fault
    """The caller has gone; there is nobody to answer."""


class BodyMemory:
    """How many bytes of bodies a process holds at a time, of all requests together.

    Args:
        size_max: of all.
        size_max_of_one: of the requests of one user.
    """

    def __init__(self, size_max: int, size_max_of_one: int) -> None:
        self.free = size_max
        self._size_max_of_one = size_max_of_one
        self._sizes_by_user: Counter[int | None] = Counter()

    def reserve(self, user_id: int | None, size: int) -> None:
        """Hold so many more for a user.

        Raises:
            Refusal: there is no room; it is not held.
        """
        if size > self.free or self._sizes_by_user[user_id] + size > self._size_max_of_one:
            raise Refusal(
                ErrorCode.UNAVAILABLE,
                "too much is being sent at this moment",
                hint="send it again in a moment",
                headers={"retry-after": "1"},
            )
        self.free -= size
        self._sizes_by_user[user_id] += size

    @contextmanager
    def open_reservation(self, user_id: int | None) -> Iterator[_BodyReservation]:
        """What one request of a user holds; free again at the end."""
        held = _BodyReservation(self, user_id)
        try:
            yield held
        finally:
            self.free += held.size
            self._sizes_by_user[user_id] -= held.size
            if not self._sizes_by_user[user_id]:
                del self._sizes_by_user[user_id]


class _BodyReservation:
    """What one request holds of the room."""

    def __init__(self, memory: BodyMemory, user_id: int | None) -> None:
        self._memory = memory
        self._user_id = user_id
        self.size = 0

    def add(self, size: int) -> None:
        """Hold so many more bytes."""
        self._memory.reserve(self._user_id, size)
        self.size += size


class BodyReader:
    """Reads the body of one request within the limits.

    Args:
        receive: of ASGI.
        headers: of the request, names in lower case.
        config: the limits.
        reservation: what is held counts there.
    """

    def __init__(
        self,
        receive: Receive,
        headers: dict[str, str],
        config: ServerConfig,
        reservation: _BodyReservation,
    ) -> None:
        self._receive = receive
        self._config = config
        self._reservation = reservation
        self._decompressor = _make_decompressor(headers.get("content-encoding", ""))
        self._content_length = _parse_content_length(headers.get("content-length"))
        self.received_size = 0

    async def read(self) -> bytes:
        """The body, unpacked.

        Raises:
            Refusal: it is too large, packed or unpacked; it came too slowly; it is no gzip, or is
                packed in another way.
            Disconnected: the caller has gone.
        """
        limit = self._config.body_size_max
        if self._content_length is not None and self._content_length > limit:
            raise _make_size_refusal(limit)
        body = bytearray()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            message = await self._receive_piece(began)
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            self.received_size += len(piece)
            if self.received_size > limit:
                raise _make_size_refusal(limit)
            unpacked = self._decompress(piece, limit - len(body))
            self._reservation.add(len(unpacked))
            body += unpacked
            if not message.get("more_body", False):
                break
        if self._decompressor is not None and not self._decompressor.eof:
            raise _make_gzip_refusal()
        return bytes(body)

    async def _receive_piece(self, began: float) -> MutableMapping[str, Any]:
        """The next piece. What comes at an honest pace may take longer than what drips."""
        config = self._config
        time_s = max(config.body_time_s, self.received_size / config.body_rate_min)
        try:
            async with asyncio.timeout_at(began + time_s):
                return await self._receive()
        except TimeoutError:
            raise Refusal(
                ErrorCode.TIMEOUT,
                f"the body was not there after {time_s:g} seconds",
                headers={"connection": "close"},
            ) from None

    def _decompress(self, piece: bytes, size_max: int) -> bytes:
        """The next bytes of the body, at most one more than there is room for."""
        if self._decompressor is None:
            return piece
        try:
            unpacked: bytes = self._decompressor.decompress(piece, size_max + 1)
        except zlib.error:
            raise _make_gzip_refusal() from None
        if len(unpacked) > size_max:
            raise _make_size_refusal(self._config.body_size_max)
        if self._decompressor.unused_data:
            raise _make_gzip_refusal()
        return unpacked


def _parse_content_length(text: str | None) -> int | None:
    """What `Content-Length` says; the parser below lets digits through, and nothing else."""
    return int(text[:20]) if text is not None and text.isdecimal() else None


def _make_decompressor(encoding: str) -> Any:
    """What unpacks a body; `None` for one that is not packed."""
    named = encoding.strip().lower()
    if named in ("", "identity"):
        return None
    if named in ("gzip", "x-gzip"):
        return zlib.decompressobj(_GZIP)
    raise Refusal(
        ErrorCode.UNSUPPORTED_MEDIA,
        "the body is packed in a way that is not understood here",
        hint="send it plain, or as gzip",
        headers={"accept-encoding": "gzip"},
    )


def _make_size_refusal(limit: int) -> Refusal:
    return Refusal(
        ErrorCode.TOO_LARGE,
        f"the body is larger than the {limit} bytes that are taken here",
        hint="send less at a time",
        headers={"connection": "close"},
    )


def _make_gzip_refusal() -> Refusal:
    return Refusal(ErrorCode.BAD_REQUEST, "the body is no whole gzip stream, or has bytes after it")


class RateLimiter:
    """A bucket of requests per caller, that fills again at a steady rate.

    A token counts for its user only when it has proved to be one: before that, and without a
    token, requests count for the address they come from. So nobody gets more by inventing tokens,
    or by making many.

    Args:
        rate: requests per second; 0: nothing is limited.
        burst: how many a bucket holds.
        clock: seconds that only grow.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._users: OrderedDict[str, int] = OrderedDict()

    def find_user(self, token: str) -> int | None:
        """Whose token it has proved to be; `None` if it has not. It may be good no more."""
        return self._users.get(token)

    def count_request(self, address: str, token: str = "") -> str:
        """Count a request; gives whose bucket it counted for.

        Args:
            address: where the request comes from.
            token: a digest of the token it brings.

        Raises:
            Refusal: there were too many; it says when to come back.
        """
        user_id = self._users.get(token)
        who = address if user_id is None else f"user {user_id}"
        if not self._rate:
            return who
        now = self._clock()
        level, at = self._buckets.get(who, (float(self._burst), now))
        level = min(float(self._burst), level + (now - at) * self._rate)
        if level < 1:
            self._store_bucket(who, level, now)
            wait_s = max(1, round((1 - level) / self._rate + 0.5))
            raise Refusal(
                ErrorCode.TOO_MANY,
                "too many requests",
                hint=f"come back in {wait_s} s",
                headers={"retry-after": str(wait_s)},
            )
        self._store_bucket(who, level - 1, now)
        return who

    def confirm_token(self, token: str, user_id: int) -> None:
        """The token is this user's: from now on it counts for him."""
        self._users[token] = user_id
        self._users.move_to_end(token)
        if len(self._users) > BUCKETS_MAX:
            self._users.popitem(last=False)

    def forget_token(self, token: str) -> None:
        """The token is none, or is one no more."""
        self._users.pop(token, None)

    def _store_bucket(self, caller: str, level: float, now: float) -> None:
        self._buckets[caller] = (level, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)


def find_client_address(
    client: tuple[str, int] | None, headers: dict[str, str], *, is_behind_proxy: bool
) -> str:
    """Where a request comes from. What a caller writes about itself counts for nothing.

    Args:
        client: the other end of the connection.
        headers: of the request.
        is_behind_proxy: the other end is a proxy, whose word stands last in `X-Forwarded-For`.
    """
    if is_behind_proxy and (told := headers.get("x-forwarded-for", "")):
        return told.rpartition(",")[2].strip()[:100]
    return client[0] if client else ""
