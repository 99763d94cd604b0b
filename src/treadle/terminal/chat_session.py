"""The session of a chat: opened late, let go for a while, left for another one.

A chat has no thread on disk before the first prompt. While a command of the command line works on
the thread, the session is closed, so that the thread is free; then it is opened again, from disk.
All that is heavy is imported here when it is needed, which is after the first drawing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from treadle.config.settings import ApprovalMode, NetworkMode, SandboxLevel
from treadle.errors import MissingModelError, TreadleError, UsageError

if TYPE_CHECKING:
    from treadle.answers import Answer, Verdict
    from treadle.app.sessions.background_sync import BackgroundSync
    from treadle.app.sessions.open_threads import Session
    from treadle.app.sessions.prompt_files import PromptFileList
    from treadle.app.sessions.setup import DriverParts, Setup
    from treadle.app.tool_servers.session_servers import SessionServers
    from treadle.core.approval import Question
    from treadle.core.llm import Usage
    from treadle.outputs import Output
    from treadle.server_questions import AskPersonForServer


class ChatOptions(Struct, frozen=True):
    """The options of `treadle` without a command and without `-p`.

    `prompt` is said first. `thread` is the beginning or end of an id; empty to pick one. With
    `quiet` nothing is told that nobody has asked for.
    """

    prompt: str | None = None
    latest: bool = False
    thread: str | None = None
    fork: bool = False
    model: str | None = None
    cwd: str | None = None
    approval_mode: ApprovalMode | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    time_limit: float | None = None
    private: bool = False
    no_commit: bool = False
    plain: bool = False
    sandbox: SandboxLevel | None = None
    network: NetworkMode | None = None
    quiet: bool = False


class ChatCallbacks(Struct, frozen=True):
    """Who is told and who is asked."""

    on_output: Callable[[Output], None]
    approve: Callable[[Question], Awaitable[Verdict]]
    ask: Callable[[Question], Awaitable[Answer]]
    tell: Callable[[str], None]
    """Takes a line that a person should know."""
    on_prompts: Callable[[PromptFileList], None]
    """Takes the skills and commands that hold; called for prompts of servers too."""
    find_model: Callable[[MissingModelError], Awaitable[str | None]]
    """The lasting name of a model in place of one that cannot answer; `None` for none."""
    answer_server: AskPersonForServer
    """Asked what servers of tools ask back."""
    go_on: Callable[[], None]
    """Called when something was said on a page that only a turn can act on."""


class ChatSession:
    """The session at hand, and the setup it is made from.

    Args:
        options: what was chosen on the command line.
        people: who is told and who is asked.

    `setup` is there once `prepare` has succeeded; `session` while one is open; `thread_id` as soon
    as there is a thread. `mode` and `model` are those that hold now.
    """

    def __init__(self, options: ChatOptions, people: ChatCallbacks) -> None:
        self._options = options
        self._people = people
        self._background: BackgroundSync | None = None
        self._servers: SessionServers | None = None
        self._is_private = options.private
        self._model, self._mode = options.model, options.approval_mode
        """What is chosen and not yet recorded in the thread."""
        self._changing = asyncio.Lock()
        """Held by whoever makes, opens, closes or leaves something, or has it work otherwise."""
        self._is_suspect = False
        self.is_switching = False
        """Whether it is not known which thread will be at hand."""
        self.setup: Setup | None = None
        self.session: Session | None = None
        self.thread_id: str | None = None
        self.folder = ""
        self.mode = ""
        self.model = ""
        self.is_private = options.private
        self.sandbox = self.remote = ""
        self.usage: Usage | None = None
        """Of the thread at hand, as it was when its session was last closed."""

    # ---- making --------------------------------------------------------------------------------

    async def prepare(self, thread: str | None = None, *, latest: bool = False) -> Setup:
        """Find out what holds here, for this thread or for one that is to begin.

        Raises:
            NotConfiguredError: no model was chosen, or it has no key.
            UsageError: there is no such thread, or it takes no prompts.
            StoreError: the thread cannot be read.
        """
        async with self._changing:
            return await self._prepare_now(thread, latest=latest)

    async def ensure_prepared(self) -> None:
        """Wait until it is known what holds here.

        Raises:
            TreadleError: as `prepare`.
        """
        async with self._changing:
            if self.setup is None:
                await self._prepare_now(self.thread_id)

    async def _prepare_now(self, thread: str | None, *, latest: bool = False) -> Setup:
        try:
            made = await asyncio.to_thread(self._prepare, thread, latest)
        except MissingModelError as missing:
            if (found := await self._people.find_model(missing)) is None:
                raise
            self._model = found
            made = await asyncio.to_thread(self._prepare, thread, latest)
        setup, parts, mode, standing, prompts = made
        self.setup = setup
        self._servers = await setup.servers.take_over(self._servers)
        self.thread_id = setup.thread_id
        self.folder, self.model = parts.folder, parts.config.model_name
        self.mode = mode
        self.is_private = self._is_private if setup.thread is None else setup.thread.is_private
        self.sandbox, self.remote = standing, setup.loaded.settings.remote
        self._people.on_prompts(prompts)
        setup.servers.watch(lambda: self._people.on_prompts(prompts))
        for text in dict.fromkeys(setup.notices):
            if not text.startswith("approval mode plan"):  # the status line tells it
                self._people.tell(text)
        setup.notices.clear()
        setup.hooks.tell = self._people.tell
        return setup

    def _prepare(
        self, thread: str | None, latest: bool
    ) -> tuple[Setup, DriverParts, str, str, PromptFileList]:
        from treadle.app.sessions.host import Host, PersonCallbacks
        from treadle.app.sessions.prompt_files import list_prompts
        from treadle.app.sessions.setup import RunChoice
        from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
        from treadle.app.stores import open_store

        options, people = self._options, self._people
        setup = make_setup(
            open_store("treadle"),
            RunChoice(
                self._model,
                self._mode,
                mode_if_unset="ask",
                max_steps=options.max_steps,
                sandbox=options.sandbox,
                network=options.network,
                may_change=True,
            ),
            ThreadTarget(options.cwd, thread, latest),
            Host(PersonCallbacks(people.ask, people.approve, people.answer_server), people.tell),
            no_commit=options.no_commit,
            before_owning=_refuse_task,
            servers=self._servers,
        )
        _refuse_task(setup)
        parts = _build_parts(setup, self)
        standing = setup.make_sandbox(parts.folder).standing().confined
        prompts = list_prompts(parts.folder, setup.store.places)
        return setup, parts, _mode_of(setup), standing, prompts

    async def open(self) -> Session:
        """The session at hand, opened if it is not: with a new thread if there is none.

        Raises:
            ThreadBusyError: another process has the thread open.
            NotConfiguredError: as `prepare`.
            UsageError: as `prepare`, or the thread needs tools that only another program has.
            StoreError: the thread cannot be read, or the disk refused.
        """
        async with self._changing:  # who asks while it is being opened gets the same one
            if self._is_suspect:
                with suppress(TreadleError):
                    await self._close_now()
            return self.session if self.session is not None else await self._open_now()

    async def _open_now(self) -> Session:
        setup = self.setup if self.setup is not None else await self._prepare_now(self.thread_id)
        from treadle.app.sessions.background_sync import BackgroundSync
        from treadle.app.sessions.limits import make_budget
        from treadle.app.sessions.open_threads import open_conversation, refuse_foreign_tools

        options, people = self._options, self._people
        if setup.thread is not None:
            refuse_foreign_tools(setup)
        self.session = open_conversation(
            setup,
            people.on_output,
            budget=make_budget(options.max_tokens, options.max_cost, options.time_limit),
            is_private=self._is_private,
        )
        self.thread_id = self.session.thread_id
        setup.notices.clear()
        self._background = BackgroundSync(setup, people.tell, people.go_on)
        self._background.begin(self.session)
        return self.session

    async def close(self) -> None:
        """Close the session, if one is open; its thread stays at hand, and servers live on."""
        async with self._changing:
            await self._close_now()

    async def end(self) -> None:
        """Close the session, and end what was started for it."""
        if self._servers is not None:  # nothing is at work any more
            await self._servers.aclose()
        await self.close()

    async def _close_now(self) -> None:
        self._is_suspect = False
        session, self.session = self.session, None
        setup, self.setup = self.setup, None
        background, self._background = self._background, None
        if setup is None:
            return
        try:
            if session is not None:
                # What was chosen is recorded by now: the thread itself knows it.
                self._model = self._mode = None
                self.usage = session.usage
                await session.close()
        finally:
            if background is not None:
                await background.close()
            await setup.models.aclose()
        if session is not None:
            await asyncio.to_thread(_update_index, setup, session.thread_id)

    async def switch(self, thread: str | None, *, latest: bool = False) -> None:
        """Leave the thread at hand for another one, or for a new one that is like it.

        A new one has its model and its approval mode, and is private if it is.

        Raises:
            UsageError: there is no such thread, or it takes no prompts; nothing is at hand then
                but a new thread.
            StoreError: it cannot be read.
        """
        async with self._changing:
            self.is_switching = True
            try:
                model, mode = self.model or None, self.mode or None
                await self._close_now()
                self.thread_id = self.usage = None
                is_new = thread is None and not latest
                self._model, self._mode = (model, mode) if is_new else (None, None)  # type: ignore[assignment]
                self._is_private = self.is_private
                await self._prepare_now(thread, latest=latest)
            finally:
                self.is_switching = False

    async def close_after_failure(self) -> None:
        """After a failure: let go of the session, whatever that raises; it is opened from disk."""
        with suppress(TreadleError):
            await self.close()

    def mark_suspect(self) -> None:
        """Something beside the session has failed: the next `open` reads the thread anew."""
        self._is_suspect = True

    def set_private(self, *, is_private: bool) -> None:
        """Whether the thread that begins with the next prompt may ever leave this machine."""
        self._is_private = self.is_private = is_private

    # ---- choosing ------------------------------------------------------------------------------

    async def choose(self, *, model: str | None = None, mode: ApprovalMode | None = None) -> None:
        """Have another model or approval mode from now on, also in a turn that is running.

        Raises:
            UsageError: there is no such model.
            NotConfiguredError: it has no key.
        """
        async with self._changing:
            if self.session is None:
                await self._choose_before_open(model, mode)
                return
            setup = self.setup
            assert setup is not None
            parts = await asyncio.to_thread(_rebuild_parts, setup, self, model, mode)
            self.session.driver.configure(
                parts.config, provider=parts.provider if model else None, tools=parts.tools
            )
            self.model = parts.config.model_name
            self.mode = mode or self.mode

    async def _choose_before_open(self, model: str | None, mode: ApprovalMode | None) -> None:
        before = self._model, self._mode
        self._model, self._mode = model or self._model, mode or self._mode
        try:
            await self._prepare_now(self.thread_id)
        except TreadleError:
            self._model, self._mode = before
            raise


def _build_parts(setup: Setup, sessions: ChatSession) -> DriverParts:
    """What a session is made of; the thread is at hand even if nobody can answer in it yet."""
    try:
        return setup.build_parts()
    except MissingModelError:
        sessions.thread_id = setup.thread_id  # its person may choose somebody later
        raise


def _rebuild_parts(
    setup: Setup, sessions: ChatSession, model: str | None, mode: ApprovalMode | None
) -> DriverParts:
    from treadle.app.sessions.reconfiguration import rebuild_parts

    assert sessions.thread_id is not None
    return rebuild_parts(setup, sessions.thread_id, model, mode)


def _mode_of(setup: Setup) -> str:
    from treadle.app.sessions.reconfiguration import find_mode

    return find_mode(setup)


def _refuse_task(setup: Setup) -> None:
    if setup.is_task:
        raise UsageError(
            f"thread {setup.thread_id} is a task, which takes no prompts",
            hint=f"`treadle resume {setup.thread_id}` goes on with it",
        )


def _update_index(setup: Setup, thread_id: str) -> None:
    from treadle.app.sessions.thread_work import update_index

    update_index(setup, thread_id)
