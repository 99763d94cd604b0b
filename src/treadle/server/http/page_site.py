"""The pages of a server: who is signed in, what they see, and how they are refused.

Everything that is no endpoint of the API comes here. A browser is known by the cookie of its
session; whoever must sign in first is led to do so, and back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from anyio import to_thread
from sqlalchemy import Connection
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router

from treadle.api.error_codes import ErrorCode
from treadle.pages.site import HEADERS, PageRefusal, Pages, convert_errors, send_page
from treadle.pages.site import send_page_refusal as send_refusal
from treadle.server.accounts import sessions
from treadle.server.accounts.tokens import TokenKind, is_well_formed, revoke_token
from treadle.server.context import ANONYMOUS, Context
from treadle.server.http import page_forms, request_reader, responses
from treadle.server.http.fleet_acts import FleetActs
from treadle.server.http.join_pages import JoinPages
from treadle.server.http.page_threads import ServerThreads
from treadle.server.http.request_reader import RequestHead
from treadle.server.http.responses import Send
from treadle.server.http.services import Services
from treadle.server.http.session_cookies import (
    COOKIE,
    delete_cookie,
    name_cookie,
    set_session_cookie,
)
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal
from treadle.server.search import person_activity

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

ROUTE: Final = "pages"
"""What the log and the numbers call a request for a page."""


class PageSite:
    """The ASGI application of what is no endpoint.

    Args:
        services: of the process.
        more: further paths, made of the site.
    """

    def __init__(
        self, services: Services, more: Callable[[PageSite], Sequence[Route]] = lambda _: ()
    ) -> None:
        self.services = services
        pages = Pages(self.find_source, self.ask, self._find_acts)
        self.routes = [
            *pages.list_routes(),
            Route("/sign-in", self._show_sign_in, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/team", self._show_team, methods=["GET"]),
            *more(self),
            *JoinPages(services).list_routes(),
        ]
        router = Router(self.routes, redirect_slashes=False, default=_refuse_unknown_path)
        handlers: Mapping[Any, Any] = {
            PageRefusal: _send_page_refusal,
            Refusal: self._send_refusal,
        }
        self._app = ExceptionMiddleware(router, handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            head = request_reader.read_head(scope, self.services.config)
            self.services.rate_limiter.count_request(head.address, "")
            # PostgreSQL has no text with one, and nothing that is asked for has either.
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                raise Refusal(ErrorCode.BAD_REQUEST, "no address here holds a NUL")
        except Refusal as refusal:
            scope["treadle"].code = refusal.code
            await responses.send_refusal(send, refusal, is_page=responses.wants_page(scope))
            return
        await self._app(scope, receive, send)

    def read_head(self, request: Request) -> RequestHead:
        """What stands in a request before its body."""
        return request_reader.read_head(request.scope, self.services.config)

    def find_secret(self, request: Request) -> str:
        """The secret of the browser's session; empty if it has none."""
        told = request.cookies.get(name_cookie(self.read_head(request)), "")
        return told if is_well_formed(told, TokenKind.SESSION) else ""

    async def find_source(self, request: Request) -> ServerThreads:
        """The threads that the browser's user may see; of nobody those that all may see."""
        request.scope["treadle"].route = ROUTE
        secret = self.find_secret(request)
        if request.query_params.get("words"):
            await self.services.index_until_current()
        services = self.services
        caller = ANONYMOUS
        if secret:
            try:
                caller = await services.run_transaction(
                    lambda db: sessions.identify_session(db, secret, services.now()), is_write=False
                )
            except Refusal as refusal:
                if refusal.code is not ErrorCode.UNAUTHORIZED:
                    raise
                secret = ""  # of a session that has ended: who comes with it is nobody any more
        request.scope["treadle"].user_id = caller.user_id
        if caller.user_id is None and request.url.path == "/":
            raise make_unauthorized_refusal()
        return ServerThreads(services, caller, secret, self.read_head(request).address)

    async def _find_acts(self, request: Request) -> tuple[FleetActs, SessionForms] | None:
        source = await self.find_source(request)
        if source.visitor is None:
            if request.method == "POST":
                raise make_unauthorized_refusal()
            return None
        if self.services.database.dialect != "postgresql":
            return None  # there is no fleet, and other threads are answered on their machines
        secret = self.find_secret(request)
        forms = SessionForms(self.services, secret, self.read_head(request))
        return FleetActs(self.services, secret), forms

    async def ask(self, function: Callable[[], Any]) -> Any:
        """See `treadle.pages.site.Ask`."""
        with convert_errors():
            return await to_thread.run_sync(function, limiter=self.services.read_limiter)

    async def read(
        self, request: Request, function: Callable[[Context], dict[str, Any]]
    ) -> dict[str, Any]:
        """What a page shows of who is signed in: the visitor, and what `function` reads for them.

        Raises:
            Refusal: nobody is signed in, or `function` refuses.
        """
        source = await self.find_source(request)
        if source.visitor is None:
            raise make_unauthorized_refusal()
        found: dict[str, Any] = await self.ask(lambda: source.read(function))
        return {"visitor": source.visitor, **found}

    async def write(
        self, request: Request, work: Callable[[Context, dict[str, str]], Any]
    ) -> tuple[Any, dict[str, str]]:
        """Do what a form of somebody who is signed in asks for, as one transaction.

        Args:
            request: with the form.
            work: gets the transaction and the fields.

        Raises:
            Refusal: nobody is signed in, it is no form of this page, or `work` refuses.
        """
        services, secret = self.services, self.find_secret(request)
        request.scope["treadle"].route = ROUTE
        if not secret:
            raise make_unauthorized_refusal()
        key = sessions.make_form_key(secret)
        fields = await page_forms.read_form(services, request, self.read_head(request), key)

        def run(db: Connection) -> Any:
            caller = sessions.identify_session(db, secret, services.now())
            return work(Context(db, caller, services.now()), fields)

        found = await services.run_transaction(run, is_write=True)
        services.change_listeners.notify_change()
        return found, fields

    def send_sign_in(self, path: str, problem: str = "", status: int = 200) -> Response:
        """The page on which people sign in; `problem` is why they are not yet."""
        provider = self.services.config.oidc
        host = "" if provider is None else provider.host
        return send_page("sign_in.html", status, path=path, problem=problem, host=host)

    async def _show_sign_in(self, request: Request) -> Response:
        request.scope["treadle"].route = ROUTE
        path = page_forms.make_local_path(request.query_params.get("next", "/"))
        return self.send_sign_in(path)

    async def _sign_in(self, request: Request) -> Response:
        services = self.services
        request.scope["treadle"].route = ROUTE
        head = self.read_head(request)
        fields = await page_forms.read_form(services, request, head, None)
        path = page_forms.make_local_path(fields.get("next", "/"))
        token = fields.get("token", "").strip()
        browser = head.headers.get("user-agent", "")
        try:
            secret = await services.run_transaction(
                lambda db: sessions.begin_session(services.make_context(db, token), browser),
                is_write=True,
            )
        except Refusal as refusal:
            if refusal.code not in (ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN):
                raise
            problem = "That is no token that is good: copy all of it."
            if refusal.code is ErrorCode.FORBIDDEN:
                problem = "That token is for machines and programs: it may not all that you may."
            return self.send_sign_in(path, problem, 401)
        return open_session(head, secret, path)

    async def _sign_out(self, request: Request) -> Response:
        def end(context: Context, _: dict[str, str]) -> None:
            assert context.caller.token_id is not None
            revoke_token(context, context.caller.token_id, context.caller.user_id)

        await self.write(request, end)
        answer = RedirectResponse("/sign-in", 303, HEADERS)
        delete_cookie(self.read_head(request), answer, COOKIE)
        return answer

    async def _show_team(self, request: Request) -> Response:
        source = await self.find_source(request)
        if source.visitor is None:
            raise make_unauthorized_refusal()
        found = await self.ask(partial(source.read, person_activity.list_busy_people))
        rows = [(one, [source.make_row(line) for line in one.threads]) for one in found]
        starts = await self.ask(source.list_starts)
        return send_page("team.html", visitor=source.visitor, people=rows, starts=starts)

    async def _send_refusal(self, request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        request.scope["treadle"].code = refusal.code
        is_read = request.method in ("GET", "HEAD") and not request.url.path.endswith("/live")
        if refusal.code is ErrorCode.UNAUTHORIZED and is_read:
            path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            answer: Response = RedirectResponse(f"/sign-in?next={quote(path)}", 303, HEADERS)
        else:
            text = responses.render_problem(refusal.problem)
            answer = Response(text, refusal.code.status, HEADERS, "text/html")
        for name, value in refusal.headers.items():
            answer.headers[name] = value
        return answer


class SessionForms:
    """See `VisitorForms`: those of a session.

    Args:
        services: of the process.
        secret: of the session.
        head: of the request that brings one.
    """

    def __init__(self, services: Services, secret: str, head: RequestHead) -> None:
        self.services, self._head = services, head
        self.key: Final = sessions.make_form_key(secret)

    async def read(self, request: Request) -> Mapping[str, str]:
        """See `VisitorForms`."""
        request.scope["treadle"].route = ROUTE
        return await page_forms.read_form(self.services, request, self._head, self.key)


def open_session(head: RequestHead, secret: str, path: str) -> Response:
    """Lead a browser on, with the cookie of its session."""
    answer = RedirectResponse(path, 303, HEADERS)
    set_session_cookie(head, answer, secret)
    return answer


async def _send_page_refusal(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, PageRefusal)
    return send_refusal(refusal)


async def _refuse_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    await responses.send_refusal(
        send,
        make_not_found_refusal(),
        is_last=request_reader.has_body(scope),
        is_page=responses.wants_page(scope),
    )
