"""Nothing that is fetched comes from inside, whatever an address, a name or a redirect says."""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from models.loopback import Answer, Loopback
from treadle.web.page_fetcher import PageFetcher, RedirectElsewhere
from treadle.web.page_text import is_text
from treadle.web.public_networks import explain_not_public
from treadle.web.public_requests import is_own_address
from treadle.web.web_address import WebFailure, read_address
from web.fetching import Names, fetch, make_fetcher, port_of
from web.inside import LITERALS, PUBLIC, RESOLVED, WITHOUT_HOST


def make_redirect(target: str) -> Answer:
    """A redirect, with the letters of its target as a server sends them."""
    location = target.encode().decode("latin-1").translate({0: None, 9: None, 10: None})
    return Answer((b"moved",), 302, {"location": location, "content-type": "text/plain"})


def test_there_are_enough_of_them() -> None:
    assert len({*LITERALS}) == len(LITERALS) >= 60


@for_every_row("url", (*LITERALS, *WITHOUT_HOST))
async def test_an_address_that_leads_inside_is_refused_before_any_name_is_asked(url: str) -> None:
    names = Names({})
    with pytest.raises(WebFailure) as refused:
        await PageFetcher(resolve=names).fetch(read_address(url), is_text)
    assert refused.value.is_refused
    assert names.asked == []


@for_every_row("host, answers", RESOLVED)
async def test_a_name_that_leads_inside_is_refused(host: str, answers: tuple[str, ...]) -> None:
    async with Loopback(Answer((b"secret",))) as server:
        names = Names({host: (answers,)})
        # Even the port of a server that may be reached elsewhere.
        fetcher = PageFetcher(resolve=names, allowed=[("127.0.0.9", port_of(server))])
        with pytest.raises(WebFailure) as refused:
            await fetch(fetcher, server, host=host)
        assert refused.value.is_refused
        assert (names.asked, server.connections) == ([host], 0)


@for_every_row("url", LITERALS)
async def test_a_redirect_that_leads_inside_is_not_followed(url: str) -> None:
    async with Loopback(make_redirect(url), Answer((b"secret",))) as server:
        fetcher = make_fetcher(server)

        async def follow() -> None:
            """Another site is named, and refused when it is asked for."""
            found = await fetch(fetcher, server)
            assert isinstance(found, RedirectElsewhere), url
            await fetcher.fetch(found.target, is_text)

        with pytest.raises(WebFailure) as refused:
            await follow()
        assert refused.value.is_refused or "is not known" in refused.value.message
        assert len(server.requests) == 1


async def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked() -> None:
    """DNS rebinding: the second answer would be another server of this machine."""
    async with Loopback(Answer((b"outside",))) as server, Loopback(Answer((b"inside",))) as other:
        names = Names({"site-0.example.com": (("127.0.0.1",), ("127.0.0.2",))})
        found = await fetch(make_fetcher(server, names=names), server)
        assert getattr(found, "body", b"") == b"outside"
        assert (names.asked, other.connections) == (["site-0.example.com"], 0)
        assert server.requests[0].headers["host"] == f"site-0.example.com:{port_of(server)}"


async def test_a_redirect_to_the_same_site_is_looked_up_and_checked_again() -> None:
    async with Loopback(make_redirect("/again"), Answer((b"inside",))) as server:
        names = Names({"site-0.example.com": (("127.0.0.1",), ("127.0.0.2",))})
        with pytest.raises(WebFailure, match=r"127\.0\.0\.2") as refused:
            await fetch(make_fetcher(server, names=names), server)
        assert refused.value.is_refused
        assert (len(names.asked), len(server.requests)) == (2, 1)


def test_an_address_of_this_machine_is_known_whatever_network_it_is_of() -> None:
    assert is_own_address("127.0.0.1", 80)
    assert not is_own_address(PUBLIC, 80)


@for_every_row(
    "address",
    (
        *(
            PUBLIC,
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
        ),
        *("169.253.255.255", "192.0.1.1", "198.17.0.1", "223.255.255.255", "::ffff:8.8.8.8"),
        *("2606:4700::1111", "2001:4860:4860::8888", "64:ff9b::8.8.8.8", "2003::1"),
    ),
)
def test_a_public_address_is_public(address: str) -> None:
    assert explain_not_public(address) == ""


async def test_a_proxy_of_the_environment_is_neither_used_nor_gone_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Loopback(Answer((b"page",))) as server, Loopback(Answer((b"proxy",))) as proxy:
        fetcher = make_fetcher(server)
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises(WebFailure, match="NO_PROXY") as refused:
            await fetch(fetcher, server)
        assert refused.value.is_refused
        monkeypatch.setenv("no_proxy", "site-0.example.com")
        assert getattr(await fetch(fetcher, server), "body", b"") == b"page"
        assert proxy.connections == 0
