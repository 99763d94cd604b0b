"""Which IP addresses are of the public internet. Pure.

Tables of our own and not `ipaddress.is_global`, whose answers changed between versions of Python,
and which knows no network that one cloud has made its own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, TypeAlias

_V4Network: TypeAlias = ipaddress.IPv4Network
_V6Network: TypeAlias = ipaddress.IPv6Network

_NOT_PUBLIC_V4: Final[tuple[tuple[_V4Network, str], ...]] = tuple(
    (ipaddress.IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "the network of a provider"),
        ("127.0.0.0/8", "this machine"),
        ("168.63.129.16/32", "the host of a cloud machine"),
        ("169.254.0.0/16", "the local link, where clouds have the credentials of machines"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "protocols of the network"),
        ("192.0.2.0/24", "examples"),
        ("192.88.99.0/24", "a relay to IPv6"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "measurements of a network"),
        ("198.51.100.0/24", "examples"),
        ("203.0.113.0/24", "examples"),
        ("224.0.0.0/4", "many machines at once"),
        ("240.0.0.0/4", "nobody"),
    )
)
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final[tuple[tuple[_V6Network, str], ...]] = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "protocols of the network, tunnels among them"),
        ("2001:db8::/32", "examples"),
        ("2002::/16", "a tunnel to an IPv4 network"),
        ("3fff::/20", "examples"),
    )
)
"""Of what is public by its beginning; all other beginnings are not."""

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Where a network without IPv4 has the IPv4 internet: the last four bytes are the address."""


def explain_not_public(address: str) -> str:
    """What an IP address is of instead; empty if it is of the public internet.

    Args:
        address: in any form that `ipaddress` reads; what it does not read is not public.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "no IP address"
    if isinstance(ip, ipaddress.IPv4Address):
        return _find(ip, _NOT_PUBLIC_V4)
    if ip.ipv4_mapped is not None:
        return explain_not_public(str(ip.ipv4_mapped))
    if ip in _NAT64:
        return explain_not_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)))
    if ip.scope_id or ip not in _PUBLIC_V6:
        return "a private network or this machine"
    return _find(ip, _NOT_PUBLIC_V6)


def _find(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
    table: Iterable[tuple[_V4Network | _V6Network, str]],
) -> str:
    return next((what for network, what in table if ip in network), "")
