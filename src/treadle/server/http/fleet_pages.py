"""The page of a fleet: who works on what, what waits for a person, what has failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from treadle.fleet.overview import ORDER
from treadle.models.prices.usage_text import describe_usage
from treadle.pages.site import HEADERS, HEARTBEAT_S, send_page
from treadle.server.context import Context, Principal
from treadle.server.http.page_site import PageSite
from treadle.server.http.services import Services
from treadle.server.refusals import (
    Refusal,
    make_not_found_refusal,
    make_unauthorized_refusal,
)
from treadle.server.threads.change_feed import find_newest_change
from treadle.server.threads.fleet_tasks import has_queue, read_fleet, read_queue_mark

PATH: Final = "/fleet"
TITLES: Final = {
    "running": "At work",
    "waiting": "Waiting for a person",
    "failed": "Failed or set aside",
    "queued": "Queued",
    "cancelled": "Cancelled",
    "done": "Done",
}
"""What the tasks of each status are called on the page."""


class FleetPages:
    """The paths.

    Args:
        services: of the process.
        site: knows who is signed in.
    """

    def __init__(self, services: Services, site: PageSite) -> None:
        self._services = services
        self._site = site

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route(PATH, self._show, methods=["GET"]),
            Route(f"{PATH}/live", self._follow, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        def read(context: Context) -> dict[str, Any]:
            return {"fleet": read_fleet(context)}

        found = await self._site.read(request, read)
        return send_page(
            "fleet.html", path=PATH, titles=TITLES, order=ORDER, describe=describe_usage, **found
        )

    async def _follow(self, request: Request) -> Response:
        source = await self._site.find_source(request)
        if source.visitor is None:
            raise make_unauthorized_refusal()
        if not await self._services.read_for_listeners(has_queue):
            raise make_not_found_refusal()
        events = self._list_events(source.caller)
        first = await anext(events)

        async def stream() -> AsyncGenerator[bytes]:
            yield b"retry: 1000\n\n" + first
            async for event in events:
                yield event

        return StreamingResponse(stream(), headers=HEADERS, media_type="text/event-stream")

    async def _list_events(self, caller: Principal) -> AsyncGenerator[bytes]:
        """An event whenever the page may show something else, and now and then."""
        services, seen, told_at = self._services, "", 0.0
        loop = asyncio.get_running_loop()
        with services.change_listeners.add_listener(caller) as listener:
            while not services.change_listeners.is_stopping and listener.caller is not None:
                listener.wake.clear()
                try:
                    found = await services.read_for_listeners(self._read_mark)
                except Refusal:
                    found = seen  # the database is away: it comes back
                if found != seen or loop.time() - told_at >= HEARTBEAT_S:
                    seen, told_at = found, loop.time()
                    yield b"event: state\ndata: {}\n\n"
                try:
                    async with asyncio.timeout(services.config.poll_time_s):
                        await listener.wake.wait()
                except TimeoutError:
                    continue

    def _read_mark(self, db: Connection) -> str:
        change = find_newest_change(Context(db, Principal(), self._services.now()))
        return f"{change} {read_queue_mark(db)}"
