"""The thread of an editor's session: opened when there is something to do in it, and let go of."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec import Struct

from treadle.app.sessions.background_sync import BackgroundSync
from treadle.app.sessions.host import Host
from treadle.app.sessions.open_threads import (
    OnOutput,
    Session,
    open_conversation,
    refuse_foreign_tools,
)
from treadle.app.sessions.reconfiguration import find_mode, rebuild_parts
from treadle.app.sessions.setup import RunChoice, Setup, close_setup
from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
from treadle.app.upkeep.trash import trash_threads
from treadle.config.settings import ApprovalMode
from treadle.errors import TreadleError, UsageError
from treadle.store.local_store import LocalStore


class EditorChoice(Struct, frozen=True):
    """What was chosen when the program was started; model and mode are those of new threads."""

    model: str | None = None
    mode: ApprovalMode | None = None
    no_commit: bool = False


class HeldThread:
    """A thread, its setup, and its session while one is open.

    `thread_id`, `mode` and `model` are known once `begin` or `prepare` has succeeded.

    Args:
        store: the threads of this user.
        folder: the absolute path of the folder to work in.
        choice: what was chosen for all threads.
        host: who is asked and told.
        on_output: gets every output.
    """

    def __init__(
        self,
        store: LocalStore,
        folder: str,
        choice: EditorChoice,
        host: Host,
        on_output: OnOutput,
    ) -> None:
        self.store = store
        self.folder = folder
        self._choice = choice
        self._host = host
        self._on_output = on_output
        self._changing = asyncio.Lock()
        """Held by whoever opens it, closes it or has it work otherwise."""
        self._background: BackgroundSync | None = None
        self.setup: Setup | None = None
        self.session: Session | None = None
        self.thread_id = ""
        self.mode = ""
        self.model = ""

    async def begin(self) -> None:
        """Begin a new thread; it is durable when this returns.

        Raises:
            MissingModelError: nobody can answer yet.
            TreadleError: as `make_setup` and `open_conversation`.
        """
        async with self._changing:
            self._open_now(await self._prepare_now(None))

    async def prepare(self, thread: str) -> Setup:
        """Find out what holds in a thread; it is not opened for work.

        Raises:
            UsageError: there is no such thread, or it is a task.
            TreadleError: as `make_setup`.
        """
        async with self._changing:
            return self.setup if self.setup is not None else await self._prepare_now(thread)

    async def open(self) -> tuple[Setup, Session]:
        """The session, opened if none is: from disk, as the thread may have grown elsewhere.

        Raises:
            ThreadBusyError: another process has the thread open.
            TreadleError: as `prepare` and `open_conversation`.
        """
        async with self._changing:
            if self.session is not None and not self.session.driver.journal.writer.is_usable:
                with suppress(TreadleError):  # the disk has refused: what is on it counts
                    await self._close_now()
            if self.session is None or self.setup is None:
                self._open_now(await self._prepare_now(self.thread_id))
            assert self.session is not None
            assert self.setup is not None
            return self.setup, self.session

    async def choose(self, *, model: str | None = None, mode: ApprovalMode | None = None) -> None:
        """Have another model or approval mode from now on, also in a turn that is running.

        Raises:
            UsageError: there is no such model.
            NotConfiguredError: it has no key.
            TreadleError: as `open`.
        """
        setup, session = await self.open()
        async with self._changing:
            parts = await asyncio.to_thread(rebuild_parts, setup, self.thread_id, model, mode)
            session.driver.configure(
                parts.config, provider=parts.provider if model else None, tools=parts.tools
            )
            self.model, self.mode = parts.config.model_name, mode or self.mode

    def take_notices(self) -> tuple[str, ...]:
        """What the person should know of how the work begins, once."""
        if self.setup is None:
            return ()
        found = tuple(dict.fromkeys(self.setup.notices))
        self.setup.notices.clear()
        return tuple(one for one in found if not one.startswith("approval mode plan"))

    async def close(self) -> None:
        """Stop work and free the thread; what was running stays unfinished, to be resumed.

        A thread in which nothing was ever said goes into the trash: editors begin many.
        """
        async with self._changing:
            await self._close_now()

    async def _prepare_now(self, thread: str | None) -> Setup:
        if self.setup is not None:
            await close_setup(self.setup)
        setup, self.model, self.mode = await asyncio.to_thread(self._make_setup, thread)
        self.setup, self.thread_id = setup, setup.thread_id or ""
        setup.hooks.tell = self._host.notify
        return setup

    def _make_setup(self, thread: str | None) -> tuple[Setup, str, str]:
        choice = self._choice if thread is None else EditorChoice()
        setup = make_setup(
            self.store,
            RunChoice(choice.model, choice.mode, mode_if_unset="ask", may_change=True),
            ThreadTarget(self.folder, thread),
            self._host,
            no_commit=self._choice.no_commit,
            before_owning=_refuse_task,
        )
        _refuse_task(setup)
        return setup, setup.build_parts().config.model_name, find_mode(setup)

    def _open_now(self, setup: Setup) -> None:
        if setup.thread is not None:
            refuse_foreign_tools(setup)
        self.session = open_conversation(setup, self._on_output)
        self.thread_id = self.session.thread_id
        # An editor knows of no turn that it has not begun: what is said then waits for its next.
        self._background = BackgroundSync(setup, self._host.notify)
        self._background.begin(self.session)

    async def _close_now(self) -> None:
        session, self.session = self.session, None
        setup, self.setup = self.setup, None
        background, self._background = self._background, None
        if setup is None:
            return
        is_unused = False
        try:
            if session is not None:
                fold = session.driver.journal.fold
                is_unused = fold.is_idle and not fold.conversation and not fold.queued
                await session.close()
        finally:
            if background is not None:
                await background.close()
            await close_setup(setup)
        if is_unused:
            with suppress(TreadleError):
                await asyncio.to_thread(trash_threads, self.store, [self.thread_id])


def _refuse_task(setup: Setup) -> None:
    if setup.is_task:
        raise UsageError(
            f"thread {setup.thread_id} is a task, which takes no prompts",
            hint=f"`treadle resume {setup.thread_id}` goes on with it",
        )
