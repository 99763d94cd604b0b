"""The page on which the owner of a thread sees who else has read it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.pages.page_queries import make_links
from treadle.pages.site import send_page
from treadle.server.context import Context
from treadle.server.http.page_site import PageSite
from treadle.server.threads.stories import read_story
from treadle.server.threads.thread_reads import list_readers

LINE_COUNT: Final = 200
"""Newest lines, on the page."""


class ReaderPages(Struct, frozen=True):
    """The path.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [Route("/threads/{thread_id}/readers", self._show, methods=["GET"])]

    async def _show(self, request: Request) -> Response:
        name = request.path_params["thread_id"]

        def read(context: Context) -> dict[str, Any]:
            readers = list_readers(context, name, LINE_COUNT).reads
            return {
                "readers": readers,
                "document": read_story(context, name).shown.story.document,
            }

        values = await self.site.read(request, read)
        return send_page("readers.html", links=make_links(request), count=LINE_COUNT, **values)
