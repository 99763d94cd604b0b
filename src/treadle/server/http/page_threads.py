"""The threads of a server, as pages show them to who is signed in, or to nobody in particular."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from treadle.api.audit_types import ReadWay
from treadle.api.error_codes import ErrorCode
from treadle.api.types import ListedThread
from treadle.core.messages import BlobRef
from treadle.exchange.journal_files import JournalPart
from treadle.pages.ports import (
    FoundRow,
    LiveState,
    RowFilters,
    ShownThread,
    StartRow,
    ThreadRow,
    ThreadRows,
    Visitor,
    WatchedThread,
)
from treadle.pages.site import HEARTBEAT_S
from treadle.pages.thread_cells import cut_pieces, describe_age, describe_state, format_title
from treadle.server import search
from treadle.server.accounts.sessions import make_form_key
from treadle.server.context import Context, Principal, ThreadRead
from treadle.server.http.change_stream import SeenVersion
from treadle.server.http.region_streams import follow_region
from treadle.server.http.services import Services
from treadle.server.refusals import Refusal, make_unauthorized_refusal
from treadle.server.search import thread_families, thread_lists
from treadle.server.threads import remote_requests
from treadle.server.threads.change_feed import find_newest_change
from treadle.server.threads.stories import (
    find_shown_thread,
    read_kept_blob,
    read_story,
    read_story_at,
    read_story_journals,
    read_whole_output,
)
from treadle.thread.safe_text import sanitize_text

Result = TypeVar("Result")


class ServerThreads:
    """See `PageSource`. What may be seen is decided where the API has it decided.

    Args:
        services: of the process.
        caller: who looks, as the session was found a moment ago.
        secret: of the session; empty without one.
        address: from where is looked.
    """

    def __init__(
        self, services: Services, caller: Principal, secret: str, address: str = ""
    ) -> None:
        self._services = services
        self._address = address
        self.has_readers = False
        """See `PageSource`."""
        self.caller = caller
        self.visitor = (
            None
            if caller.user_id is None
            else Visitor(caller.user, caller.organization, caller.is_admin, make_form_key(secret))
        )

    @property
    def is_live(self) -> bool:
        """See `PageSource`. Streams belong to users."""
        return self.caller.user_id is not None

    def read(self, function: Callable[[Context], Result], way: ReadWay = "page") -> Result:
        """One transaction of the visitor's that reads; called in a thread.

        Raises:
            Refusal: what `function` raises; or it cannot be kept who reads what.
        """
        services = self._services

        def work(db: Connection) -> tuple[Context, Result]:
            context = Context(db, self.caller, services.now())
            return context, function(context)

        context, found = services.database.run(work, is_write=False)
        self.has_readers = self.caller.user_id is not None and not context.reads
        notes = services.read_notes.find_new(context.reads, way, self._address, context.now)
        services.read_notes.keep(notes, context.now)
        return found

    def list_rows(self, filters: RowFilters, start: int, count: int) -> ThreadRows:
        """See `PageSource`."""
        given = {
            "state": filters.state,
            "repo": filters.repo,
            "branch": filters.branch,
            "tag": filters.tag,
            "model": filters.model,
            "owner": filters.owner,
        }
        wanted = thread_lists.parse_filters({name: (text,) for name, text in given.items() if text})
        found = self.read(lambda context: thread_lists.list_threads(context, wanted, count, start))
        is_first = start == 0 and not any(given.values())
        starts = self.list_starts() if is_first else ()
        return ThreadRows([self.make_row(one) for one in found.threads], found.total, starts)

    def list_starts(self) -> list[StartRow]:
        """What the visitor has asked machines to begin."""
        if self.visitor is None:
            return []
        return [
            StartRow(
                *(one.created_at, one.expires_at, one.state),
                *(sanitize_text(one.why), one.thread or "", one.left_with),
            )
            for one in self.read(remote_requests.list_starts)
        ]

    def search(self, words: str, count: int) -> Sequence[FoundRow]:
        """See `PageSource`."""
        found = self.read(lambda context: search.search_threads(context, words, count), "search")
        return [
            FoundRow(
                self.make_row(hit.thread),
                hit.kind,
                cut_pieces(hit.snippet, hit.ranges),
                hit.count,
            )
            for hit in found.hits
        ]

    def read_thread(self, thread_id: str, version: int | None = None) -> ShownThread:
        """See `PageSource`."""
        return self.read(lambda context: read_story(context, thread_id, version)).shown

    def read_blob(self, thread_id: str, ref: BlobRef) -> bytes:
        """See `PageSource`."""
        return self.read(lambda context: read_kept_blob(context, thread_id, ref))

    def read_journals(self, thread_id: str) -> Sequence[JournalPart]:
        """See `PageSource`."""
        return self.read(lambda context: read_story_journals(context, thread_id))

    def list_family(self, thread_id: str) -> Sequence[ThreadRow]:
        """See `PageSource`."""

        def read(context: Context) -> Sequence[ListedThread]:
            return thread_families.list_family(context, find_shown_thread(context, thread_id))

        return [self.make_row(one) for one in self.read(read)]

    def read_output(self, thread_id: str, call_id: str) -> bytes:
        """See `PageSource`."""
        return self.read(lambda context: read_whole_output(context, thread_id, call_id))

    def follow_list(self) -> AsyncGenerator[None]:
        """See `PageSource`. What the visitor may see no more is gone after a while."""
        listeners = self._services.change_listeners

        async def read_mark(caller: Principal, before: str) -> str:
            return str(listeners.find_newest_heard(caller, int(before or 0)))

        return follow_region(self._services, self.caller, read_mark)

    async def follow(
        self, thread_id: str, *, with_thread: bool = False
    ) -> AsyncGenerator[LiveState | None]:
        """See `PageSource`. What a model is saying is not sent to a server."""
        services, caller = self._services, self.caller
        if caller.user_id is None:
            raise make_unauthorized_refusal()
        reads: list[ThreadRead] = []
        look = partial(self._look, caller, thread_id, reads)
        seen = await services.read_for_listeners(look)
        with services.change_listeners.add_listener(caller) as listener:
            yield await self._make_state(seen, reads if with_thread else None)
            while not services.change_listeners.is_stopping and listener.caller is not None:
                listener.wake.clear()
                found = services.change_listeners.find_newer_version(
                    listener.caller, seen.key, seen.change
                )
                try:
                    is_known = found is not None
                    if found is None:  # only the database knows
                        look = partial(self._look, listener.caller, thread_id, [])
                        found = await services.read_for_listeners(look)
                except Refusal as refusal:
                    if refusal.code is not ErrorCode.UNAVAILABLE:
                        return
                    found, is_known = seen, False
                if found.version > seen.version:
                    # Whether the session is good was looked at with what all listeners are told.
                    is_given = with_thread and is_known
                    yield await self._make_state(found, reads if is_given else None)
                seen = SeenVersion(seen.key, max(seen.version, found.version), found.change)
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await listener.wake.wait()
                except TimeoutError:
                    yield None

    async def _make_state(self, seen: SeenVersion, reads: list[ThreadRead] | None) -> LiveState:
        """How far a thread is that the visitor may see at this version.

        Args:
            seen: the version.
            reads: what is to be noted when the thread is given; `None` if it is not wanted.
        """
        services, version = self._services, seen.version
        if reads is None:
            return LiveState(version)
        try:
            await services.keep_reads(reads, "page", self._address, services.now())
        except Refusal:
            return LiveState(version)
        read = partial(self._read_watched, seen.key, version)
        return LiveState(version, thread=WatchedThread(f"{seen.key} {version}", read))

    def _read_watched(self, key: str, version: int) -> ShownThread | None:
        work = partial(read_story_at, key=key, version=version)
        try:
            return self._services.database.run(work, is_write=False)
        except Refusal:
            return None  # who is only told of it asks for it, and hears why

    def _look(
        self, caller: Principal, thread_id: str, reads: list[ThreadRead], db: Connection
    ) -> SeenVersion:
        context = Context(db, caller, self._services.now(), reads)
        # What was committed before is in what follows; what comes later has a larger number.
        change = find_newest_change(context)
        row = find_shown_thread(context, thread_id)
        return SeenVersion(row.key, row.version, change)

    def make_row(self, listed: ListedThread) -> ThreadRow:
        """A thread in a list."""
        line = listed.summary
        is_own = listed.owner == self.caller.user
        return ThreadRow(
            line,
            line.id if is_own else f"{line.id}@{listed.owner}",
            line.id[-8:],
            format_title(line),
            describe_state(line),
            line.git_remote_url or "",
            line.git_branch or "",
            describe_age(line.updated_at, self._services.now()),
            listed.owner,
        )
