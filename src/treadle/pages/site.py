"""The site: its paths, and what every answer has.

Nothing on a page is run or loaded but what stands in this package: the policy says so, and every
text is escaped. All can be read without a script; the one script keeps the last page of a thread
up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from anyio import to_thread
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from treadle.errors import TreadleError, UnknownThreadError, UsageError
from treadle.pages.act_routes import ActRoutes, Acts, FormGuard
from treadle.pages.page_refusal import PageRefusal as PageRefusal
from treadle.pages.ports import LiveState, PageSource
from treadle.pages.renderer import read_static_file, render_refusal, render_template
from treadle.pages.thread_page import make_thread_page
from treadle.thread.safe_text import sanitize_text

ROW_COUNT: Final = 50
"""Threads of a page."""
HIT_COUNT: Final = 50
"""Threads that a search shows."""
PAGE_MAX: Final = 1_000_000
WORDS_LENGTH_MAX: Final = 1000
LOOK_S: Final = 0.3
"""Between two looks at a thread that somebody watches."""
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


class _ThreadQuery(Struct, frozen=True):
    """What stands behind the `?`; unknown names are let be, as on every site."""

    words: str = ""
    state: str = ""
    page: int | None = None


class Pages:
    """What is shown of some threads.

    Args:
        find_source: the threads that who asks may see.
        is_stopping: whether whoever watches is to be let go.
        acts: who does what visitors ask for, and whose forms count; without it pages only read.
    """

    def __init__(
        self,
        find_source: Callable[[Request], PageSource],
        is_stopping: Callable[[], bool],
        acts: tuple[Acts, FormGuard] | None = None,
    ) -> None:
        self._find_source = find_source
        self._is_stopping = is_stopping
        self._acts = None if acts is None else ActRoutes(*acts, send_page, HEADERS)

    def list_routes(self) -> list[Route]:
        """The paths."""
        pages = {
            "/": self._show_threads,
            "/threads/{thread_id}": self._show_thread,
            "/threads/{thread_id}/outputs/{call_id:path}": self._show_output,
            "/threads/{thread_id}/live": self._follow_thread,
        }
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in pages.items()]
        acts = [] if self._acts is None else self._acts.list_routes()
        return [*routes, *acts, make_static_route()]

    async def _show_threads(self, request: Request) -> Response:
        query, source = _read_query(request), self._find_source(request)
        words = query.words.strip()
        if words:
            found = await _ask(lambda: source.search(words[:WORDS_LENGTH_MAX], HIT_COUNT))
            return send_page("threads.html", words=words, found=found)
        known = {name for name, _ in STATES}
        state = query.state if query.state in known else ""
        page = query.page or 1
        start = (page - 1) * ROW_COUNT
        found = await _ask(lambda: source.list_rows(state, start, ROW_COUNT))
        return send_page(
            "threads.html",
            rows=found.rows,
            count=found.count,
            start=start,
            page=page,
            state=state,
            states=STATES,
            state_query=f"state={quote(state)}&" if state else "",
        )

    async def _show_thread(self, request: Request) -> Response:
        source, thread_id = self._find_source(request), request.path_params["thread_id"]
        page = _read_query(request).page
        view = await _ask(lambda: make_thread_page(source.read_thread(thread_id), page))
        if view is None:
            raise PageRefusal(404, "There is no such page", f"The thread has no page {page}.")
        if self._acts is None or view.page != view.page_count:
            return send_page("thread.html", view=view)
        # What can be done is done where the thread ends.
        return send_page("thread.html", view=view, **await self._acts.make_values(view.id))

    async def _show_output(self, request: Request) -> Response:
        source, names = self._find_source(request), request.path_params
        data = await _ask(lambda: source.read_output(names["thread_id"], names["call_id"]))
        text = sanitize_text(data.decode("utf-8", "replace"))
        return PlainTextResponse(text, headers={**HEADERS, "content-disposition": "inline"})

    async def _follow_thread(self, request: Request) -> Response:
        source, thread_id = self._find_source(request), request.path_params["thread_id"]
        first = await _ask(lambda: source.read_state(thread_id))
        stream = self._stream_states(request, lambda: source.read_state(thread_id), first)
        return StreamingResponse(stream, headers=HEADERS, media_type="text/event-stream")

    async def _stream_states(
        self, request: Request, read: Callable[[], LiveState], state: LiveState
    ) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n" + _encode_state(state)
        silence_s = 0.0
        while not self._is_stopping() and not await request.is_disconnected():
            await asyncio.sleep(LOOK_S)
            silence_s += LOOK_S
            try:
                found = await to_thread.run_sync(read)
            except TreadleError:
                return  # gone, or not readable now: the browser asks again, and is told
            if found != state:
                state, silence_s = found, 0.0
                yield _encode_state(state)
            elif silence_s >= HEARTBEAT_S:
                silence_s = 0.0
                yield b": still here\n\n"


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


async def _ask(function: Callable[[], Any]) -> Any:
    """What a source says, or why not, for its reader."""
    try:
        return await to_thread.run_sync(function)
    except UnknownThreadError as error:
        raise PageRefusal(404, "There is no such thread", error.message, error.hint or "") from None
    except UsageError as error:
        raise PageRefusal(
            400, "That cannot be looked for", error.message, error.hint or ""
        ) from None
    except TreadleError as error:
        raise PageRefusal(500, "It cannot be read", error.message, error.hint or "") from None


def _read_query(request: Request) -> _ThreadQuery:
    told: Mapping[str, str] = request.query_params
    page = told.get("page", "")
    number = (
        int(page) if page.isascii() and page.isdigit() and len(page) <= len(str(PAGE_MAX)) else 0
    )
    if page and not 1 <= number <= PAGE_MAX:
        raise PageRefusal(404, "There is no such page", "Pages are numbers from 1.")
    return _ThreadQuery(told.get("words", ""), told.get("state", ""), number or None)


def _encode_state(state: LiveState) -> bytes:
    return b"event: state\ndata: %s\n\n" % msgspec.json.encode(
        {"version": state.version, "text": sanitize_text(state.text)}
    )
