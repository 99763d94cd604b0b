"""Fetchers for tests: names that are looked up in a table, and servers of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence

from models.loopback import Loopback
from treadle.web.page_fetcher import FetchedPage, FetchLimits, PageFetcher, RedirectElsewhere
from treadle.web.page_text import is_text
from treadle.web.web_address import read_address


class Names:
    """A resolver: of each name its answers, one after the other, the last for ever."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise socket.gaierror(host)
        return answers[min(self.asked.count(host), len(answers)) - 1]


def port_of(server: Loopback) -> int:
    return int(server.url.rpartition(":")[2])


def make_fetcher(
    *servers: Loopback, names: Names | None = None, limits: FetchLimits | None = None
) -> PageFetcher:
    """One that may reach these servers, each as `site-N.example.com` too."""
    allowed = [("127.0.0.1", port_of(server)) for server in servers]
    known = {f"site-{at}.example.com": (("127.0.0.1",),) for at in range(len(servers))}
    if limits is None:
        return PageFetcher(resolve=names or Names(known), allowed=allowed)
    return PageFetcher(resolve=names or Names(known), allowed=allowed, limits=limits)


async def fetch(
    fetcher: PageFetcher, server: Loopback | None, target: str = "/", host: str = ""
) -> FetchedPage | RedirectElsewhere:
    """Fetch a page of a server, by the name of the first site."""
    place = f"{host or 'site-0.example.com'}:{port_of(server)}" if server else host
    return await fetcher.fetch(read_address(f"http://{place}{target}"), is_text)


async def fetch_page(fetcher: PageFetcher, server: Loopback, target: str = "/") -> FetchedPage:
    """A page that must come."""
    found = await fetch(fetcher, server, target)
    assert isinstance(found, FetchedPage), found
    return found


async def never() -> None:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()
