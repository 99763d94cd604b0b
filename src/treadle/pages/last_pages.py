"""The last page of each thread that somebody watches: made once for all who ask at once."""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

from markupsafe import Markup

from treadle.pages.ports import ShownThread
from treadle.pages.renderer import render_talk
from treadle.pages.thread_page import ItemLinks, ThreadPageView, make_thread_page


class RenderedPage:
    """A page of a thread, and its talk as HTML for each way in which it is asked for."""

    def __init__(self, view: ThreadPageView) -> None:
        self.view = view
        self._lock = Lock()
        self._talks: dict[tuple[int, bool, bool, bool], Markup] = {}

    def render_talk(self, links: ItemLinks, *, is_live: bool, has_readers: bool) -> Markup:
        """What it shows to all; `links` are those of this page. Safe for threads."""
        key = (links.version, links.is_split, is_live, has_readers)
        with self._lock:
            if key not in self._talks:
                self._talks[key] = render_talk(
                    self.view, links, is_live=is_live, has_readers=has_readers
                )
            return self._talks[key]


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
