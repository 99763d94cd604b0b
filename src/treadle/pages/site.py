"""The site: its paths, and what every answer has.

Nothing on a page is run or loaded but what stands in this package: the policy says so, and every
text is escaped. All can be read without a script; the one script keeps the last page of a thread
up to date.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from treadle.errors import MissingBlobError, TreadleError, UnknownThreadError, UsageError
from treadle.pages.act_routes import ActRoutes, FindActs
from treadle.pages.last_pages import LastPages, PageMark, RenderedItems, make_state_event
from treadle.pages.page_queries import keep_layout, make_links, read_number
from treadle.pages.page_refusal import PageRefusal as PageRefusal
from treadle.pages.ports import LiveState, PageSource, RowFilters, WatchedThread
from treadle.pages.renderer import read_static_file, render_refusal, render_template
from treadle.pages.shared_work import SharedWork
from treadle.pages.thread_page import ItemLinks, ThreadPageView
from treadle.pages.thread_views import ThreadViews
from treadle.thread.safe_text import sanitize_text

ROW_COUNT: Final = 50
"""Threads of a page."""
HIT_COUNT: Final = 50
"""Threads that a search shows."""
WORDS_LENGTH_MAX: Final = 1000
HEARTBEAT_S: Final = 15.0
"""After so long without news a word is sent, so that a connection that has ended is noticed."""

STATES: Final = (
    ("", "All"),
    ("waiting", "Waiting for a person"),
    ("unfinished", "Unfinished"),
    ("damaged", "Damaged"),
)
"""The states by which threads can be chosen, and their names on the page."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # or a form would not say where it stands
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex, nofollow",
}
"""What is said here is for who asked: not for caches, frames, search engines, other sites."""

_MEDIA_TYPES: Final = {
    "pages.css": "text/css",
    "live.js": "text/javascript",
    "stream.js": "text/javascript",
    "region.js": "text/javascript",
    "times.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def send_page(name: str, status: int = 200, **values: Any) -> Response:
    """A page of one template."""
    return HTMLResponse(render_template(name, **values), status, HEADERS)


def send_page_refusal(refusal: PageRefusal) -> Response:
    """The page that says why there is no other."""
    page = render_refusal(refusal.title, refusal.text, refusal.hint)
    return HTMLResponse(page, refusal.status, HEADERS)


Ask: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Asks a source: calls a function in a thread, or raises `PageRefusal`."""


class Pages:
    """What is shown of some threads.

    Args:
        find_source: the threads that who asks may see; may raise `PageRefusal`.
        ask: how they are asked for.
        acts: who does what a visitor asks for; without it pages only read.
    """

    def __init__(
        self,
        find_source: Callable[[Request], Awaitable[PageSource]],
        ask: Ask,
        acts: FindActs | None = None,
    ) -> None:
        self._find_source = find_source
        self._ask = ask
        self._last_pages = LastPages()
        self._renderings = SharedWork()
        self._views = ThreadViews(find_source, ask, send_page, HEADERS)
        self._acts = None if acts is None else ActRoutes(acts, send_page, HEADERS)

    def list_routes(self) -> list[Route]:
        """The paths."""
        pages = {
            "/": self._show_threads,
            "/live": self._follow_list,
            "/threads/{thread_id}": self._show_thread,
            "/threads/{thread_id}/outputs/{call_id:path}": self._show_output,
            "/threads/{thread_id}/live": self._follow_thread,
        }
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in pages.items()]
        acts = [] if self._acts is None else self._acts.list_routes()
        return [*routes, *self._views.list_routes(), *acts, make_static_route()]

    async def _show_threads(self, request: Request) -> Response:
        page, told = read_number(request, "page") or 1, request.query_params
        source = await self._find_source(request)
        words = told.get("words", "").strip()[:WORDS_LENGTH_MAX]
        if words:
            found = await self._ask(lambda: source.search(words, HIT_COUNT))
            return send_page("threads.html", visitor=source.visitor, words=words, found=found)
        given = {name: told.get(name, "").strip() for name in RowFilters.__struct_fields__}
        if given["state"] not in dict(STATES):
            given["state"] = ""
        start = (page - 1) * ROW_COUNT
        found = await self._ask(lambda: source.list_rows(RowFilters(**given), start, ROW_COUNT))
        return send_page(
            "threads.html",
            visitor=source.visitor,
            rows=found.rows,
            starts=found.starts,
            count=found.count,
            start=start,
            page=page,
            filters=given,
            states=STATES,
        )

    async def _show_thread(self, request: Request) -> Response:
        page, version = read_number(request, "page"), read_number(request, "version")
        name = request.path_params["thread_id"]
        source = await self._find_source(request)

        def make() -> tuple[ThreadPageView, ItemLinks, bool, Markup]:
            found = self._last_pages.make_page(source.read_thread(name, version), page)
            if found is None:
                raise PageRefusal(404, "There is no such page", f"The thread has no page {page}.")
            view = found.view
            links = make_links(request, view.page, version or 0)
            is_last = view.page == view.page_count and version is None
            talk = found.render_talk(
                links, is_live=is_last and source.is_live, has_readers=source.has_readers
            )
            return view, links, is_last, talk

        view, links, is_last, talk = await self._ask(make)
        # What can be done is done where the thread ends.
        whose = name if "@" in name else view.id
        acts = await self._acts.make_values(request, whose) if self._acts and is_last else {}
        answer = send_page(
            "thread.html",
            visitor=source.visitor,
            view=view,
            links=links,
            talk=talk,
            is_live=is_last and source.is_live,
            **acts,
        )
        keep_layout(request, answer)
        return answer

    async def _show_output(self, request: Request) -> Response:
        names = request.path_params
        source = await self._find_source(request)
        data = await self._ask(lambda: source.read_output(names["thread_id"], names["call_id"]))
        text = sanitize_text(data.decode("utf-8", "replace"))
        return PlainTextResponse(text, headers={**HEADERS, "content-disposition": "inline"})

    async def _follow_list(self, request: Request) -> Response:
        source = await self._find_source(request)
        return await stream_words(source.follow_list())

    async def _follow_thread(self, request: Request) -> Response:
        page = read_number(request, "page")
        source = await self._find_source(request)
        with convert_errors():
            states = source.follow(request.path_params["thread_id"], with_thread=page is not None)
            first = await anext(states)
        events = self._stream_states(first, states, make_links(request, page or 0))
        return StreamingResponse(events, headers=HEADERS, media_type="text/event-stream")

    async def _stream_states(
        self, first: LiveState | None, states: AsyncGenerator[LiveState | None], links: ItemLinks
    ) -> AsyncIterator[bytes]:
        """The events of who has a page open: `links` are those of the page."""
        async with aclosing(states):
            event, mark = await self._encode_state(first, links, None)
            yield b"retry: 1000\n\n" + event
            # It is gone, or cannot be read now: the browser asks again, and is told.
            with suppress(TreadleError):
                async for state in states:
                    event, mark = await self._encode_state(state, links, mark)
                    yield event

    async def _encode_state(
        self, state: LiveState | None, links: ItemLinks, since: PageMark | None
    ) -> tuple[bytes, PageMark | None]:
        """What is told of a state to who has a page, and the page that they have then."""
        if state is None:
            return b": still here\n\n", since
        if state.thread is not None:
            key = (state.thread.key, links.thread, links.page, links.is_split)
            read = partial(self._render_last_items, state.thread, links)
            items = await self._renderings.do(key, partial(self._ask, read))
            if items is not None:
                return items.encode_news(since), items.mark
        told = {"version": state.version, "text": sanitize_text(state.text)}
        return make_state_event(msgspec.json.encode(told)), None

    def _render_last_items(self, thread: WatchedThread, links: ItemLinks) -> RenderedItems | None:
        """The items of the page that these are the links of, if it is the last one."""
        shown = thread.read()
        found = None if shown is None else self._last_pages.make_page(shown, None)
        if found is None or found.view.page != links.page:
            return None
        return found.render_items(links)


async def stream_words(words: AsyncGenerator[None]) -> Response:
    """A stream with an event for each word that a part of the page may be another.

    Raises:
        Exception: what the first word raises.
    """
    event = make_state_event(b"{}")
    with convert_errors():
        await anext(words)

    async def stream() -> AsyncIterator[bytes]:
        async with aclosing(words):
            yield b"retry: 1000\n\n" + event
            with suppress(TreadleError):
                async for _ in words:
                    yield event

    return StreamingResponse(stream(), headers=HEADERS, media_type="text/event-stream")


def make_static_route() -> Route:
    """Where the style, the scripts and the icon are."""
    return Route("/static/{name}", _send_static_file, methods=["GET"])


async def _send_static_file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _MEDIA_TYPES:
        return send_page_refusal(
            PageRefusal(404, "There is no such file", "Nothing is shown under this address.")
        )
    return Response(read_static_file(name), headers=HEADERS, media_type=_MEDIA_TYPES[name])


async def ask_in_thread(function: Callable[[], Any]) -> Any:
    """See `Ask`."""
    with convert_errors():
        return await to_thread.run_sync(function)


@contextmanager
def convert_errors() -> Iterator[None]:
    """Why a source cannot answer, for its reader."""
    try:
        yield
    except UnknownThreadError as error:
        raise PageRefusal(404, "There is no such thread", error.message, error.hint or "") from None
    except MissingBlobError as error:
        raise PageRefusal(404, "It is not here", error.message, error.hint or "") from None
    except UsageError as error:
        raise PageRefusal(
            400, "That cannot be looked for", error.message, error.hint or ""
        ) from None
    except TreadleError as error:
        raise PageRefusal(500, "It cannot be read", error.message, error.hint or "") from None
