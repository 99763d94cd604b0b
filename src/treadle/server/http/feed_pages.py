"""The paths of feeds: made and ended on the account's page, read by whoever knows the address."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.pages.site import HEADERS, send_page
from treadle.server.http.page_site import PageSite
from treadle.server.search import question_feed

ROUTE: Final = "feed"
"""What the log calls a request: what stands in its path is a secret."""


class FeedPages(Struct, frozen=True):
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/account/feed", self._make, methods=["POST"]),
            Route("/account/feed/end", self._end, methods=["POST"]),
            Route("/feeds/{secret}/questions.atom", self._send, methods=["GET"]),
        ]

    async def _make(self, request: Request) -> Response:
        origin = self.site.read_head(request).origin
        address, _ = await self.site.write(
            request, lambda context, _: question_feed.make_feed(context, origin)
        )
        return send_page("feed.html", address=address)

    async def _end(self, request: Request) -> Response:
        await self.site.write(request, lambda context, _: question_feed.end_feed(context))
        return RedirectResponse("/account", 303, HEADERS)

    async def _send(self, request: Request) -> Response:
        request.scope["treadle"].route = ROUTE
        services, origin = self.site.services, self.site.read_head(request).origin
        secret = request.path_params["secret"]
        text = await services.run_transaction(
            lambda db: question_feed.render_feed(db, secret, services.now(), origin), is_write=False
        )
        return Response(text, 200, HEADERS, "application/atom+xml")
