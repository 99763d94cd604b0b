"""`treadle web`: the pages of this machine's threads, for the browser of the person who starts it.

It listens on loopback alone, and every program of this machine can reach that, as can every page
in the person's browser. So whoever asks must have the cookie that a link gives which is good once;
and the request must be for this address, and not come from another site.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from treadle.app.pages.local_acts import LocalActs
from treadle.app.pages.local_threads import LocalThreads
from treadle.errors import ConfigError
from treadle.pages.act_routes import FormGuard
from treadle.pages.site import HEADERS, PageRefusal, Pages, ask_in_thread, send_page_refusal
from treadle.platform.socket_owner import find_socket_user
from treadle.store.local_store import LocalStore

HOST: Final = "127.0.0.1"
COOKIE: Final = "treadle"
STOP_S: Final = 1
"""Seconds that requests may go on when it is told to stop."""

_OTHER_SITES: Final = frozenset(("cross-site", "same-site"))
_NO_LINK: Final = PageRefusal(
    403,
    "This link was used already",
    "A link of `treadle web` opens the pages once, in one browser.",
    "Press Enter where it runs, or start it again, for another link.",
)
_NO_COOKIE: Final = PageRefusal(
    403,
    "These pages are not open to this browser",
    "They are opened by the link that `treadle web` prints when it starts.",
    "Press Enter where it runs, or start it again, for another link.",
)
_NOT_YOURS: Final = PageRefusal(
    403, "This link is another user's", "Only who has started `treadle web` can open it."
)
_NOT_HERE: Final = PageRefusal(
    403, "Another site asks", "These pages are only shown under the address that was printed."
)


class LocalSite:
    """The pages of a store, for who has been let in.

    Args:
        store: the threads of this machine.
        port: where it listens.
    """

    def __init__(self, store: LocalStore, port: int) -> None:
        self._port = port
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        # A cookie does not know of ports: two sites of this machine must not log each other out.
        self._cookie = f"{COOKIE}-{port}"
        self._session = secrets.token_urlsafe(32)
        self._links: set[str] = set()
        self._is_stopping = False
        self._threads = LocalThreads(store, lambda: self._is_stopping)
        self._acts = LocalActs(store)
        origins = frozenset(f"http://{host}" for host in self._hosts)
        self._guard = FormGuard(self._session, origins)
        self._pages = Pages(self._find_source, ask_in_thread, self._find_acts)
        self._app = Starlette(
            routes=self.list_routes(),
            exception_handlers={PageRefusal: self._show_refusal, 404: self._show_unknown},
        )
        self.address = f"http://{HOST}:{port}"

    def list_routes(self) -> list[Route]:
        """The paths: all that it can be asked."""
        return [Route("/open/{token}", self._open), *self._pages.list_routes()]

    async def _find_source(self, _: Request) -> LocalThreads:
        return self._threads

    async def _find_acts(self, _: Request) -> tuple[LocalActs, FormGuard]:
        return self._acts, self._guard

    def make_link(self) -> str:
        """A link that opens the pages in one browser, once."""
        token = secrets.token_urlsafe(24)
        self._links.add(token)
        return f"{self.address}/open/{token}"

    def stop(self) -> None:
        """Let go whoever watches."""
        self._is_stopping = True

    async def close(self) -> None:
        """Stop what was begun on a page; it can be resumed."""
        await self._acts.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer who may ask."""
        if scope["type"] == "http":
            refused = self._find_refusal(Headers(scope=scope), Request(scope))
            if refused is not None:
                await send_page_refusal(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find_refusal(self, headers: Headers, request: Request) -> PageRefusal | None:
        # A name that another site has pointed to this machine brings that site's pages here.
        if headers.get("host", "").lower() not in self._hosts:
            return _NOT_HERE
        path = request.url.path
        if path.startswith(("/open/", "/static/")):
            return None
        if headers.get("sec-fetch-site") in _OTHER_SITES and not _is_navigation(headers):
            return _NOT_HERE
        told = request.cookies.get(self._cookie, "")
        return None if hmac.compare_digest(told, self._session) else _NO_COOKIE

    async def _open(self, request: Request) -> Response:
        token = request.path_params["token"]
        if token not in self._links:
            raise _NO_LINK
        # The link stands in the arguments of the browser, which every user of the machine can read.
        peer = request.client
        user = None if peer is None else find_socket_user(HOST, peer.port, self._port)
        if user not in (None, os.getuid()):
            raise _NOT_YOURS
        self._links.discard(token)
        answer = RedirectResponse("/", 303, HEADERS)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="lax", path="/")
        return answer

    async def _show_refusal(self, request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, PageRefusal)
        return send_page_refusal(refusal)

    async def _show_unknown(self, request: Request, error: Exception) -> Response:
        return send_page_refusal(
            PageRefusal(404, "There is no such page", "Nothing is shown under this address.")
        )


def _is_navigation(headers: Headers) -> bool:
    """Whether somebody follows a link from another site; the cookie does not come along then."""
    return headers.get("sec-fetch-mode") == "navigate"


def serve_pages(store: LocalStore, port: int, started: Callable[[LocalSite], None]) -> None:
    """Serve the pages until a signal ends it.

    Args:
        store: the threads of this machine.
        port: where; 0 takes any that is free.
        started: gets the site when it listens.

    Raises:
        ConfigError: the port is in use.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.closing(listening):
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used: {error.strerror}", hint="--port 0 takes a free one"
            ) from None
        site = LocalSite(store, listening.getsockname()[1])
        config = uvicorn.Config(
            site,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
            lifespan="off",
            ws="none",
        )
        server = _Server(config, site)
        listening.listen()
        started(site)
        asyncio.run(_serve(server, site, listening))


async def _serve(server: uvicorn.Server, site: LocalSite, listening: socket.socket) -> None:
    try:
        await server.serve([listening])
    finally:
        closing = asyncio.ensure_future(site.close())
        while not closing.done():  # a signal that ended the server cancels this, too
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(closing)


class _Server(uvicorn.Server):
    """Tells the site of a signal: uvicorn waits for streams, and those for nothing."""

    def __init__(self, config: uvicorn.Config, site: LocalSite) -> None:
        super().__init__(config)
        self._site = site

    def handle_exit(self, sig: int, frame: object) -> None:
        """End."""
        self._site.stop()
        super().handle_exit(sig, frame)  # type: ignore[arg-type]
