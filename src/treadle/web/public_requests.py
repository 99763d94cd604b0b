"""Requests to public addresses and no others.

A name is looked up once. Each address that it has must be public, and the connection goes to one of
just these: whoever answers otherwise at the second question (DNS rebinding) is not asked one. TLS
checks the name all the same. Nothing of the person or the machine goes along: no cookies, no
credentials (`.netrc` neither), no proxy.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from treadle.helper_programs import answer_for_platform
from treadle.web.public_networks import explain_not_public
from treadle.web.web_address import WebAddress, WebFailure, find_refusal

if TYPE_CHECKING:
    import ssl

    import httpx2

WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})
"""Where pages are. Other ports have services that take an odd request for an order."""

CONNECT_ADDRESS_COUNT_MAX: Final = 3
"""Of one host, tried in turn."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IP addresses of a host; raises `OSError` if it has none."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """What the system says; a number is its own address.

    In a thread that nobody waits for when time is over: whose name servers are silent would else
    use up the few threads in which the loop looks names up, for all others too.
    """
    from anyio import CapacityLimiter, to_thread

    def look_up() -> list[tuple[object, object, object, object, tuple[object, ...]]]:
        return [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]

    found = await to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=CapacityLimiter(1))
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class PublicRequests:
    """Sends single requests, each over a connection of its own.

    Args:
        resolve: looks names up.
        allowed: addresses and ports that may be reached although they are not public. There is no
            setting for it: it is for tests, whose servers are on this machine.
        allows_private: any address and port may be reached, of private networks too.
        connect_s_max: seconds until a connection is there.
        total_s_max: seconds of silence, at most.
        tls: what certificates are believed; by default those of the system and the environment.
    """

    def __init__(
        self,
        *,
        resolve: Resolve = resolve_host,
        allowed: Collection[tuple[str, int]] = (),
        allows_private: bool = False,
        connect_s_max: float,
        total_s_max: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._allowed = frozenset(allowed)
        self._allows_private = allows_private
        self._connect_s_max = connect_s_max
        self._total_s_max = total_s_max
        self._tls = tls

    def find_refusal(self, address: WebAddress) -> str:
        """Why nothing is sent there, as far as the address says; empty if it does not."""
        if self._allows_private:
            return ""
        if why := find_refusal(address):
            return why
        if address.port not in WEB_PORTS and address.port not in {
            port for _, port in self._allowed
        }:
            ports = ", ".join(map(str, sorted(WEB_PORTS)))
            return f"port {address.port} is none of those of web pages: {ports}"
        return self._explain_not_public(address.literal, address.port) if address.literal else ""

    async def find_places(self, address: WebAddress) -> Sequence[str]:
        """The IP addresses of the host, all of which are public.

        Raises:
            WebFailure: one is not, or there is none.
        """
        if why := self.find_refusal(address):
            raise make_refusal(why)
        _refuse_proxy(address)
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
                raise make_refusal(f"{address.host} is {place}: {why}")
        return places

    def _explain_not_public(self, place: str, port: int) -> str:
        if self._allows_private or (place, port) in self._allowed:
            return ""
        if what := explain_not_public(place):
            return f"no address of the public internet but of {what}"
        return "this machine" if is_own_address(place, port) else ""

    async def read_tls(self) -> ssl.SSLContext:
        """What certificates are believed."""
        import httpx2

        if self._tls is None:
            # To read the certificates of the system takes long enough to be noticed.
            self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
        return self._tls

    async def open_transport(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        """Connections that nobody else uses, without a proxy; whoever opens it closes it."""
        import httpx2

        answer_for_platform()
        if scheme == "http":
            tls = httpx2.create_ssl_context(verify=False)  # of which nothing is asked
        else:
            tls = await self.read_tls()
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=0)
        return httpx2.AsyncHTTPTransport(tls, trust_env=False, limits=limits)

    async def send(
        self,
        transport: httpx2.AsyncHTTPTransport,
        address: WebAddress,
        places: Sequence[str],
        headers: Mapping[str, str],
    ) -> httpx2.Response:
        """Ask the first of the addresses that answers for a page.

        Args:
            transport: of `open_transport`.
            address: what is asked for.
            places: of `find_places`.
            headers: besides the host.

        Raises:
            httpx2.HTTPError: nobody answers.
        """
        import httpx2

        tried = places[:CONNECT_ADDRESS_COUNT_MAX]
        timeout = httpx2.Timeout(self._total_s_max, connect=self._connect_s_max)
        for number, place in enumerate(tried, 1):
            host = f"[{place}]" if ":" in place else place
            request = httpx2.Request(
                "GET",
                f"{address.scheme}://{host}:{address.port}{address.target}",
                headers={"host": address.authority, **headers, "connection": "close"},
                # The connection is to the address; the certificate must be for the name.
                extensions={"sni_hostname": address.host, "timeout": timeout.as_dict()},
            )
            try:
                return await transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if number == len(tried):
                    raise
        raise AssertionError("there is at least one address")


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
    raise make_refusal(
        f"the environment has a proxy for {address.scheme}, which would look up {address.host} "
        "itself, so that nobody could tell where it leads. A person may name the host in NO_PROXY"
    )


def make_refusal(why: str) -> WebFailure:
    """What is said of what was not sent, because it leads where nobody may go."""
    return WebFailure(f"this address cannot be reached: {why}", is_refused=True)
