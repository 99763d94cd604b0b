"""What goes on beside a session: what it records is sent, what is asked of it elsewhere is taken.

Sending is never in its way, and never asked twice about.
To a server who is logged in, and, whoever names one, turns to a collector of OpenTelemetry.

Who is not logged in pays one look at a name. A thread that was there before the login is left to
`treadle sync`, which asks first; from then on it goes by itself like those that were begun since.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from treadle.app.sessions.request_taker import RequestTaker
from treadle.app.sessions.session_telemetry import SessionTelemetry
from treadle.config.loader import load_settings
from treadle.errors import TreadleError
from treadle.store.thread_requests import ThreadRequests
from treadle.sync.credentials import Account, find_account, is_logged_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.app.notices import Notify
    from treadle.app.remote.request_listener import RemoteRequestListener
    from treadle.app.sessions.open_threads import OpenThread
    from treadle.app.sessions.setup import Setup
    from treadle.runtime.session import Session
    from treadle.store.thread_requests import PersonRequest
    from treadle.sync.background_sender import BackgroundSender
    from treadle.sync.context import SyncReport
    from treadle.sync.cursors import Cursors
    from treadle.sync.engine import SyncEngine
    from treadle.thread.facts import RequestTaken
    from treadle.thread.fold import ThreadFold

CLOSE_S_MAX: Final = 3.0
"""Seconds that the end of a command waits for what is not sent yet."""


class BackgroundSync:
    """Sends the thread of a session, if it is to be sent, and takes what is asked of it.

    Args:
        setup: of the session.
        notify: takes the lines that a person should know.
        wake: as that of a `RequestTaker`.
    """

    def __init__(
        self, setup: Setup, notify: Notify, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._setup = setup
        self._notify = notify
        self._wake = wake
        self.taker: RequestTaker | None = None
        self._remote: RemoteRequestListener | None = None
        self._background: BackgroundSender | None = None
        self._telemetry = SessionTelemetry(setup.store, notify)

    def begin(self, opened: OpenThread) -> None:
        """From here on what is recorded is sent. That it cannot be is told, and stops nothing."""
        store = self._setup.store
        # The server has them still: what counts is decided anew, by the keys and settings of now.
        ThreadRequests(store.folders.disk, store.places, opened.thread_id).remove_remote()
        self.taker = RequestTaker(store, opened, self._speak, self._wake)
        self.taker.start()
        self._telemetry.begin(opened.driver.journal)
        places = self._setup.store.places
        if not is_logged_in(places, os.environ) or self._setup.loaded.settings.sync != "auto":
            return
        try:
            account = find_account(places, os.environ)
            if account is not None:
                self._begin(account, opened)
        except TreadleError as error:
            self._notify(f"nothing is synced: {error.message}")

    def _begin(self, account: Account, opened: OpenThread) -> None:
        from treadle.sync.background_sender import BackgroundSender
        from treadle.sync.cursors import Cursors

        store = self._setup.store
        fold = store.load(opened.thread_id).fold
        cursors = Cursors(store.folders.disk, store.places, account.url, account.user)
        # The engine looks again, under its lock; this is so that a private session asks nothing.
        if fold.is_private or not self._may_send_unasked(fold, account, cursors):
            return
        held = ExitStack()

        def make_engine() -> SyncEngine:
            from treadle.app.sync.sync_engine import open_engine

            return held.enter_context(open_engine(store, account))[0]

        background = BackgroundSender(make_engine, opened.thread_id, held.close)
        self._background = background
        opened.driver.add_listener(lambda _: background.notify_change())
        background.notify_change()
        self._listen(account, fold)

    def _listen(self, account: Account, fold: ThreadFold) -> None:
        """Take what is asked from another device, if the user lets it be."""
        settings = self._setup.loaded.settings
        if settings.remote == "off" or fold.header.parent is not None:
            return
        from treadle.app.remote.acceptance import RemotePolicy
        from treadle.app.remote.request_listener import RemoteRequestListener

        def read_policy() -> RemotePolicy:
            # Whoever turns it off while a session is open has turned it off.
            now = load_settings(fold.workspace or self._setup.folder, os.environ).settings
            return RemotePolicy(now.remote, now.remote_critical, account.url)

        store, thread_id = self._setup.store, fold.header.thread
        self._remote = RemoteRequestListener(store, account, thread_id, read_policy)
        self._remote.begin()

    def _may_send_unasked(self, fold: ThreadFold, account: Account, cursors: Cursors) -> bool:
        """Whether it was begun since the login, or was sent before; so too what it goes on from."""
        base = fold.header.base
        if cursors.get(fold.header.thread) is None and fold.created_at < account.logged_in_at:
            return False
        if base is None:
            return True
        try:
            below = self._setup.store.load(base.thread).fold
        except TreadleError:
            return False
        return self._may_send_unasked(below, account, cursors)

    async def _speak(self, session: Session, said: PersonRequest, taken: RequestTaken) -> None:
        """Have the session hear what was said elsewhere, prepared as all that is said."""
        from treadle.app.sessions.prompt_text import prepare_prompt

        prompt = await prepare_prompt(self._setup, said.text)
        steers = said.act == "steer" and session.driver.is_running
        shown = prompt.attachments, prompt.seen
        session.queue(prompt.text, *shown, steers=steers, taken=taken)

    async def close(self) -> None:
        """Wait a little for what is not sent yet, and tell what a person should know, in a line."""
        if self._remote is not None:
            self._remote.close()
        if self.taker is not None:
            await self.taker.close()
        await self._telemetry.close()
        background, self._background = self._background, None
        if background is None:
            return
        # What was recorded last may have been told to nobody.
        background.notify_change()
        is_done = await asyncio.to_thread(background.close, CLOSE_S_MAX)
        told = "" if background.report is None else _describe_report(background.report)
        if not told and background.problem:
            told = f"not synced: {background.problem}"
        if not told and not is_done:
            told = "not synced yet: it takes long; `treadle sync` goes on with it"
        if told:
            self._notify(told)


def _describe_report(report: SyncReport) -> str:
    """The one line; empty when all is well."""
    for problem in report.held:
        what = "; ".join(problem.found) or "a secret"
        return f"held back, not synced: {what}; `treadle sync` says more"
    for problem in report.refused:
        return f"not synced: {problem.why}; `treadle sync` says more"
    for conflict in report.conflicts:
        how = "both were merged" if conflict.how == "merge" else "the other branch is a fork"
        return f"another machine had gone on with this thread: {how}; `treadle show` says more"
    if report.unreachable:
        return f"not synced yet: {report.unreachable}; it is tried again"
    for problem in report.waiting:
        return f"not synced yet: {problem.why}; it is tried again"
    return ""
