"""The page of a fleet: who works on what, what waits for a person, what has failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from anyio import to_thread
from msgspec import Struct
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.errors import TreadleError
from treadle.fleet.overview import ORDER, describe_limit
from treadle.fleet.task_acts import cancel_task, retry_task
from treadle.models.prices.usage_text import describe_usage
from treadle.pages.act_routes import make_request_id
from treadle.pages.site import HEADERS, PageRefusal, send_page, stream_words
from treadle.server.context import Context, Principal
from treadle.server.http.fleet_acts import (
    find_place,
    make_forbidden_refusal,
    name_visitor,
    open_scheduler,
)
from treadle.server.http.page_site import PageSite
from treadle.server.http.region_streams import follow_region
from treadle.server.journals.task_records import record_facts
from treadle.server.refusals import (
    make_not_found_refusal,
    make_unauthorized_refusal,
)
from treadle.server.threads.change_feed import find_newest_change
from treadle.server.threads.fleet_tasks import (
    FleetThread,
    find_fleet_thread,
    has_queue,
    read_fleet,
    read_queue_mark,
)
from treadle.thread.codec import Entry
from treadle.thread.facts import RequestTaken
from treadle.thread.fold import ThreadFold

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


class FleetPages(Struct, frozen=True):
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route(PATH, self._show, methods=["GET"]),
            Route(f"{PATH}/live", self._follow, methods=["GET"]),
            Route(f"{PATH}/{{thread_id}}/cancel", self._cancel, methods=["POST"]),
            Route(f"{PATH}/{{thread_id}}/retry", self._retry, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        def read(context: Context) -> dict[str, Any]:
            return {"fleet": read_fleet(context)}

        found = await self.site.read(request, read)
        return send_page(
            "fleet.html",
            path=PATH,
            titles=TITLES,
            order=ORDER,
            describe=describe_usage,
            describe_limit=describe_limit,
            **found,
        )

    async def _cancel(self, request: Request) -> Response:
        return await self._act(request, "cancel", cancel_task)

    async def _retry(self, request: Request) -> Response:
        return await self._act(request, "retry", retry_task)

    async def _act(
        self, request: Request, act: str, do: Callable[..., Awaitable[object]]
    ) -> Response:
        def find(context: Context, _: dict[str, str]) -> tuple[FleetThread, RequestTaken]:
            found = find_fleet_thread(context, request.path_params["thread_id"])
            if found is None or not has_queue(context.db):
                raise make_not_found_refusal()
            if not found.may_decide:
                raise make_forbidden_refusal(found)
            if found.is_over:
                raise PageRefusal(409, "Nothing was done", "This task is over.")
            return found, RequestTaken(make_request_id(), act, name_visitor(context.caller))

        (found, taken), _ = await self.site.write(request, find)
        place = find_place(self.site.services, found)

        async def record(thread_id: str, *facts: Entry) -> ThreadFold:
            return await to_thread.run_sync(partial(record_facts, place, thread_id, *facts))

        try:
            scheduler = open_scheduler(self.site.services)
            try:
                await do(scheduler, record, found.row.id, taken)
            finally:
                await scheduler.close()
        except TreadleError as error:
            hint = error.hint or ""
            raise PageRefusal(409, "It was not done", error.message, hint) from None
        self.site.services.change_listeners.notify_change()
        return RedirectResponse(PATH, 303, HEADERS)

    async def _follow(self, request: Request) -> Response:
        source = await self.site.find_source(request)
        if source.visitor is None:
            raise make_unauthorized_refusal()
        if not await self.site.services.read_for_listeners(has_queue):
            raise make_not_found_refusal()
        return await stream_words(follow_region(self.site.services, source.caller, self._read_mark))

    async def _read_mark(self, caller: Principal, before: str) -> str:
        def read(db: Connection) -> str:
            change = find_newest_change(Context(db, caller, self.site.services.now()))
            return f"{change} {read_queue_mark(db)}"

        return await self.site.services.read_for_listeners(read)
