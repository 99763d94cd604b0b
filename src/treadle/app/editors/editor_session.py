"""One session of an editor, on a thread of this machine.

A new one is on disk before the editor hears of it. One that is loaded is opened when there is
something to do in it: what was left unfinished, or the next prompt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from treadle.app.editors.held_thread import EditorChoice, HeldThread
from treadle.app.editors.history_updates import list_history
from treadle.app.editors.live_updates import LiveUpdates, make_remark
from treadle.app.editors.person_dialogs import EditorClient, PersonDialogs
from treadle.app.editors.prompt_blocks import PromptBlock, PromptText, prepare_blocks
from treadle.app.editors.session_updates import (
    ContextUsed,
    MessageText,
    ModeChosen,
    ModelChosen,
    TitleChosen,
)
from treadle.app.editors.unsaved_files import EditorProvider, UnsavedFiles, add_unsaved_files
from treadle.app.sessions.host import Host, PersonCallbacks
from treadle.app.sessions.open_threads import Session
from treadle.app.sessions.plan_approval import GO_AHEAD, find_waiting_plan
from treadle.app.sessions.prompt_files import ListedPrompt, list_prompts
from treadle.app.sessions.providers import list_ready_models
from treadle.app.sessions.setup import Setup
from treadle.app.sessions.thread_work import update_index
from treadle.app.threads.call_changes import make_file_reader
from treadle.config.settings import ApprovalMode
from treadle.core.approval import Question
from treadle.core.llm import LlmErrorKind
from treadle.errors import AgentError, StoreError, TreadleError, UnknownThreadError
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.store.local_store import LocalStore

StopReason: TypeAlias = Literal["end_turn", "max_turn_requests", "refusal", "cancelled"]
"""Why a turn has ended, in the words of the Agent Client Protocol."""

COMPACT: Final = "compact"
"""The command of ours that makes sense in an editor, besides a person's own."""

_STOPS: Final[Mapping[TurnOutcome, StopReason]] = MappingProxyType(
    {
        TurnOutcome.DONE: "end_turn",
        TurnOutcome.LIMIT: "max_turn_requests",
        TurnOutcome.CANCELLED: "cancelled",
        TurnOutcome.INTERRUPTED: "cancelled",
        TurnOutcome.APPROVAL: "cancelled",
    }
)


class EditorSession:
    """A session: prompts, one after the other or queued, cancels, another model or mode.

    Args:
        store: the threads of this user.
        folder: the absolute path of the folder that the editor has open.
        client: the editor.
        choice: what was chosen for all sessions.
    """

    def __init__(
        self, store: LocalStore, folder: str, client: EditorClient, choice: EditorChoice
    ) -> None:
        self._client = client
        self._updates = LiveUpdates(folder, make_file_reader(Path(folder)), client.show)
        self._dialogs = PersonDialogs(client, self._updates, self.cancel, self._is_own)
        asked = self._dialogs
        people = PersonCallbacks(
            asked.ask_about_uncertain_call,
            asked.approve,
            asked.answer_server if client.shows_forms else None,
        )
        host = _make_host(Host(people, self._tell), folder, client, self._may_write)
        self._held = HeldThread(store, folder, choice, host, self._updates.show_output)
        self._going_on: asyncio.Task[None] | None = None
        self._title: str | None = None
        self._cancel_count = 0
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    @property
    def thread_id(self) -> str:
        """The thread."""
        return self._held.thread_id

    @property
    def mode(self) -> str:
        """The approval mode that holds; empty for one that has no name."""
        return self._held.mode

    @property
    def model(self) -> str:
        """Who answers, by the lasting name."""
        return self._held.model

    async def begin(self) -> None:
        """Begin a new thread; it is durable when this returns. Raises as `HeldThread.begin`."""
        await self._held.begin()

    async def load(self, thread: str, *, tells_history: bool) -> None:
        """Have a thread at hand; tell all that was said and done in it, if that is wanted.

        Raises:
            UsageError: there is no such thread, or it is a task.
            TreadleError: as `HeldThread.prepare`.
        """
        held = self._held
        await held.prepare(thread)
        if held.thread_id != thread:  # two names for one session would be two sessions
            raise UnknownThreadError(
                f"there is no thread {thread!r}", hint=f"its whole id is {held.thread_id}"
            )
        if not tells_history:
            return
        fold = await asyncio.to_thread(lambda: held.store.load(held.thread_id).fold)
        calls = self._updates
        for update in list_history(
            held.store, fold, held.folder, calls.count_call, calls.name_call
        ):
            self._client.show(update)
        self._tell_title(fold.title())

    def go_on(self) -> None:
        """Tell what the person should know, and go on with what was left unfinished, if any was.

        Calls of which nobody knows whether they happened are asked about. What is said meanwhile
        is answered behind it.
        """
        self._tell_notices()
        setup, session = self._held.setup, self._held.session
        is_unfinished = setup is not None and setup.thread is not None and not setup.thread.is_idle
        if is_unfinished and session is None and self._going_on is None:
            self._going_on = asyncio.ensure_future(self._finish_unfinished())

    def list_commands(self) -> tuple[ListedPrompt, ...]:
        """The person's own commands and skills that hold here."""
        return list_prompts(self._held.folder, self._held.store.places).used

    def list_models(self) -> tuple[str, ...]:
        """Models that can answer, the one that does first; nobody is asked for more."""
        setup = self._held.setup
        ready = () if setup is None else list_ready_models(setup.loaded)
        return tuple(dict.fromkeys((self.model, *ready)))

    # ---- work ----------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[PromptBlock]) -> StopReason:
        """Say something, and work until the agent waits again.

        If a turn is running, it is queued, durably, and answered behind that.

        Raises:
            AgentError: the turn has failed; the thread is intact and can be gone on with.
            UsageError: what is said cannot be; nothing was recorded.
            TreadleError: as `Session.turn` and `HeldThread.open`.
        """
        cancel_count = self._cancel_count
        setup, session = await self._held.open()
        self._tell_notices()
        if (focus := _read_compaction(blocks, self.list_commands())) is not None:
            return await self._end_turn(setup, session, await session.compact(focus))
        said = await prepare_blocks(setup, blocks)
        if self._cancel_count != cancel_count:  # before there was a turn to end
            return "cancelled"
        turn = await session.turn(said.text, said.attachments, said.seen)
        stop = await self._end_turn(setup, session, turn)
        while stop == "end_turn" and await self._leaves_plan(session):
            self._client.show(MessageText("person", GO_AHEAD))
            stop = await self._end_turn(setup, session, await session.turn(GO_AHEAD))
        return stop

    def cancel(self) -> None:
        """End what is running; what is known of it is kept.

        It ends all prompts that are not answered: who is told that one was cancelled does not
        expect it to be answered behind the next.
        """
        self._cancel_count += 1
        self._dialogs.stop()
        if (session := self._held.session) is not None:
            session.cancel()
            with suppress(StoreError):  # the disk has refused: the turn says so
                while session.withdraw_input() is not None:
                    pass

    async def choose(self, *, model: str | None = None, mode: ApprovalMode | None = None) -> None:
        """Have another model or approval mode from now on. Raises as `HeldThread.choose`."""
        await self._held.choose(model=model, mode=mode)
        if mode is not None:
            self._client.show(ModeChosen(mode))
        if model is not None:
            self._client.show(ModelChosen(self.model))

    async def close(self) -> None:
        """Stop work and free the thread; what was running stays unfinished, to be resumed."""
        self._dialogs.stop()
        await self._held.close()
        if self._going_on is not None:
            await asyncio.gather(self._going_on, return_exceptions=True)

    async def _finish_unfinished(self) -> None:
        """No request of the editor waits for it: a failure is told in the session."""
        try:
            setup, session = await self._held.open()
            self._tell_notices()
            await self._end_turn(setup, session, await session.resume())
        except TreadleError as error:
            self._tell(f"{error.message}\n{error.hint}" if error.hint else error.message)

    async def _leaves_plan(self, session: Session) -> bool:
        """Whether a plan waits for a yes, and gets one; the mode is another one then."""
        if find_waiting_plan(session, self.mode) is None:
            return False
        mode = await self._dialogs.ask_about_plan()
        if mode is not None:
            await self.choose(mode=mode)
        return mode is not None

    async def _end_turn(self, setup: Setup, session: Session, turn: TurnFinished) -> StopReason:
        """Tell how the turn has ended. Raises `AgentError` if it has failed."""
        self._updates.close_open_calls()
        await setup.hooks.after_turn(turn)
        fold = session.driver.journal.fold
        used, size = fold.conversation.tokens, fold.machine.config.context_tokens_max
        if used and size:
            cost = session.usage.cost_usd
            self._client.show(ContextUsed(used, size, None if cost is None else float(cost)))
        self._tell_title(fold.title())
        await asyncio.to_thread(update_index, setup, session.thread_id)
        if turn.outcome is not TurnOutcome.FAILED:
            return _STOPS[turn.outcome]
        if turn.error_kind is LlmErrorKind.CONTENT_FILTERED:
            self._tell(turn.error)
            return "refusal"
        raise AgentError(turn.error or "the turn has failed", hint="the thread is intact")

    # ---- telling -------------------------------------------------------------------------------

    def _tell(self, text: str) -> None:
        """From any thread: files that a prompt names are read in one of their own."""
        remark = make_remark(text)
        if threading.get_ident() == self._thread:
            self._client.show(remark)
        else:
            self._loop.call_soon_threadsafe(self._client.show, remark)

    def _tell_notices(self) -> None:
        for text in self._held.take_notices():
            self._tell(text)

    def _tell_title(self, title: str | None) -> None:
        if title and title != self._title:
            self._title = title
            self._client.show(TitleChosen(title))

    def _may_write(self) -> bool:
        return self.mode != "plan"

    def _is_own(self, question: Question) -> bool:
        session = self._held.session
        asked = () if session is None else session.questions
        return any(one.call.id == question.call.id for one in asked)


def _make_host(
    host: Host, folder: str, client: EditorClient, may_write: Callable[[], bool]
) -> Host:
    """The host of a session, with the files that the editor has, if it offers any."""
    if client.files is None:
        return host
    unsaved = UnsavedFiles(folder, client.files)
    return replace(
        host,
        wrap_tools=lambda tools: add_unsaved_files(tools, unsaved),
        wrap_provider=lambda provider: EditorProvider(provider, unsaved, may_write),
    )


def _read_compaction(blocks: Sequence[PromptBlock], commands: Sequence[ListedPrompt]) -> str | None:
    """What must not be forgotten, of a prompt that asks for a compaction; `None` for others."""
    if len(blocks) != 1 or not isinstance(blocks[0], PromptText):
        return None
    word, _, focus = blocks[0].text.strip().partition(" ")
    is_taken = any(one.prompt.name == COMPACT for one in commands)
    return focus.strip() if word == f"/{COMPACT}" and not is_taken else None
