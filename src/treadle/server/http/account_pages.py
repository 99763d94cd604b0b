"""Pages on which people look after their tokens and sessions, and admins after people."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewIdentity, NewOrganization, NewToken, NewUser, Token, UserUpdate
from treadle.pages.site import HEADERS, send_page
from treadle.server.accounts import accounts, audit, identities, sessions
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context
from treadle.server.http.page_site import PageSite
from treadle.server.http.services import Services
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal

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
AUDIT_COUNT: Final = 100
ID_LENGTH_MAX: Final = 18


class AccountPages:
    """The paths of an account, and of the admins.

    Args:
        services: of the process.
        site: knows who is signed in.
    """

    def __init__(self, services: Services, site: PageSite) -> None:
        self._services = services
        self._site = site

    def list_routes(self) -> list[Route]:
        """The paths."""
        return [
            Route("/account", self._show_account, methods=["GET"]),
            Route("/account/tokens", self._make_token, methods=["POST"]),
            Route("/account/tokens/{token_id}/revoke", self._revoke_token, methods=["POST"]),
            Route("/account/identities/{identity_id}/remove", self._remove, methods=["POST"]),
            Route("/admin", self._show_admin, methods=["GET"]),
            Route("/admin/identities", self._add_identity, methods=["POST"]),
            Route("/admin/organizations", self._make_organization, methods=["POST"]),
            Route("/admin/users", self._make_user, methods=["POST"]),
            Route("/admin/users/{name}", self._change_user, methods=["POST"]),
            Route("/admin/users/{name}/tokens", self._make_user_token, methods=["POST"]),
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
            }

        values = await self._read(request, read)
        provider = self._services.config.oidc
        host = "" if provider is None else provider.host
        return send_page("account.html", made=made, choices=CHOICES, host=host, **values)

    async def _make_token(self, request: Request) -> Response:
        def make(context: Context, fields: dict[str, str]) -> Token:
            return accounts.make_own_token(context, _read_new_token(context, fields))

        made, _ = await self._site.write(request, make)
        return await self._render_account(request, made)

    async def _revoke_token(self, request: Request) -> Response:
        number = _read_number(request.path_params["token_id"])
        await self._site.write(
            request, lambda context, _: accounts.revoke_own_token(context, number)
        )
        return RedirectResponse("/account", 303, HEADERS)

    async def _remove(self, request: Request) -> Response:
        number = _read_number(request.path_params["identity_id"])
        _, fields = await self._site.write(
            request, lambda context, _: identities.remove_identity(context, number)
        )
        return RedirectResponse("/admin" if "admin" in fields else "/account", 303, HEADERS)

    async def _add_identity(self, request: Request) -> Response:
        def add(context: Context, fields: dict[str, str]) -> None:
            subject = fields.get("subject", "").strip()
            if not 0 < len(subject) <= identities.SUBJECT_LENGTH_MAX:
                raise Refusal(ErrorCode.BAD_REQUEST, "that is no name of somebody at a provider")
            identities.add_identity(context, NewIdentity(fields.get("user", ""), subject))

        await self._site.write(request, add)
        return RedirectResponse("/admin", 303, HEADERS)

    async def _show_admin(self, request: Request) -> Response:
        return await self._render_admin(request)

    async def _render_admin(
        self, request: Request, made: Token | None = None, name: str = ""
    ) -> Response:
        def read(context: Context) -> dict[str, Any]:
            return {
                "organizations": accounts.list_organizations(context).organizations,
                "users": accounts.list_users(context).users,
                "identities": identities.list_identities(context).identities,
                "lines": audit.list_lines(context, AUDIT_COUNT).lines,
            }

        values = await self._read(request, read)
        has_provider = self._services.config.oidc is not None
        return send_page(
            "admin.html",
            made=made,
            owner=name,
            choices=CHOICES,
            has_provider=has_provider,
            **values,
        )

    async def _make_organization(self, request: Request) -> Response:
        await self._site.write(
            request,
            lambda context, fields: accounts.make_organization(
                context, NewOrganization(fields.get("name", ""))
            ),
        )
        return RedirectResponse("/admin", 303, HEADERS)

    async def _make_user(self, request: Request) -> Response:
        def make(context: Context, fields: dict[str, str]) -> None:
            new = NewUser(
                fields.get("name", ""),
                fields.get("organization", ""),
                fields.get("role", "member"),  # type: ignore[arg-type]  # looked at there
                fields.get("is_admin") == "yes",
                fields.get("is_support") == "yes",
            )
            accounts.make_user(context, new)

        await self._site.write(request, make)
        return RedirectResponse("/admin", 303, HEADERS)

    async def _change_user(self, request: Request) -> Response:
        name = request.path_params["name"]

        def change(context: Context, fields: dict[str, str]) -> None:
            is_disabled = fields.get("is_disabled", "")
            if is_disabled not in ("yes", "no"):
                raise Refusal(ErrorCode.BAD_REQUEST, "a user is disabled or not")
            accounts.change_user(context, name, UserUpdate(is_disabled=is_disabled == "yes"))

        await self._site.write(request, change)
        return RedirectResponse("/admin", 303, HEADERS)

    async def _make_user_token(self, request: Request) -> Response:
        name = request.path_params["name"]

        def make(context: Context, fields: dict[str, str]) -> Token:
            return accounts.make_user_token(context, name, _read_new_token(context, fields))

        made, _ = await self._site.write(request, make)
        return await self._render_admin(request, made, name)

    async def _read(self, request: Request, function: Any) -> dict[str, Any]:
        source = await self._site.find_source(request)
        if source.visitor is None:
            raise make_unauthorized_refusal()
        found: dict[str, Any] = await self._site.ask(lambda: source.read(function))
        return {"visitor": source.visitor, **found}


def _read_number(told: str) -> int:
    """The number in a path. Raises `Refusal` for what is none."""
    if not (told.isascii() and told.isdigit() and len(told) <= ID_LENGTH_MAX):
        raise make_not_found_refusal()
    return int(told)


def _read_new_token(context: Context, fields: dict[str, str]) -> NewToken:
    days = fields.get("days", "")
    if days not in LIFETIMES:
        raise Refusal(
            ErrorCode.BAD_REQUEST, "a token is good for one of the times that are offered"
        )
    until = shift_time(context.now, days=int(days)) if days else None
    scope: Any = fields.get("scope", "all")  # looked at there
    return NewToken(fields.get("name", "").strip(), until, scope)
