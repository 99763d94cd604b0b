"""What a page may take, and what is told of it, from servers of this machine."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from models.loopback import Answer, Loopback
from treadle.web.page_fetcher import (
    REDIRECT_COUNT_MAX,
    FetchedPage,
    FetchLimits,
    PageFetcher,
    RedirectElsewhere,
)
from treadle.web.page_text import is_text
from treadle.web.web_address import WebFailure, read_address
from web.fetching import Names, fetch, fetch_page, make_fetcher, never, port_of

HTML = {"content-type": "text/html; charset=utf-8"}
SMALL = FetchLimits(body_size_max=1000)


def packed(data: bytes, **how: str) -> Answer:
    return Answer((gzip.compress(data),), headers={**HTML, "content-encoding": "gzip", **how})


async def test_a_page_comes_with_what_the_server_says_of_it() -> None:
    async with Loopback(Answer((b"<p>", b"hi"), headers=HTML)) as server:
        page = await fetch_page(make_fetcher(server), server, "/a?b=c")
        assert (page.status, page.content_type, page.body) == (200, HTML["content-type"], b"<p>hi")
        seen = server.requests[0]
        assert (seen.method, seen.path) == ("GET", "/a?b=c")
        assert not {"cookie", "authorization", "referer"} & {*seen.headers}


async def test_a_page_may_be_packed() -> None:
    deflated = Answer((zlib.compress(b"words"),), headers={**HTML, "content-encoding": "deflate"})
    async with Loopback(packed(b"<p>hi"), deflated) as server:
        fetcher = make_fetcher(server)
        assert (await fetch_page(fetcher, server)).body == b"<p>hi"
        assert (await fetch_page(fetcher, server)).body == b"words"


@pytest.mark.parametrize("answer", [Answer((b"x" * 5000,), headers=HTML), packed(b"x" * 10**8)])
async def test_of_a_page_that_is_too_long_the_beginning_is_read(answer: Answer) -> None:
    async with Loopback(answer) as server:
        page = await fetch_page(make_fetcher(server, limits=SMALL), server)
        assert (page.body, page.is_cut) == (b"x" * 1000, True)


async def test_a_page_without_an_end_is_cut_where_the_limit_is() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"y" * 100

    async with Loopback(Answer(endless, headers=HTML)) as server:
        page = await fetch_page(make_fetcher(server, limits=SMALL), server)
        assert (len(page.body), page.is_cut) == (1000, True)


async def test_a_page_that_does_not_come_in_time_is_given_up() -> None:
    async with Loopback(Answer((b"<p>",), headers=HTML, hangs=True)) as server:
        fetcher = make_fetcher(server, limits=FetchLimits(total_s_max=0.2))
        with pytest.raises(WebFailure, match=r"did not send the page in 0\.2 seconds"):
            await fetch(fetcher, server)


async def test_a_name_that_is_never_answered_is_given_up() -> None:
    class Silent(Names):
        async def __call__(self, host: str, port: int) -> tuple[str, ...]:
            await never()
            return ()

    fetcher = PageFetcher(resolve=Silent({}), limits=FetchLimits(total_s_max=0.1))
    with pytest.raises(WebFailure, match="did not send"):
        await fetcher.fetch(read_address("https://example.com/"), is_text)


async def test_packing_that_is_damaged_or_unknown_is_told() -> None:
    bad = Answer((b"no gzip",), headers={**HTML, "content-encoding": "gzip"})
    other = Answer((b"x",), headers={**HTML, "content-encoding": "br"})
    async with Loopback(bad, other) as server:
        fetcher = make_fetcher(server)
        with pytest.raises(WebFailure, match="damaged"):
            await fetch(fetcher, server)
        with pytest.raises(WebFailure, match="'br'"):
            await fetch(fetcher, server)


async def test_what_is_no_text_is_not_read() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"%PDF"

    headers = {"content-type": "application/pdf"}
    async with Loopback(Answer(endless, headers=headers)) as server:
        page = await fetch_page(make_fetcher(server), server)
        assert (page.body, page.content_type) == (b"", "application/pdf")


def moved(target: str, status: int = 302) -> Answer:
    return Answer((b"",), status, {"location": target})


async def test_a_redirect_within_a_site_is_followed() -> None:
    async with Loopback(moved("../b?c", 308), Answer((b"here",), headers=HTML)) as server:
        page = await fetch_page(make_fetcher(server), server, "/a/x")
        assert (page.body, page.address.target) == (b"here", "/b?c")
        assert [seen.path for seen in server.requests] == ["/a/x", "/b?c"]


async def test_a_redirect_that_leads_back_to_itself_ends() -> None:
    async with Loopback(moved("/again")) as server:
        with pytest.raises(WebFailure, match=f"more than {REDIRECT_COUNT_MAX} times"):
            await fetch(make_fetcher(server), server)
        assert len(server.requests) == REDIRECT_COUNT_MAX + 1


async def test_a_redirect_to_another_site_is_named_and_not_followed() -> None:
    async with Loopback(Answer((b"x",))) as other:
        there = f"http://site-1.example.com:{port_of(other)}/x"
        async with Loopback(moved(there)) as server:
            found = await fetch(make_fetcher(server, other), server)
            assert isinstance(found, RedirectElsewhere)
            assert (found.target.url, other.connections) == (there, 0)


async def test_a_redirect_to_another_port_or_from_https_is_another_site() -> None:
    async with Loopback(Answer((b"x",))) as other:
        async with Loopback(moved(f"http://site-0.example.com:{port_of(other)}/x")) as server:
            found = await fetch(make_fetcher(server, other), server)
            assert isinstance(found, RedirectElsewhere)
        assert other.connections == 0


async def test_a_host_without_an_address_and_one_that_does_not_answer_are_told() -> None:
    async with Loopback(Answer((b"x",))) as server:
        fetcher, port = make_fetcher(server), port_of(server)
        with pytest.raises(WebFailure, match=r"gone\.example is not known"):
            await fetch(fetcher, server, host="gone.example")
    # The server is closed now, and its port with it.
    with pytest.raises(WebFailure, match="cannot be reached: ConnectError"):
        await fetcher.fetch(read_address(f"http://site-0.example.com:{port}/"), is_text)


async def test_the_next_address_of_a_host_is_tried_if_one_does_not_answer() -> None:
    async with Loopback(Answer((b"here",), headers=HTML)) as server:
        port = port_of(server)
        names = Names({"two.example.com": (("127.0.0.3", "127.0.0.1"),)})
        allowed = [("127.0.0.3", port), ("127.0.0.1", port)]
        fetcher = PageFetcher(resolve=names, allowed=allowed)
        assert getattr(await fetch(fetcher, server, host="two.example.com"), "body", b"") == b"here"


async def test_an_answer_that_is_no_http_is_told() -> None:
    async with Loopback(Answer((b"x",), headers={"a b\0": "c"})) as server:
        with pytest.raises(WebFailure, match="RemoteProtocolError"):
            await fetch(make_fetcher(server), server)


class TlsLoopback(Loopback):
    """A server with a certificate for `name.example.com`, and who believes it."""

    def __init__(self, folder: Path, *answers: Answer) -> None:
        super().__init__(*answers)
        self._key, self._certificate = folder / "key.pem", folder / "cert.pem"
        wanted = ("-subj", "/CN=test", "-addext", "subjectAltName=DNS:name.example.com")
        how = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
        to = ("-keyout", self._key, "-out", self._certificate)
        if shutil.which("openssl") is None:
            pytest.skip("makes a certificate with openssl, which is not here")
        subprocess.run(["openssl", *how, *to, *wanted], check=True, capture_output=True)

    async def __aenter__(self) -> TlsLoopback:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        return self

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._certificate))


async def test_the_certificate_must_be_for_the_name_although_the_address_is_connected_to(
    tmp_path: Path,
) -> None:
    async with TlsLoopback(tmp_path, Answer((b"safe",), headers=HTML)) as server:
        here = (("127.0.0.1",),)
        names = Names({"name.example.com": here, "other.example.com": here})
        allowed = [("127.0.0.1", port_of(server))]
        fetcher = PageFetcher(resolve=names, allowed=allowed, tls=server.trusting())
        url = f"https://name.example.com:{port_of(server)}/"
        page = await fetcher.fetch(read_address(url), is_text)
        assert isinstance(page, FetchedPage)
        assert page.body == b"safe"
        with pytest.raises(WebFailure, match="certificate"):
            await fetcher.fetch(read_address(url.replace("name", "other")), is_text)
        with pytest.raises(WebFailure, match="certificate"):
            # Nobody vouches for it but who made it.
            await PageFetcher(resolve=names, allowed=allowed).fetch(read_address(url), is_text)
