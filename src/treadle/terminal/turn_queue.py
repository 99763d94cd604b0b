"""What was typed and not done yet, in its order, and the turns that come of it.

There is one order for prompts and for commands that wait. While a turn runs, the prompts at its
head are given to the session, which has them on disk; the first command ends that, so that a prompt
behind `/new` is said in the new thread. What was interrupted begins nothing by itself: what waits
goes on waiting until another prompt is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from treadle.errors import AgentError, StoreError
from treadle.terminal.ports import QueuedInput, TurnQueueEntry

if TYPE_CHECKING:
    from treadle.app.feature_tips import TipChooser
    from treadle.app.sessions.open_threads import Session
    from treadle.errors import TreadleError
    from treadle.outputs import Output, TurnFinished
    from treadle.terminal.chat_session import ChatOptions, ChatSession
    from treadle.terminal.ports import Terminal
    from treadle.terminal.view import ChatView
    from treadle.thread.facts import CommandShown

IDLE_S: Final = 60.0
"""Seconds after which a person who says nothing counts as one who does not look."""


class ChatHost(Protocol):
    """What turns ask of their chat, see `chat.Chat`."""

    terminal: Terminal
    view: ChatView
    sessions: ChatSession
    options: ChatOptions
    is_leaving: bool

    @property
    def is_at_work(self) -> bool: ...  # noqa: D102

    @property
    def folder(self) -> str: ...  # noqa: D102

    def start_work(self, work: Coroutine[Any, Any, None]) -> None: ...  # noqa: D102

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None: ...  # noqa: D102

    async def run_guarded(  # noqa: D102
        self, work: Awaitable[None], *, is_aside: bool = False
    ) -> None: ...

    def interrupt(self) -> bool: ...  # noqa: D102

    async def open(self) -> Session | None: ...  # noqa: D102

    async def offer_plan(self) -> str | None: ...  # noqa: D102

    def notify(self, text: str, style: str = "dim") -> None: ...  # noqa: D102

    def show_error(self, error: TreadleError) -> None: ...  # noqa: D102


class TurnQueue:
    """The order of what waits, for one chat.

    `is_at_turn` tells whether the session is at work; what is else at work can only be cancelled.
    """

    def __init__(self, chat: ChatHost) -> None:
        self._chat = chat
        self._waiting: list[TurnQueueEntry] = []
        self._in_hand: TurnQueueEntry | None = None
        """The prompt that is to begin a turn, and is not on disk."""
        self._fed: TurnQueueEntry | None = None
        """The prompt that a hook hears while a turn runs."""
        self._feeding: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._is_held = False
        self._is_hold_told = False
        self._shown: list[tuple[str, str, int]] = []
        """Commands of the person, with output and exit code, from before there was a thread."""
        self.is_at_turn = False
        self._tips: TipChooser | None = None

    # ---- what waits ----------------------------------------------------------------------------

    def add_prompt(self, text: str, *, steers: bool) -> None:
        """Say it when its turn comes, or at once."""
        self._is_held = False
        # One that does not come into the turn that is running now steers none.
        steers = steers and self.is_at_turn and not any(one.work for one in self._waiting)
        self._waiting.append(TurnQueueEntry(text, steers))
        self._start_delivery()
        self.start_next()
        self.show_queue()

    def add_command(self, typed: TurnQueueEntry) -> None:
        """Run it when its turn comes; at once if nothing is at work."""
        assert typed.work is not None
        if not self._chat.is_at_work:
            self._chat.start_work(typed.work())
        else:
            self._waiting.append(typed)
        self.show_queue()

    def take_back(self) -> None:
        """The newest goes back into the input. What a hook hears is not said then."""
        chat = self._chat
        session = chat.sessions.session
        if self._waiting:
            typed = self._waiting.pop()
            typed.dropped()
            chat.terminal.fill(typed.text)
        elif self._feeding is not None:
            self._feeding.cancel()
        elif self._in_hand is not None and not self.is_at_turn:
            chat.interrupt()
        elif session is not None:
            try:
                text = session.withdraw_input()
            except StoreError as error:
                chat.show_error(error)
                return
            if text is not None:
                chat.terminal.fill(text)
        self.show_queue()

    def show_queue(self) -> None:
        """Show what waits: what the session has, and what it has not."""
        chat = self._chat
        session = chat.sessions.session
        kept = () if session is None else session.queued_inputs
        # A plain terminal has said it when it was typed; it is told of what has to wait alone.
        in_hand = None if chat.terminal.is_plain else self._in_hand
        ours = [typed for typed in (in_hand, self._fed, *self._waiting) if typed is not None]
        chat.terminal.show_queue(
            [
                *(QueuedInput(*one) for one in kept),
                *(QueuedInput(one.text, one.steers, is_sent=one.work is not None) for one in ours),
            ]
        )

    def go_on(self) -> None:
        """Something was said on a page that only a turn can act on: begin one, if none runs."""
        self._is_held = False
        if not self._chat.is_at_work and not self._chat.is_leaving:
            self._chat.start_work(self._resume_turns())

    async def _resume_turns(self) -> None:
        session = self._chat.sessions.session
        if session is not None:
            await self.run_turn(session, session.resume())
            await self._run_turns()

    def pause(self) -> None:
        """Something was interrupted, or failed: nothing begins by itself."""
        self._is_held, self._is_hold_told = True, False

    def start_next(self) -> None:
        """Begin what comes next, unless something is at work or it is held."""
        chat = self._chat
        if chat.is_at_work or chat.is_leaving:
            return
        session = chat.sessions.session
        has_kept = session is not None and bool(session.queued_inputs)
        if self._is_held:
            if (self._waiting or has_kept) and not self._is_hold_told:
                self._is_hold_told = True
                chat.notify("what is queued waits for your next prompt; Up takes it back", "warn")
            return
        if has_kept:
            chat.start_work(self._run_turns())
        elif self._waiting:
            first = self._waiting.pop(0)
            if first.work is not None:
                chat.start_work(first.work())
                self.show_queue()
            else:
                self._in_hand = first
                chat.start_work(self._run_turns())

    # ---- giving it to the session --------------------------------------------------------------

    def _start_delivery(self) -> None:
        """While the session is at work, have it keep the prompts before the first command."""
        if not self.is_at_turn or self._feeding is not None or not self._has_prompt:
            return
        self._feeding = asyncio.ensure_future(
            self._chat.run_guarded(self._deliver_prompts(), is_aside=True)
        )
        self._feeding.add_done_callback(self._on_delivery_done)

    @property
    def _has_prompt(self) -> bool:
        return bool(self._waiting) and self._waiting[0].work is None

    async def _deliver_prompts(self) -> None:
        from treadle.app.sessions.prompt_text import prepare_prompt

        while self._has_prompt and not self._chat.is_leaving:
            self._fed = typed = self._waiting.pop(0)
            self.show_queue()
            try:
                session = self._chat.sessions.session
                setup = self._chat.sessions.setup
                assert session is not None
                assert setup is not None
                said = await prepare_prompt(setup, typed.text, has_drops=True)
                session.queue(said.text, said.attachments, said.seen, steers=typed.steers)
            except BaseException:
                self._chat.terminal.fill(typed.text)
                raise
            finally:
                self._fed = None
                self.show_queue()

    def _on_delivery_done(self, _: asyncio.Task[None]) -> None:
        self._feeding = None
        if not self._chat.is_leaving:
            self._start_delivery()

    async def stop_delivery(self) -> None:
        """What a hook hears is not said any more, and none hears that nobody says anything."""
        self._stop_idle_timer()
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait({self._feeding})

    # ---- turns ---------------------------------------------------------------------------------

    async def _run_turns(self) -> None:
        """Turns, until nothing waits that could begin one."""
        chat = self._chat
        try:
            while not chat.is_leaving:
                session = chat.sessions.session
                if self._in_hand is not None:
                    await self._run_current_prompt()
                elif session is not None and session.queued_inputs:
                    await self.run_turn(session, session.resume())
                elif self._waiting or (said := await chat.offer_plan()) is None:
                    return
                else:
                    self._in_hand = TurnQueueEntry(said)
                if self._is_held:
                    return
                session = chat.sessions.session
                if self._has_prompt and not (session is not None and session.queued_inputs):
                    self._in_hand = self._waiting.pop(0)
        except AgentError:
            raise  # a hook was against one prompt: the next ones may be said
        except BaseException:
            self.pause()
            raise
        finally:
            self._return_prompt()

    async def _run_current_prompt(self) -> None:
        from treadle.app.sessions.prompt_text import prepare_prompt

        assert self._in_hand is not None
        chat = self._chat
        session = await chat.open()
        if session is None:
            self.pause()
            self._return_prompt()
            return
        assert chat.sessions.setup is not None
        while self._shown:
            session.record_command_end(*self._shown[0])
            self._shown.pop(0)
        said = await prepare_prompt(chat.sessions.setup, self._in_hand.text, has_drops=True)
        if session.is_waiting and not session.queued_inputs:
            turn = session.turn(said.text, said.attachments, said.seen)
            await self.run_turn(session, turn)
            return
        session.queue(said.text, said.attachments, said.seen, steers=False)
        self._in_hand = None
        await self.run_turn(session, session.resume())

    async def offer_plan(self) -> None:
        """Ask about a plan that waits, and have it carried out; not after an interruption."""
        if not self._is_held:
            await self._run_turns()

    async def run_turn(
        self, session: Session, work: Coroutine[Any, Any, TurnFinished]
    ) -> TurnFinished:
        """Have the session work until it rests; hooks hear of that, and what waits goes to it."""
        from treadle.outputs import TurnOutcome

        chat = self._chat
        self.is_at_turn = True
        self._stop_idle_timer()
        try:
            # The prompt that begins the turn is taken before the first thing that is waited for.
            asyncio.get_running_loop().call_soon(self._start_delivery)
            finished = await work
        finally:
            self.is_at_turn = False
        chat.view.show(finished)
        if finished.outcome in (TurnOutcome.INTERRUPTED, TurnOutcome.CANCELLED):
            self.pause()
        if finished.outcome is TurnOutcome.INTERRUPTED and not chat.is_leaving:
            chat.notify("what is open stays open: it is taken up with your next prompt", "warn")
        if chat.sessions.setup is not None:
            await chat.sessions.setup.hooks.after_turn(finished)
        if self._feeding is not None:
            try:
                await asyncio.shield(self._feeding)
            except asyncio.CancelledError:
                await self.stop_delivery()
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
        await self._tell_tip(finished)
        self._stop_idle_timer()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._on_idle)
        return finished

    def _stop_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _on_idle(self) -> None:
        """Nobody has said anything since the last turn."""
        chat = self._chat
        if chat.sessions.setup is not None and not chat.is_at_work:
            chat.run_in_background(chat.sessions.setup.hooks.idle(chat.sessions.thread_id or ""))

    async def _tell_tip(self, finished: TurnFinished) -> None:
        """Teach what fits a turn that went well, and that its person has not used."""
        from treadle.outputs import TurnOutcome

        if self._tips is not None and finished.outcome is TurnOutcome.DONE:
            tip = await asyncio.to_thread(self._tips.choose)
            if tip and not self._chat.is_leaving:
                self._chat.notify(f"tip: {tip}")

    def observe_output(self, output: Output) -> None:
        """What the session tells: the prompt that began the turn is on disk, or a tip may fit."""
        from treadle.outputs import TextDelta, ThinkingDelta, TurnStarted

        sessions = self._chat.sessions
        if self._tips is None and sessions.setup is not None and not self._chat.options.quiet:
            from treadle.app.feature_tips import TipChooser

            self._tips = TipChooser(sessions.setup.store.places)
        if self._tips is not None and not isinstance(output, TextDelta | ThinkingDelta):
            self._tips.observe(output)
        if isinstance(output, TurnStarted):
            self._in_hand = None

    def _return_prompt(self) -> None:
        """What could not be said stands in the input again."""
        if self._in_hand is not None:
            typed, self._in_hand = self._in_hand, None
            with suppress(OSError):
                self._chat.terminal.fill(typed.text)

    @property
    def unrecorded_commands(self) -> list[CommandShown]:
        """Commands of the person that have ended before there was a thread."""
        from treadle.thread.facts import CommandShown

        return [CommandShown(*one) for one in self._shown]

    async def record_command_start(self, command: str) -> str | None:
        """A command of the person is about to begin: its id, once that is on disk.

        Empty if there is no thread yet; `None` if the thread stays with another process: it must
        not begin then.
        """
        if self._chat.sessions.thread_id is None:
            return ""
        session = await self._chat.open()
        return None if session is None else session.record_command_start(command, self._chat.folder)

    async def record_command_end(
        self, command: str, command_id: str, output: str, exit_code: int
    ) -> None:
        """It has ended: the agent is shown it with the next prompt."""
        if self._chat.sessions.thread_id is None:
            self._shown.append((command, output, exit_code))
        elif (session := await self._chat.open()) is not None:
            session.record_command_end(command, output, exit_code, command_id)
