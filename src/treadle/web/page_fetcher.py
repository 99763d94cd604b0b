"""One page, fetched within bounds, from a public address and no other.

A name is looked up once. Each address that it has must be public, and the connection goes to one of
just these: whoever answers otherwise at the second question (DNS rebinding) is not asked one. TLS
checks the name all the same. A redirect goes through all of it again, and one to another site is
not followed: whoever allowed a page of this one has not allowed that.

Nothing of the person goes along: no cookies, no credentials (`.netrc` neither), no page from which
the link came.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from treadle.helper_programs import answer_for_platform
from treadle.version import __version__
from treadle.web.public_networks import explain_not_public
from treadle.web.web_address import PORTS, WebAddress, WebFailure, find_refusal, read_link

if TYPE_CHECKING:
    import ssl

    import httpx2

WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})
"""Where pages are. Other ports have services that take an odd request for an order."""

REDIRECT_COUNT_MAX: Final = 5
CONNECT_ADDRESS_COUNT_MAX: Final = 3
"""Of one host, tried in turn."""

REFUSED_BODY_SIZE_MAX: Final = 64 * 1024
"""Bytes read of what comes with an error status."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_USER_AGENT: Final = f"treadle/{__version__} (a coding agent; fetches single pages for a person)"
_ACCEPT: Final = "text/markdown, text/html, application/json;q=0.9, text/plain;q=0.9, */*;q=0.5"
_HEADER_LENGTH_MAX: Final = 200

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IP addresses of a host; raises `OSError` if it has none."""


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


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """What the system says; a number is its own address."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


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
        self._resolve = resolve
        self._allowed = frozenset(allowed)
        self._limits = limits
        self._tls = tls

    def find_refusal(self, address: WebAddress) -> str:
        """Why the page cannot be fetched, as far as its address says; empty if it does not."""
        if why := find_refusal(address):
            return why
        if address.port not in WEB_PORTS and address.port not in {
            port for _, port in self._allowed
        }:
            ports = ", ".join(map(str, sorted(WEB_PORTS)))
            return f"port {address.port} is none of those of web pages: {ports}"
        return self._explain_not_public(address.literal, address.port) if address.literal else ""

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
            if why := self.find_refusal(address):
                raise _make_refusal(why)
            _refuse_proxy(address)
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

        places = await self._find_public_addresses(address)
        try:
            async with await self._make_transport(address.scheme) as transport:
                response = await self._send(transport, address, places)
                try:
                    return await self._read(response, address, wants_body)
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:_HEADER_LENGTH_MAX]
            raise WebFailure(f"{address.host} cannot be reached: {words}") from None

    async def _find_public_addresses(self, address: WebAddress) -> Sequence[str]:
        """The addresses of the host, all of which are public."""
        if address.literal:
            places: Sequence[str] = (address.literal,)
        else:
            try:
                places = await self._resolve(address.host, address.port)
            except (OSError, UnicodeError):
                places = ()
        if not places:
            raise WebFailure(f"the name {address.host} is not known: look at how it is spelt")
        for place in places:
            # One of many is enough to refuse: which of them is tried first is up to the answer.
            if why := self._explain_not_public(place, address.port):
                raise _make_refusal(f"{address.host} is {place}: {why}")
        return places

    def _explain_not_public(self, place: str, port: int) -> str:
        if (place, port) in self._allowed:
            return ""
        if what := explain_not_public(place):
            return f"no address of the public internet but of {what}"
        return "this machine" if is_own_address(place, port) else ""

    async def _make_transport(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        """Connections that nobody else uses, without a proxy."""
        import httpx2

        answer_for_platform()
        if scheme == "http":
            tls = httpx2.create_ssl_context(verify=False)  # of which nothing is asked
        elif self._tls is None:
            # To read the certificates of the system takes long enough to be noticed.
            tls = self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
        else:
            tls = self._tls
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=0)
        return httpx2.AsyncHTTPTransport(tls, trust_env=False, limits=limits)

    async def _send(
        self, transport: httpx2.AsyncHTTPTransport, address: WebAddress, places: Sequence[str]
    ) -> httpx2.Response:
        """Send the request to the first of the addresses that answers."""
        import httpx2

        tried = places[:CONNECT_ADDRESS_COUNT_MAX]
        timeout = httpx2.Timeout(self._limits.total_s_max, connect=self._limits.connect_s_max)
        for number, place in enumerate(tried, 1):
            host = f"[{place}]" if ":" in place else place
            request = httpx2.Request(
                "GET",
                f"{address.scheme}://{host}:{address.port}{address.target}",
                headers={
                    "host": address.authority,
                    "user-agent": _USER_AGENT,
                    "accept": _ACCEPT,
                    "accept-encoding": "gzip, deflate",
                    "connection": "close",
                },
                # The connection is to the address; the certificate must be for the name.
                extensions={"sni_hostname": address.host, "timeout": timeout.as_dict()},
            )
            try:
                return await transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if number == len(tried):
                    raise
        raise AssertionError("there is at least one address")

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


def is_own_address(place: str, port: int) -> bool:
    """Whether a public address is one of this machine's own.

    To connect a socket for datagrams sends nothing; the system chooses the address that it would
    send from, which is the same one only where it would talk to itself.
    """
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((place, port))
            return bool(probe.getsockname()[0] == place)
    except OSError:  # there is no way there
        return False


def _refuse_proxy(address: WebAddress) -> None:
    """Raise where the environment, or the system's settings, want a proxy between.

    A proxy looks the name up itself, and may stand in a network where the name leads inside. To go
    around it would be to go where the person wanted nobody to go.
    """
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    if not (proxies.get(address.scheme) or proxies.get("all")):
        return
    if proxy_bypass(f"{address.host}:{address.port}"):
        return
    raise _make_refusal(
        f"the environment has a proxy for {address.scheme}, which would look up {address.host} "
        "itself, so that nobody could tell where it leads. A person may name the host in NO_PROXY"
    )


def _make_refusal(why: str) -> WebFailure:
    return WebFailure(f"this page cannot be fetched: {why}", is_refused=True)


def _shorten(header: str) -> str:
    plain = "".join(one for one in header if one.isprintable())
    return " ".join(plain.split())[:_HEADER_LENGTH_MAX]
