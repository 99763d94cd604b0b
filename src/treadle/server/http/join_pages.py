"""The page of an invitation: whoever has its link says a name, is a user by that, and signed in."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.api.error_codes import ErrorCode
from treadle.pages.site import send_page
from treadle.server.accounts import invitations, sessions
from treadle.server.context import ANONYMOUS, Context
from treadle.server.http import page_forms, request_reader
from treadle.server.http.services import Services
from treadle.server.http.session_cookies import set_session_cookie
from treadle.server.refusals import Refusal

ROUTE: Final = "join"
"""What the log calls a request: what stands in its path is a secret."""


class JoinPages:
    """Shown to anybody, since the link is what opens it.

    Args:
        services: of the process.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/join/{secret}", self._show, methods=["GET"]),
            Route("/join/{secret}", self._join, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        return await self._send_form(request)

    async def _send_form(
        self, request: Request, status: int = 200, name: str = "", problem: str = ""
    ) -> Response:
        services, secret = self._services, request.path_params["secret"]
        request.scope["treadle"].route = ROUTE
        found = await services.run_transaction(
            lambda db: invitations.read_invitation(Context(db, ANONYMOUS, services.now()), secret),
            is_write=False,
        )
        return send_page(
            "join.html",
            status,
            organization=found.organization,
            until=found.expires_at,
            path=request.url.path,
            user_name=name,
            problem=problem,
            token="",
        )

    async def _join(self, request: Request) -> Response:
        services = self._services
        request.scope["treadle"].route = ROUTE
        head = request_reader.read_head(request.scope, services.config)
        fields = await page_forms.read_form(services, request, head, None)
        secret, name = request.path_params["secret"], fields.get("name", "").strip()
        browser = head.headers.get("user-agent", "")

        def work(db: Connection) -> tuple[str, str, str, str]:
            context = Context(db, ANONYMOUS, services.now())
            organization = invitations.read_invitation(context, secret).organization
            user, token = invitations.accept_invitation(context, secret, name)
            session = sessions.begin_session(services.make_context(db, token), browser)
            return organization, user, token, session

        try:
            organization, user, token, session = await services.run_transaction(work, is_write=True)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.BAD_REQUEST:
                raise
            problem = f"{refusal.problem.message}. {refusal.problem.hint}".strip()
            return await self._send_form(request, 400, name, problem)
        answer = send_page(
            "join.html", organization=organization, user_name=user, token=token, origin=head.origin
        )
        set_session_cookie(head, answer, session)
        return answer
