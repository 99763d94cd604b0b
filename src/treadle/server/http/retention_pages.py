"""What admins do on their page about what the server keeps: holds, and for how long."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.error_codes import ErrorCode
from treadle.api.retention_types import NewHold, RetentionChange
from treadle.pages.site import HEADERS
from treadle.server.accounts.accounts import check_admin
from treadle.server.context import Context
from treadle.server.http.account_pages import read_number
from treadle.server.http.page_site import PageSite
from treadle.server.refusals import Refusal
from treadle.server.threads import legal_holds, retention

DAYS_MAX: Final = 36_500


class RetentionPages(Struct, frozen=True):
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/admin/holds", self._place_hold, methods=["POST"]),
            Route("/admin/holds/{hold_id}/lift", self._lift_hold, methods=["POST"]),
            Route("/admin/retention", self._change_rule, methods=["POST"]),
            Route("/admin/retention/run", self._run, methods=["POST"]),
        ]

    async def _place_hold(self, request: Request) -> Response:
        def place(context: Context, fields: dict[str, str]) -> None:
            kind, name = fields.get("kind", ""), fields.get("name", "").strip()
            target = {kind: name} if kind in ("thread", "user", "organization") and name else {}
            legal_holds.place_hold(context, NewHold(fields.get("reason", ""), **target))

        await self.site.write(request, place)
        return RedirectResponse("/admin#holds", 303, HEADERS)

    async def _lift_hold(self, request: Request) -> Response:
        number = read_number(request.path_params["hold_id"])
        await self.site.write(request, lambda context, _: legal_holds.lift_hold(context, number))
        return RedirectResponse("/admin#holds", 303, HEADERS)

    async def _change_rule(self, request: Request) -> Response:
        def change(context: Context, fields: dict[str, str]) -> None:
            told = RetentionChange(
                fields.get("organization", "") or None,
                _read_days(fields.get("idle_days", "")),
                _read_days(fields.get("trash_days", "")),
            )
            retention.change_rule(context, told)

        await self.site.write(request, change)
        return RedirectResponse("/admin#retention", 303, HEADERS)

    async def _run(self, request: Request) -> Response:
        await self.site.write(request, lambda context, _: check_admin(context))
        self.site.services.retention_keeper.wake()
        return RedirectResponse("/admin#retention", 303, HEADERS)


def _read_days(text: str) -> int | None:
    """A number of days; 0 for `never`, `None` for nothing."""
    text = text.strip()
    if not text:
        return None
    if text == "never":
        return 0
    if text.isascii() and text.isdigit() and len(text) <= 6 and 0 < int(text) <= DAYS_MAX:
        return int(text)
    raise Refusal(ErrorCode.BAD_REQUEST, f"say a number of days from 1 to {DAYS_MAX}, or never")
