"""The last page of each thread that somebody watches: made once for all who ask at once.

Whoever has it open is not given it again when a record comes, but the elements that are others than
before, in an event of the stream that tells of the record. That event is made once too: it is the
same for all who have the same page, which they know by its tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
from markupsafe import Markup
from msgspec import Struct

from treadle.pages.ports import ShownThread
from treadle.pages.renderer import render_items, render_template
from treadle.pages.thread_page import ItemLinks, ThreadPageView, make_thread_page

NEWS_SIZE_MAX: Final = 64 * 1024
"""Bytes of an event; of more than that who watches is told, and fetches the page.

Who does not read keeps an event and what a connection may hold, so this bounds what is held for
each of them.
"""
_DIGEST_SIZE: Final = 16


class PageMark(Struct, frozen=True):
    """What somebody has before them: the digests of its elements, and one of all of them."""

    tag: str
    digests: tuple[bytes, ...]


class RenderedItems:
    """The items of a page as HTML, one element each.

    Args:
        version: of the thread.
        elements: in order.
    """

    def __init__(self, version: int, elements: Sequence[Markup]) -> None:
        self._version = version
        self.elements = elements
        digests = tuple(_digest(one.encode()) for one in elements)
        self.mark = PageMark(_digest(b"".join(digests)).hex(), digests)
        self._told: tuple[str, bytes] | None = None

    @property
    def tag(self) -> str:
        """Known for those of a page; the same in each process that makes it."""
        return self.mark.tag

    def encode_news(self, since: PageMark | None) -> bytes:
        """What has come since another page was made, as an event. Called by one thread.

        Args:
            since: the page; `None` if it is not known here.
        """
        tag = "" if since is None else since.tag
        if self._told is None or self._told[0] != tag:
            self._told = tag, self._encode_news(since)
        return self._told[1]

    def _encode_news(self, since: PageMark | None) -> bytes:
        told: dict[str, object] = {"version": self._version, "text": "", "tag": self.tag}
        if since is not None:
            before, now = since.digests, self.mark.digests
            places = [n for n, one in enumerate(now) if before[n : n + 1] != (one,)]
            html = "".join(self.elements[place] for place in places)
            news = {"since": since.tag, "places": places, "count": len(now), "html": html}
            text = msgspec.json.encode({**told, **news})
            if len(text) <= NEWS_SIZE_MAX:
                return make_state_event(text)
        return make_state_event(msgspec.json.encode(told))


class RenderedPage:
    """A page of a thread, and its talk as HTML for each way in which it is asked for."""

    def __init__(self, view: ThreadPageView) -> None:
        self.view = view
        self._lock = Lock()
        self._items: dict[tuple[str, int, bool], RenderedItems] = {}
        self._talks: dict[tuple[str, int, bool, bool, bool], Markup] = {}

    def render_items(self, links: ItemLinks) -> RenderedItems:
        """Its items; `links` are those of this page. Safe for threads."""
        with self._lock:
            return self._render_items(links)

    def render_talk(self, links: ItemLinks, *, is_live: bool, has_readers: bool) -> Markup:
        """What it shows to all who may see it, as it stands on the page. Safe for threads.

        Args:
            links: those of this page.
            is_live: whether a script keeps it up to date.
            has_readers: whether it is looked at by who may see who else reads it.
        """
        key = (links.thread, links.version, links.is_split, is_live, has_readers)
        with self._lock:
            if key not in self._talks:
                html = render_template(
                    "thread_talk.html",
                    view=self.view,
                    links=links,
                    items=self._render_items(links),
                    is_live=is_live,
                    has_readers=has_readers,
                )
                self._talks[key] = Markup(html)  # noqa: S704 - it is escaped there
            return self._talks[key]

    def _render_items(self, links: ItemLinks) -> RenderedItems:
        key = (links.thread, links.version, links.is_split)
        if key not in self._items:
            elements = render_items(self.view, links)
            self._items[key] = RenderedItems(self.view.version, elements)
        return self._items[key]


class LastPages:
    """Pages by the threads they were made of; kept as long as those are. Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pages: WeakKeyDictionary[ShownThread, RenderedPage] = WeakKeyDictionary()

    def make_page(self, shown: ShownThread, page: int | None) -> RenderedPage | None:
        """A page; the last one is kept.

        Args:
            shown: the thread.
            page: which one; `None` for the last.

        Returns:
            `None` if there is no such page.
        """
        with self._lock:
            last = self._pages.get(shown)
        if last is not None and page in (None, last.view.page):
            return last
        view = make_thread_page(shown, page)
        if view is None:
            return None
        made = RenderedPage(view)
        if view.page < view.page_count:
            return made
        with self._lock:
            return self._pages.setdefault(shown, made)


def make_state_event(data: bytes) -> bytes:
    """An event of a stream of a page."""
    return b"event: state\ndata: %s\n\n" % data


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_SIZE).digest()
