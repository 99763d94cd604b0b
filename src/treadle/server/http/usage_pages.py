"""The pages of what was used of models: everybody's for admins, one's own for all."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.pages.page_refusal import PageRefusal
from treadle.pages.site import send_page
from treadle.server.accounts.accounts import check_admin
from treadle.server.accounts.model_usage import Part, sum_usage
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context
from treadle.server.http.page_site import PageSite

SPANS: Final = {"7": "7 days", "30": "30 days", "90": "90 days", "": "all days"}
"""Of how many days it can be asked for, and their names on the page."""
SPAN: Final = "30"


class UsagePages(Struct, frozen=True):
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/admin/usage", self._show_all, methods=["GET"]),
            Route("/account/usage", self._show_own, methods=["GET"]),
        ]

    async def _show_all(self, request: Request) -> Response:
        return await self._show(request, is_own=False)

    async def _show_own(self, request: Request) -> Response:
        return await self._show(request, is_own=True)

    async def _show(self, request: Request, *, is_own: bool) -> Response:
        told = request.query_params
        days, user = told.get("days", SPAN), told.get("user", "")
        if days not in SPANS:
            raise PageRefusal(404, "There is no such page", "It can be asked for 7, 30, 90 or all.")
        model = told.get("model")

        def read(context: Context) -> dict[str, Any]:
            if not is_own:
                check_admin(context)
            whose = context.caller.user if is_own else user
            since = shift_time(context.now, days=1 - int(days))[:10] if days else ""
            [whole] = sum_usage(context, None, since, user=whose, model=model)
            parts: tuple[Part, ...] = (
                ("day", "model") if is_own or user else ("day", "user", "model")
            )
            return {
                "whole": whole,
                "tables": [
                    (part, sum_usage(context, part, since, user=whose, model=model))
                    for part in parts
                    if part != "model" or model is None
                ],
            }

        values = await self.site.read(request, read)
        path = "/account/usage" if is_own else "/admin/usage"
        return send_page(
            "usage.html",
            path=path,
            is_own=is_own,
            spans=SPANS,
            days=days,
            user="" if is_own else user,
            model=model,
            **values,
        )
