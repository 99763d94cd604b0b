"""The page on which admins look after organizations, people, and what they may keep."""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.error_codes import ErrorCode
from treadle.api.types import (
    NewIdentity,
    NewOrganization,
    NewUser,
    OrganizationUpdate,
    Token,
    UserUpdate,
)
from treadle.pages.site import HEADERS, send_page
from treadle.server.accounts import accounts, audit, identities, quotas
from treadle.server.context import Context
from treadle.server.http.account_pages import CHOICES, read_new_token
from treadle.server.http.page_site import PageSite
from treadle.server.refusals import Refusal
from treadle.server.threads import legal_holds, retention, thread_reads

LINE_COUNT: Final = 100
"""Newest lines of the audit log, on the page."""
GIB: Final = 2**30
QUOTA_MAX: Final = 2**53 - 1


class AdminPages(Struct, frozen=True):
    """The paths of admins.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """The paths."""
        posts = {
            "/admin/identities": self._add_identity,
            "/admin/organizations": self._make_organization,
            "/admin/organizations/{name}/quota": self._bound_organization,
            "/admin/users": self._make_user,
            "/admin/users/{name}": self._change_user,
            "/admin/users/{name}/quota": self._bound_user,
            "/admin/users/{name}/tokens": self._make_user_token,
        }
        return [
            Route("/admin", self._show_admin, methods=["GET"]),
            *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()),
        ]

    async def _add_identity(self, request: Request) -> Response:
        def add(context: Context, fields: dict[str, str]) -> None:
            subject = fields.get("subject", "").strip()
            if not 0 < len(subject) <= identities.SUBJECT_LENGTH_MAX:
                raise Refusal(ErrorCode.BAD_REQUEST, "that is no name of somebody at a provider")
            identities.add_identity(context, NewIdentity(fields.get("user", ""), subject))

        await self.site.write(request, add)
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
                "lines": audit.list_lines(context, LINE_COUNT).lines,
                "rules": retention.list_rules(context).rules,
                "plan": retention.make_plan(context),
                "holds": legal_holds.list_holds(context).holds[:LINE_COUNT],
                "reads": thread_reads.list_reads(context, LINE_COUNT).reads,
                "uses": {one.user: one for one in quotas.read_usage(context).users},
            }

        values = await self.site.read(request, read)
        has_provider = self.site.services.config.oidc is not None
        return send_page(
            "admin.html",
            made=made,
            owner=name,
            choices=CHOICES,
            has_provider=has_provider,
            size_unit=GIB,
            **values,
        )

    async def _make_organization(self, request: Request) -> Response:
        await self.site.write(
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

        await self.site.write(request, make)
        return RedirectResponse("/admin", 303, HEADERS)

    async def _change_user(self, request: Request) -> Response:
        name = request.path_params["name"]

        def change(context: Context, fields: dict[str, str]) -> None:
            is_disabled = fields.get("is_disabled", "")
            if is_disabled not in ("yes", "no"):
                raise Refusal(ErrorCode.BAD_REQUEST, "a user is disabled or not")
            accounts.change_user(context, name, UserUpdate(is_disabled=is_disabled == "yes"))

        await self.site.write(request, change)
        return RedirectResponse("/admin", 303, HEADERS)

    async def _make_user_token(self, request: Request) -> Response:
        name = request.path_params["name"]

        def make(context: Context, fields: dict[str, str]) -> Token:
            return accounts.make_user_token(context, name, read_new_token(context, fields))

        made, _ = await self.site.write(request, make)
        return await self._render_admin(request, made, name)

    async def _bound_organization(self, request: Request) -> Response:
        name = request.path_params["name"]

        def bound(context: Context, fields: dict[str, str]) -> None:
            accounts.change_organization(context, name, OrganizationUpdate(**_read_quota(fields)))

        await self.site.write(request, bound)
        return RedirectResponse("/admin", 303, HEADERS)

    async def _bound_user(self, request: Request) -> Response:
        name = request.path_params["name"]

        def bound(context: Context, fields: dict[str, str]) -> None:
            accounts.change_user(context, name, UserUpdate(**_read_quota(fields)))

        await self.site.write(request, bound)
        return RedirectResponse("/admin", 303, HEADERS)


def _read_quota(fields: dict[str, str]) -> dict[str, Any]:
    """The bounds that a form has, in threads and GiB; an empty one is none."""
    told = {
        "threads_max": (fields.get("threads", "").strip(), 1),
        "storage_max": (fields.get("size", "").strip(), GIB),
    }
    found: dict[str, int | None] = {}
    for name, (text, unit) in told.items():
        try:
            number = float(text) * unit if text else 0.0
        except ValueError:
            number = math.nan
        if not 0 <= number <= QUOTA_MAX:  # not what is no number either
            raise Refusal(ErrorCode.BAD_REQUEST, "a bound is a number from 0, or nothing for none")
        found[name] = round(number) if text else None
    return found
