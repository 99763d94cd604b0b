"""The address of a page, read once: what is asked about, checked and requested is the same host.

Programs disagree about addresses that are written oddly, and an address that one reads as a public
host and another as this machine leads inside. So what is odd is refused, and all who come later
work with the parts and never with the text.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote, unquote, urljoin

from msgspec import Struct

LENGTH_MAX: Final = 2000
"""Characters of an address. More is data and no name of a page."""

PORTS: Final[dict[str, int]] = {"http": 80, "https": 443}
"""The port of each scheme that is spoken."""

OPAQUE_LENGTH_MAX: Final = 64
"""Letters and digits in one run that a name or a digest may have; a longer run carries data."""

PLAIN_LENGTH_MAX: Final = 400
"""Characters of path and query that a page may need."""

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]+)(?::([0-9]{1,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_OPAQUE: Final = re.compile(rf"[A-Za-z0-9+=]{{{OPAQUE_LENGTH_MAX + 1},}}")
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_HOST_LENGTH_MAX: Final = 253
_LOCAL_NAMES: Final = ("localhost", "local", "internal", "intranet", "lan", "home.arpa")
"""Ends of names that only a network of one's own knows."""


class WebFailure(Exception):  # noqa: N818  it becomes a `ToolFailure`
    """A page cannot be had; the message says why, and what to do.

    `is_refused`: nothing was sent, as it leads where nobody may go.
    """

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_refused = is_refused


class WebAddress(Struct, frozen=True):
    """Where a page is.

    `host` is a name in ASCII without a dot at its end, or an IP address in its usual form. `target`
    is path and query, as they are requested.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port as they stand in an address; the usual port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a text; reading it gives the same parts."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def site(self) -> str:
        """What a grant names: the host, of which `www.` is the same site.

        A site is never more than one host: who may make names under another one is known of
        registries and hosting services only by a list, and `user.github.io` is not `github.io`.
        """
        bare = self.host.removeprefix("www.")
        return bare if "." in bare else self.host

    @property
    def literal(self) -> str:
        """The IP address, if the host is one; else empty."""
        return self.host if _is_literal(self.host) else ""

    @property
    def carries_data(self) -> bool:
        """Whether path and query hold more than pages are named by: so could something be sent."""
        plain = unquote(self.target)
        return len(self.target) > PLAIN_LENGTH_MAX or _OPAQUE.search(plain) is not None


def read_address(text: str) -> WebAddress:
    """The parts of an address. Pure.

    Raises:
        WebFailure: it is none, or is written in a way that programs read differently.
    """
    if len(text) > LENGTH_MAX:
        raise _make_refusal(f"it has more than {LENGTH_MAX} characters")
    if not text.isprintable() or re.search(r"[\s\\]", text):
        raise _make_refusal("it holds blanks, a backslash or what cannot be printed")
    found = _ADDRESS.fullmatch(text)
    if found is None or found[1].lower() not in PORTS:
        other = _SCHEME.match(text)
        what = f"it begins with {other[1]}:" if other else "it has no https:// in front"
        raise _make_refusal(f"{what}; pages are fetched by http:// and https:// only")
    scheme = found[1].lower()
    if "@" in found[2]:
        raise _make_refusal(
            "it holds a name or a password for its host; leave out what is before @"
        )
    parts = _AUTHORITY.fullmatch(found[2])
    if parts is None:
        raise _make_refusal("there is no host in it")
    port = int(parts[2] or PORTS[scheme])
    target = quote(found[3], safe=_PRINTABLE)
    if not target.startswith("/"):
        target = f"/{target}"
    return WebAddress(scheme, _read_host(parts[1]), port, target)


def read_link(base: WebAddress, link: str) -> WebAddress:
    """Where a link in a page, or a redirect, leads.

    Raises:
        WebFailure: nowhere that may be read.
    """
    try:
        joined = urljoin(base.url, link.strip())
    except ValueError:
        raise _make_refusal("there is no host in it") from None
    return read_address(joined)


def find_refusal(address: WebAddress) -> str:
    """Why nobody may go there, as far as the host says so by itself; empty if it does not."""
    if address.literal:
        return ""
    labels = address.host.split(".")
    if len(labels) == 1:
        return f"{address.host} is a name of this machine or of the network that it is in"
    if any(f".{address.host}".endswith(f".{name}") for name in _LOCAL_NAMES):
        return f"{address.host} is a name that only a network of one's own knows"
    return ""


def _read_host(text: str) -> str:
    host = text.lower()
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise _make_refusal(f"{host} is no IPv6 address") from None
    if not host.isascii():
        host = _encode_host(host)
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > _HOST_LENGTH_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise _make_refusal("there is no host in it that all programs read alike")
    if _NUMBER.fullmatch(labels[-1]):
        # 2130706433, 0x7f.1, 017700000001 and 127.1 are 127.0.0.1 to some programs.
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise _make_refusal(f"{host} is no IPv4 address in its usual form") from None
    return host


def _encode_host(host: str) -> str:
    """An international name as it is looked up: `xn--...`."""
    import httpx2

    try:
        return httpx2.URL(scheme="http", host=host).raw_host.decode().lower()
    except (httpx2.InvalidURL, UnicodeError):
        raise _make_refusal("its host holds letters that no name may have") from None


def _is_literal(host: str) -> bool:
    return ":" in host or bool(_NUMBER.fullmatch(host.rpartition(".")[2]))


def _make_refusal(why: str) -> WebFailure:
    return WebFailure(f"this address cannot be fetched: {why}", is_refused=True)
