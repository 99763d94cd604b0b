"""What a thread shows besides its talk: pictures, versions, its work and its states."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.pages.page_queries import keep_layout, make_links, read_number
from treadle.pages.page_refusal import PageRefusal
from treadle.pages.pictures import identify_picture, list_pictures
from treadle.pages.ports import PageSource, ShownThread
from treadle.pages.state_chart import make_chart
from treadle.pages.thread_family import order_family
from treadle.pages.thread_page import COMMIT_COUNT, ITEM_COUNT, list_commits, number_calls
from treadle.pages.thread_versions import TURN_COUNT, compare_versions, list_turn_versions
from treadle.pages.thread_work import NO_WORK, ThreadWork, read_work
from treadle.pages.work_trace import make_trace

PICTURE_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; sandbox"


class ThreadViews:
    """The paths below that of a thread.

    Args:
        find_source: the threads that who asks may see.
        ask: how they are asked for.
        render: makes a page of a template and values.
        headers: what every answer has.
    """

    def __init__(
        self,
        find_source: Callable[[Request], Awaitable[PageSource]],
        ask: Callable[[Callable[[], Any]], Awaitable[Any]],
        render: Callable[..., Response],
        headers: Mapping[str, str],
    ) -> None:
        self._find_source = find_source
        self._ask = ask
        self._render = render
        self._headers = headers
        self._works: WeakKeyDictionary[ShownThread, ThreadWork] = WeakKeyDictionary()

    def list_routes(self) -> list[Route]:
        """The paths."""
        views = {
            "pictures/{digest}": self._show_picture,
            "versions": self._show_versions,
            "commits": self._show_commits,
            "trace": self._show_trace,
            "states": self._show_states,
            "family": self._show_family,
        }
        return [
            Route(f"/threads/{{thread_id}}/{path}", endpoint, methods=["GET"])
            for path, endpoint in views.items()
        ]

    async def _show_picture(self, request: Request) -> Response:
        names = request.path_params
        source = await self._find_source(request)
        data = await self._ask(lambda: _read_picture(source, names["thread_id"], names["digest"]))
        media_type = None if data is None else identify_picture(data)
        if media_type is None:
            raise PageRefusal(404, "There is no such picture", "The thread shows none like that.")
        headers = {
            **self._headers,
            "content-security-policy": PICTURE_POLICY,
            "content-disposition": "inline",
        }
        return Response(data, headers=headers, media_type=media_type)

    async def _show_versions(self, request: Request) -> Response:
        name = request.path_params["thread_id"]
        since, until = read_number(request, "from"), read_number(request, "to")
        source = await self._find_source(request)
        if since is None:
            shown = await self._ask(lambda: source.read_thread(name))
            return self._render(
                "versions.html",
                visitor=source.visitor,
                has_readers=source.has_readers,
                links=make_links(request),
                document=shown.story.document,
                turns=list_turn_versions(shown.story),
                turn_count=TURN_COUNT,
            )
        if until is not None and until < since:
            since, until = until, since
        found = await self._ask(
            lambda: compare_versions(
                source.read_thread(name, since), source.read_thread(name, until)
            )
        )
        answer = self._render(
            "difference.html",
            visitor=source.visitor,
            has_readers=source.has_readers,
            links=make_links(request, version=found.until),
            found=found,
        )
        keep_layout(request, answer)
        return answer

    async def _show_commits(self, request: Request) -> Response:
        name, page = request.path_params["thread_id"], read_number(request, "page")
        source = await self._find_source(request)
        shown, commits = await self._ask(
            lambda: ((shown := source.read_thread(name)), list_commits(shown))
        )
        count = max(1, -(-len(commits) // COMMIT_COUNT))
        page = page or count
        if page > count:
            raise PageRefusal(404, "There is no such page", f"The table has no page {page}.")
        return self._render(
            "commits.html",
            visitor=source.visitor,
            has_readers=source.has_readers,
            links=make_links(request),
            document=shown.story.document,
            commits=[one for one in commits if one.page == page],
            view={"page": page, "page_count": count},
            item_count=ITEM_COUNT,
        )

    async def _show_trace(self, request: Request) -> Response:
        turn = read_number(request, "turn")
        source, shown, work = await self._read_work(request)
        trace = None if work is None else make_trace(work.spans, turn)
        if trace is None and turn is not None:
            raise PageRefusal(404, "There is no such turn", f"The thread has no turn {turn}.")
        return self._render(
            "trace.html",
            visitor=source.visitor,
            has_readers=source.has_readers,
            links=make_links(request),
            document=shown.story.document,
            work=work or NO_WORK,
            trace=trace,
            numbers=number_calls(shown),
            item_count=ITEM_COUNT,
        )

    async def _show_states(self, request: Request) -> Response:
        source, shown, work = await self._read_work(request)
        return self._render(
            "states.html",
            visitor=source.visitor,
            has_readers=source.has_readers,
            links=make_links(request),
            document=shown.story.document,
            work=work or NO_WORK,
            chart=None if work is None else make_chart(work),
        )

    async def _show_family(self, request: Request) -> Response:
        name = request.path_params["thread_id"]
        source = await self._find_source(request)
        shown = await self._ask(lambda: source.read_thread(name))
        rows = await self._ask(lambda: source.list_family(name))
        return self._render(
            "family.html",
            visitor=source.visitor,
            has_readers=source.has_readers,
            links=make_links(request),
            document=shown.story.document,
            family=order_family(rows, shown.story.document.id),
        )

    async def _read_work(
        self, request: Request
    ) -> tuple[PageSource, ShownThread, ThreadWork | None]:
        """A thread and what it did; read once, as long as the thread is kept as it was read."""
        name = request.path_params["thread_id"]
        source = await self._find_source(request)

        def read() -> tuple[ShownThread, ThreadWork | None]:
            shown = source.read_thread(name)
            work = self._works.get(shown)
            if work is None and (parts := source.read_journals(name)):
                work = self._works[shown] = read_work(parts)
            return shown, work

        shown, work = await self._ask(read)
        return source, shown, work


def _read_picture(source: PageSource, thread_id: str, digest: str) -> bytes | None:
    """The bytes of a picture that stands in a thread, and of nothing else that is kept there."""
    shown = source.read_thread(thread_id)
    for picture in list_pictures(shown.story):
        if picture.blob.sha256 == digest:
            return source.read_blob(thread_id, picture.blob)
    return None
