"""One page, fetched within bounds, from a public address and no other.

How a request reaches a public address is said in `public_requests.py`. A redirect goes through all
of it again, and one to another site is not followed: whoever allowed a page of this one has not
allowed that.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from treadle.version import __version__
from treadle.web.public_requests import PublicRequests, Resolve, resolve_host
from treadle.web.web_address import PORTS, WebAddress, WebFailure, read_link

if TYPE_CHECKING:
    import ssl

    import httpx2

REDIRECT_COUNT_MAX: Final = 5
REFUSED_BODY_SIZE_MAX: Final = 64 * 1024
"""Bytes read of what comes with an error status."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_USER_AGENT: Final = f"treadle/{__version__} (a coding agent; fetches single pages for a person)"
_ACCEPT: Final = "text/markdown, text/html, application/json;q=0.9, text/plain;q=0.9, */*;q=0.5"
_HEADERS: Final = {
    "user-agent": _USER_AGENT,
    "accept": _ACCEPT,
    "accept-encoding": "gzip, deflate",
}
_HEADER_LENGTH_MAX: Final = 200


class FetchLimits(Struct, frozen=True):
    """What one page may take: bytes, also after it was unpacked, and seconds in all."""

    body_size_max: int = 4 * 1024 * 1024
    connect_s_max: float = 10.0
    total_s_max: float = 30.0


LIMITS: Final = FetchLimits()


class FetchedPage(Struct, frozen=True):
    """What came. `body` may be cut; it is empty where `wants_body` said that nobody reads it.

    `content_type` and `reason` are the server's own words, one short line each; `size` is what the
    server says of the whole, `None` if it does not.
    """

    address: WebAddress
    status: int
    reason: str
    content_type: str
    body: bytes = b""
    is_cut: bool = False
    size: int | None = None
    retry_after: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the server says that this is the page."""
        return 200 <= self.status < 300


class RedirectElsewhere(Struct, frozen=True):
    """A redirect that was not followed: to another site, or from https to http."""

    address: WebAddress
    target: WebAddress


class PageFetcher:
    """Fetches single pages; any number at a time.

    Args:
        resolve: looks names up.
        allowed: addresses and ports that may be reached although they are not public. There is no
            setting for it: it is for tests, whose servers are on this machine.
        limits: what a page may take.
        tls: what certificates are believed; by default those of the system and the environment.
    """

    def __init__(
        self,
        *,
        resolve: Resolve = resolve_host,
        allowed: Collection[tuple[str, int]] = (),
        limits: FetchLimits = LIMITS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits
        self._requests = PublicRequests(
            resolve=resolve,
            allowed=allowed,
            connect_s_max=limits.connect_s_max,
            total_s_max=limits.total_s_max,
            tls=tls,
        )

    def find_refusal(self, address: WebAddress) -> str:
        """Why the page cannot be fetched, as far as its address says; empty if it does not."""
        return self._requests.find_refusal(address)

    async def fetch(
        self, address: WebAddress, wants_body: Callable[[str], bool]
    ) -> FetchedPage | RedirectElsewhere:
        """Fetch a page.

        Args:
            address: where it is.
            wants_body: whether the body of this content type is to be read.

        Raises:
            WebFailure: it leads where nobody may go, or nothing came.
        """
        try:
            async with asyncio.timeout(self._limits.total_s_max):
                return await self._follow(address, wants_body)
        except TimeoutError:
            raise WebFailure(
                f"{address.host} did not send the page in {self._limits.total_s_max:g} seconds"
            ) from None

    async def _follow(
        self, address: WebAddress, wants_body: Callable[[str], bool]
    ) -> FetchedPage | RedirectElsewhere:
        for _ in range(REDIRECT_COUNT_MAX + 1):
            found = await self._request(address, wants_body)
            if isinstance(found, FetchedPage):
                return found
            if (found.site, found.port) != (address.site, address.port) and not _is_upgrade(
                address, found
            ):
                return RedirectElsewhere(address, found)
            address = found
        raise WebFailure(f"{address.host} redirects more than {REDIRECT_COUNT_MAX} times")

    async def _request(
        self, address: WebAddress, wants_body: Callable[[str], bool]
    ) -> FetchedPage | WebAddress:
        """One request; the page, or where it redirects to."""
        import httpx2

        places = await self._requests.find_places(address)
        try:
            async with await self._requests.open_transport(address.scheme) as transport:
                response = await self._requests.send(transport, address, places, _HEADERS)
                try:
                    return await self._read(response, address, wants_body)
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:_HEADER_LENGTH_MAX]
            raise WebFailure(f"{address.host} cannot be reached: {words}") from None

    async def _read(
        self, response: httpx2.Response, address: WebAddress, wants_body: Callable[[str], bool]
    ) -> FetchedPage | WebAddress:
        headers, status = response.headers, response.status_code
        if status in _REDIRECTS and headers.get("location"):
            return read_link(address, headers["location"])
        length = headers.get("content-length", "")
        page = FetchedPage(
            address,
            status,
            _shorten(response.reason_phrase),
            _shorten(headers.get("content-type", "")),
            size=int(length)
            if length.isascii() and length.isdigit() and len(length) < 16
            else None,
            retry_after=_shorten(headers.get("retry-after", "")),
        )
        if not wants_body(page.content_type):
            return page
        size_max = self._limits.body_size_max if page.is_success else REFUSED_BODY_SIZE_MAX
        encoding = headers.get("content-encoding", "identity").strip().lower()
        body, is_cut = await _read_body(response.aiter_raw(), encoding, size_max)
        return FetchedPage(
            page.address,
            status,
            page.reason,
            page.content_type,
            body,
            is_cut,
            page.size,
            page.retry_after,
        )


async def _read_body(
    chunks: AsyncIterator[bytes], encoding: str, size_max: int
) -> tuple[bytes, bool]:
    """The beginning of a body, unpacked, and whether there is more."""
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise WebFailure(f"the page is packed as {encoding[:20]!r}, which was not asked for")
    is_packed = encoding not in ("identity", "")
    unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS)  # knows gzip and zlib by their beginning
    body = bytearray()
    came = 0
    async for chunk in chunks:
        came += len(chunk)
        if is_packed:
            try:
                # Bounded at each step: a few bytes of a bomb are gigabytes.
                chunk = unpacker.decompress(chunk, size_max + 1 - len(body))
            except zlib.error:
                raise WebFailure("the page is packed, and the packing is damaged") from None
        body += chunk
        if len(body) > size_max or came > size_max:
            return bytes(body[:size_max]), True
    return bytes(body), False


def _is_upgrade(before: WebAddress, target: WebAddress) -> bool:
    """Whether a redirect only asks for the same site by https."""
    usual = before.port == PORTS[before.scheme] and target.port == PORTS[target.scheme]
    return usual and before.site == target.site and target.scheme == "https"


def _shorten(header: str) -> str:
    plain = "".join(one for one in header if one.isprintable())
    return " ".join(plain.split())[:_HEADER_LENGTH_MAX]
