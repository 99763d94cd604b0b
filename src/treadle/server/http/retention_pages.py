"""What admins do on their page about what the server keeps: holds are placed and lifted."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.retention_types import NewHold
from treadle.pages.site import HEADERS
from treadle.server.context import Context
from treadle.server.http.account_pages import read_number
from treadle.server.http.page_site import PageSite
from treadle.server.http.services import Services
from treadle.server.threads import legal_holds


class RetentionPages:
    """The paths.

    Args:
        services: of the process.
        site: knows who is signed in.
    """

    def __init__(self, services: Services, site: PageSite) -> None:
        self._site = site

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/admin/holds", self._place_hold, methods=["POST"]),
            Route("/admin/holds/{hold_id}/lift", self._lift_hold, methods=["POST"]),
        ]

    async def _place_hold(self, request: Request) -> Response:
        def place(context: Context, fields: dict[str, str]) -> None:
            kind, name = fields.get("kind", ""), fields.get("name", "").strip()
            target = {kind: name} if kind in ("thread", "user", "organization") and name else {}
            legal_holds.place_hold(context, NewHold(fields.get("reason", ""), **target))

        await self._site.write(request, place)
        return RedirectResponse("/admin#holds", 303, HEADERS)

    async def _lift_hold(self, request: Request) -> Response:
        number = read_number(request.path_params["hold_id"])
        await self._site.write(request, lambda context, _: legal_holds.lift_hold(context, number))
        return RedirectResponse("/admin#holds", 303, HEADERS)
