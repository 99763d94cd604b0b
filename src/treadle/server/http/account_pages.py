"""The page on which people look after their tokens, logins and sessions."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewToken, RequestOutcome, Token
from treadle.pages.site import HEADERS, send_page
from treadle.server.accounts import accounts, identities, sessions
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context
from treadle.server.http.page_site import PageSite
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.server.threads import remote_requests
from treadle.server.webhooks.webhook_settings import list_webhooks

LIFETIMES: Final = {
    "7": "a week",
    "30": "a month",
    "90": "three months",
    "365": "a year",
    "": "ever",
}
"""Days for which a token can be made, and their names on the page."""
SCOPES: Final = {
    "sync": "sync: send, change and fetch threads",
    "read": "read: look at threads",
    "all": "all that I may: accounts too",
}
"""What a token can be made for, and its words on the page; the first one stands there."""
CHOICES: Final = {"lifetimes": LIFETIMES, "scopes": SCOPES}
LISTENS_S: Final = 180
"""Seconds since a machine was last noted to listen, every minute, for which it is said to."""
ID_LENGTH_MAX: Final = 18


class AccountPages(Struct, frozen=True):
    """The paths of an account.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """The paths."""
        return [
            Route("/account", self._show_account, methods=["GET"]),
            Route("/account/tokens", self._make_token, methods=["POST"]),
            Route("/account/tokens/{token_id}/revoke", self._revoke_token, methods=["POST"]),
            Route("/account/identities/{identity_id}/remove", self._remove, methods=["POST"]),
            Route("/account/requests/{request_id}/withdraw", self._withdraw, methods=["POST"]),
        ]

    async def _show_account(self, request: Request) -> Response:
        return await self._render_account(request)

    async def _render_account(self, request: Request, made: Token | None = None) -> Response:
        def read(context: Context) -> dict[str, Any]:
            known = accounts.list_own_tokens(context).tokens
            return {
                "me": accounts.get_current_user(context),
                "tokens": [one for one in known if not one.is_revoked],
                "sessions": sessions.list_sessions(context),
                "identities": identities.list_own_identities(context).identities,
                "webhooks": list_webhooks(context).webhooks,
                "listened_since": shift_time(context.now, seconds=-LISTENS_S),
                "requests": remote_requests.list_own_requests(context),
            }

        values = await self.site.read(request, read)
        provider = self.site.services.config.oidc
        host = "" if provider is None else provider.host
        return send_page("account.html", made=made, choices=CHOICES, host=host, **values)

    async def _make_token(self, request: Request) -> Response:
        def make(context: Context, fields: dict[str, str]) -> Token:
            return accounts.make_own_token(context, read_new_token(context, fields))

        made, _ = await self.site.write(request, make)
        return await self._render_account(request, made)

    async def _revoke_token(self, request: Request) -> Response:
        number = read_number(request.path_params["token_id"])
        await self.site.write(
            request, lambda context, _: accounts.revoke_own_token(context, number)
        )
        return RedirectResponse("/account", 303, HEADERS)

    async def _remove(self, request: Request) -> Response:
        number = read_number(request.path_params["identity_id"])
        _, fields = await self.site.write(
            request, lambda context, _: identities.remove_identity(context, number)
        )
        return RedirectResponse("/admin" if "admin" in fields else "/account", 303, HEADERS)

    async def _withdraw(self, request: Request) -> Response:
        request_id, outcome = request.path_params["request_id"], RequestOutcome("withdrawn")
        await self.site.write(
            request, lambda context, _: remote_requests.settle_request(context, request_id, outcome)
        )
        return RedirectResponse("/account", 303, HEADERS)


def read_number(told: str) -> int:
    """The number in a path. Raises `Refusal` for what is none."""
    if not (told.isascii() and told.isdigit() and len(told) <= ID_LENGTH_MAX):
        raise make_not_found_refusal()
    return int(told)


def read_new_token(context: Context, fields: dict[str, str]) -> NewToken:
    """The token that a form asks for. Raises `Refusal` for a time that is not offered."""
    days = fields.get("days", "")
    if days not in LIFETIMES:
        raise Refusal(
            ErrorCode.BAD_REQUEST, "a token is good for one of the times that are offered"
        )
    until = shift_time(context.now, days=int(days)) if days else None
    scope: Any = fields.get("scope", "all")  # looked at there
    return NewToken(fields.get("name", "").strip(), until, scope)
