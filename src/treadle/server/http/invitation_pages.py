"""The page on which admins, and admins of an organization, invite people to it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewInvitation
from treadle.pages.site import HEADERS, send_page
from treadle.server.accounts import accounts, invitations
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context
from treadle.server.http.account_pages import read_number
from treadle.server.http.page_site import PageSite
from treadle.server.refusals import Refusal

LINE_COUNT: Final = 100
"""Newest invitations, on the page."""
DAYS: Final = ("7", "30", "90")
"""For which an invitation can be made."""


class InvitationPages(Struct, frozen=True):
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/invitations", self._show, methods=["GET"]),
            Route("/invitations", self._invite, methods=["POST"]),
            Route("/invitations/{invitation_id}/revoke", self._revoke, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, link: str = "") -> Response:
        def read(context: Context) -> dict[str, Any]:
            lines = invitations.list_invitations(context).invitations[:LINE_COUNT]
            names = [context.caller.organization]
            if context.caller.is_admin:
                names = [one.name for one in accounts.list_organizations(context).organizations]
            return {"invitations": lines, "organizations": names}

        values = await self.site.read(request, read)
        return send_page("invitations.html", link=link, days=DAYS, **values)

    async def _invite(self, request: Request) -> Response:
        origin = self.site.read_head(request).origin

        def invite(context: Context, fields: dict[str, str]) -> str:
            days = fields.get("days", "")
            if days not in DAYS:
                raise Refusal(ErrorCode.BAD_REQUEST, "an invitation is for a time that is offered")
            role: Any = fields.get("role", "member")  # looked at there
            until = shift_time(context.now, days=int(days))
            new = NewInvitation(fields.get("organization", ""), role, until)
            return invitations.make_invitation(context, new, origin).url

        link, _ = await self.site.write(request, invite)
        return await self._render(request, link)

    async def _revoke(self, request: Request) -> Response:
        number = read_number(request.path_params["invitation_id"])
        await self.site.write(
            request, lambda context, _: invitations.revoke_invitation(context, number)
        )
        return RedirectResponse("/invitations", 303, HEADERS)
