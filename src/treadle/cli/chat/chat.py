"""The chat: turns keys into work on a session, and what the session tells into blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from treadle.cli.chat.approvals import Approvals
from treadle.cli.chat.facts import Standing, look
from treadle.cli.chat.modes import Modes
from treadle.cli.chat.ports import Choice, Facts, Queued, SlashCommand, Terminal
from treadle.cli.chat.sessions import ChatOptions, People, Sessions
from treadle.cli.chat.telling import words
from treadle.errors import StoreError, ThreadBusyError, TreadleError

if TYPE_CHECKING:
    from treadle.cli.chat.view import ChatView
    from treadle.core.approval import Question
    from treadle.core.messages import ToolCall
    from treadle.runtime.outputs import Output, TurnFinished
    from treadle.runtime.recovery import Answer
    from treadle.runtime.verdict import Verdict

AGAIN_S: Final = 2.0
"""Seconds within which a second signal means that the person wants to leave."""


class Chat:
    """One chat, from its first drawing to its end; it is the `Keys` of its terminal.

    Args:
        options: what was chosen on the command line.

    `attach` gives it a terminal and a view before anything else is asked of it. `code` is the exit
    code that a signal asks for.
    """

    terminal: Terminal
    view: ChatView
    modes: Modes
    _approvals: Approvals

    def __init__(self, options: ChatOptions) -> None:
        people = People(self._show, self._approve, self._ask, self.tell)
        self.options = options
        self.sessions = Sessions(options, people)
        self.commands: tuple[SlashCommand, ...] = ()
        self.code = 0
        self.standing = Standing()
        self._work: asyncio.Task[None] | None = None
        self._is_turn = False
        self._asides: set[asyncio.Task[None]] = set()
        self._early: list[Queued] = []
        """Prompts that no session has taken yet."""
        self._untold: list[tuple[str, str]] = []
        """Lines for the person from before there was a screen."""
        self._is_attached = False
        self._deferred: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Commands that were typed while something else was at work."""
        self._bug: BaseException | None = None
        self._is_leaving = False
        self._signalled_at = -AGAIN_S

    def attach(self, terminal: Terminal, view: ChatView) -> None:
        """Give it a keyboard and a screen."""
        self.terminal, self.view = terminal, view
        terminal.keeps_history = not self.sessions.is_private
        self._is_attached = True
        for text, style in self._untold:
            self.tell(text, style)
        self._untold.clear()
        self._approvals = Approvals(
            terminal, view.question_block, self._questions, self._leave_open
        )
        self.modes = Modes(
            self.sessions,
            terminal,
            self._approvals,
            self._mode_changed,
            may_auto=self.options.approval_mode == "auto",
        )

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Hear the keyboard until the end; the thread is settled and free then.

        Args:
            begin: what is done beside the first drawing.

        Raises:
            Exception: a mistake of this program, after all was settled.
        """
        self.begin(begin())
        try:
            await self.terminal.run(self)
        finally:
            self._is_leaving = True
            await self._settle()
        if self._bug is not None:
            raise self._bug

    # ---- the keyboard --------------------------------------------------------------------------

    def submit(self, text: str, *, steers: bool) -> None:
        """See `Keys`."""
        text = text.strip()
        if not text or self._is_leaving:
            return
        head = text.split(maxsplit=1)[0]
        if text.startswith("!") and text[1:].strip():
            self._begin_at_rest(text, lambda: self._run_shell(text[1:].strip()))
        elif text.startswith("/") and "/" not in head[1:]:
            self._command(text)
        else:
            self._prompt(text, steers=steers)

    def interrupt(self) -> bool:
        """See `Keys`. A question that is being asked stays open, on disk."""
        if self._work is None:
            return False
        session = self.sessions.session
        if self._is_turn and session is not None:
            if self._approvals.is_asking:
                self._leave_open()
            else:
                session.cancel()
        else:
            self._work.cancel()
        return True

    def rewind(self) -> None:
        """See `Keys`."""
        self._command("/rewind")

    def cycle_mode(self) -> None:
        """See `Keys`."""
        self.aside(self.modes.cycle())

    def expand(self) -> None:
        """See `Keys`."""
        block = self.view.expand()
        if block is not None:
            self.terminal.commit(block)

    def take_back(self) -> None:
        """See `Keys`."""
        if self._early:
            self.terminal.fill(self._early.pop().text)
        elif (session := self.sessions.session) is not None:
            try:
                text = session.take_back()
            except StoreError as error:
                self.fail(error)
                return
            if text is not None:
                self.terminal.fill(text)
        self._show_queue()

    def leave(self) -> None:
        """See `Keys`."""
        if not self._is_leaving:
            self._is_leaving = True
            self._stop_work()
            self.terminal.stop()

    def signalled(self) -> None:
        """SIGINT from outside: as Ctrl+C. While a command has the screen, it is the command's."""
        if getattr(self.terminal, "is_away", False):
            return
        now = time.monotonic()
        if not self.interrupt() and now - self._signalled_at < AGAIN_S:
            self.leave()
        self._signalled_at = now

    def end(self, code: int) -> None:
        """SIGTERM or SIGHUP: what runs stays unfinished on disk, to be resumed."""
        self.code = code
        self.leave()

    # ---- what is told --------------------------------------------------------------------------

    def tell(self, text: str, style: str = "dim") -> None:
        """A line for the person."""
        if self._is_attached:
            self.terminal.commit(words(text, style))
        else:
            self._untold.append((text, style))

    def fail(self, error: TreadleError) -> None:
        """What went wrong, and what to do."""
        self.tell(error.message, "bad")
        if error.hint:
            self.tell(error.hint)

    def show_facts(self) -> None:
        """Have the status line tell what holds now; the repository is looked at beside that."""
        self._show_facts()
        self.aside(self._look())

    def _show_facts(self) -> None:
        sessions, standing = self.sessions, self.standing
        session = sessions.session
        usage = None if session is None else session.usage
        self.terminal.keeps_history = not sessions.is_private
        self.terminal.show_facts(
            Facts(
                model=sessions.model,
                mode=sessions.mode,
                branch=standing.branch,
                is_dirty=standing.is_dirty,
                context_share=None if session is None else session.context_share,
                tokens=0 if usage is None else usage.input_tokens + usage.output_tokens,
                cost_usd=None if usage is None else usage.cost_usd,
                sync=standing.sync,
                is_private=sessions.is_private,
                sandbox=sessions.sandbox,
            )
        )

    def _mode_changed(self, mode: str) -> None:
        self._show_facts()
        if self.terminal.is_plain:
            self.tell(f"approval mode {mode}")

    async def _look(self) -> None:
        self.standing = await look(self.sessions)
        self._show_facts()

    def _show(self, output: Output) -> None:
        """What the session tells, as it happens."""
        from treadle.runtime.outputs import TextDelta, ThinkingDelta, ToolProgressed

        self.view.show(output)
        if not isinstance(output, TextDelta | ThinkingDelta | ToolProgressed):
            self._show_queue()
            self._show_facts()

    def _show_queue(self) -> None:
        session = self.sessions.session
        queued = () if session is None else session.queued
        self.terminal.show_queue([*(Queued(*one) for one in queued), *self._early])

    # ---- work ----------------------------------------------------------------------------------

    @property
    def is_at_work(self) -> bool:
        """Whether a turn or a command is running."""
        return self._work is not None

    def begin(self, work: Coroutine[Any, Any, None], *, is_turn: bool = False) -> None:
        """Do what nothing else may run beside."""
        assert self._work is None
        self._is_turn = is_turn
        self._work = asyncio.ensure_future(self._guarded(work))
        self._work.add_done_callback(self._over)

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside whatever else runs."""
        if self._is_leaving:
            work.close()
            return
        task = asyncio.ensure_future(self._guarded(work))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Whatever it raises, the person is told, and the chat goes on if it can."""
        try:
            await work
        except StoreError as error:
            self.fail(error)
            await self.sessions.reopen()
        except TreadleError as error:
            self.fail(error)
        except OSError as error:
            self.tell(str(error), "bad")
        except EOFError:
            self.leave()
        except Exception as error:  # noqa: BLE001  raised by `run`, when all is settled
            self._bug = error
            self.leave()

    def _over(self, _: asyncio.Task[None]) -> None:
        """What was at work is done: what was said meanwhile is next."""
        self._work = None
        if self._is_leaving:
            return
        self._show_queue()
        self.show_facts()
        if self._deferred:
            self.begin(self._deferred.pop(0)())
        elif self._early:
            self.begin(self._turns(), is_turn=True)

    def _begin_at_rest(self, text: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._work is None:
            self.begin(work())
            return
        self._deferred.append(work)
        if self._is_turn:
            self.tell(f"when the turn is over, which Esc ends: {text}")

    def _stop_work(self) -> None:
        session = self.sessions.session
        if self._is_turn and session is not None:
            session.interrupt()
        elif self._work is not None:
            self._work.cancel()

    async def _settle(self) -> None:
        """Bring what runs to its end, close the session."""
        self._stop_work()
        while self._work is not None:
            await asyncio.wait({self._work})
            await asyncio.sleep(0)  # its callback
        for task in self._asides:
            task.cancel()
        await asyncio.gather(*self._asides, return_exceptions=True)
        await self.sessions.let_go()

    # ---- turns ---------------------------------------------------------------------------------

    def _prompt(self, text: str, *, steers: bool) -> None:
        session = self.sessions.session
        if self._is_turn and self._work is not None and session is not None and not self._early:
            try:
                session.queue(text, steers=steers)
            except TreadleError as error:
                self.fail(error)
                self.terminal.fill(text)
        else:
            self._early.append(Queued(text, steers))
        self._show_queue()
        if self._work is None:
            self.begin(self._turns(), is_turn=True)

    async def _turns(self) -> None:
        """Say what was typed; what is typed from here on is queued in the session."""
        while self._early and not self._is_leaving:
            said = self._early[0]
            try:
                session = await self.open()
                if session is None:
                    return
                assert self.sessions.setup is not None
                hooks = self.sessions.setup.hooks
                text = await hooks.heard(said.text)
            except TreadleError:
                self._give_back()
                raise
            self._early.pop(0)
            finished = await session.turn(text)
            self._finish(finished)
            await hooks.after_turn(finished)

    def _give_back(self) -> None:
        """What could not be said stands in the input again."""
        self.terminal.fill("\n".join(one.text for one in self._early))
        self._early.clear()

    def _finish(self, finished: TurnFinished) -> None:
        from treadle.runtime.outputs import TurnOutcome

        self.view.show(finished)
        if finished.outcome is TurnOutcome.INTERRUPTED and not self._is_leaving:
            self.tell("what is open stays open: it is taken up with your next prompt", "warn")

    async def open(self) -> Any:
        """The session; `None` if another process has the thread, and the person left it there."""
        try:
            return await self.sessions.open()
        except ThreadBusyError as busy:
            return await self._elsewhere(busy)

    async def _elsewhere(self, busy: ThreadBusyError) -> Any:
        """What a person does about a thread that another process has open."""
        choices = [
            Choice("w", "watch it"),
            Choice("f", "fork it, and go on there"),
            Choice("n", "nothing"),
        ]
        key = await self.terminal.choose(words(busy.message, "warn"), choices)
        if key == "f":
            await self.fork(busy.thread_id)
            return await self.sessions.open()
        self._give_back()
        if key == "w":
            await self.outside("watch", busy.thread_id)
        return None

    async def resume(self) -> None:
        """Take up what was left unfinished in the thread at hand, if anything was."""
        self._is_turn = True
        session = await self.open()
        if session is None or session.is_waiting:
            return
        self.tell("going on with what was left unfinished")
        finished = await session.resume()
        self._finish(finished)

    async def compact(self, focus: str) -> None:
        """Have a summary stand for the conversation so far."""
        self._is_turn = True
        session = await self.open()
        if session is not None:
            self._finish(await session.compact(focus))

    async def fork(self, thread_id: str) -> None:
        """Go on in a fork of a thread, from where nothing was under way."""
        from treadle.cli.busy import begin_fork
        from treadle.runtime.own import own_store

        await self.sessions.let_go()
        fork, told = await asyncio.to_thread(begin_fork, own_store("treadle"), thread_id)
        self.tell(told)
        await self.switch(fork)

    async def switch(self, thread: str | None) -> None:
        """Leave the thread at hand for another one; `None` for a new one.

        Raises:
            UsageError: as `Sessions.switch`.
            StoreError: likewise.
        """
        self.view.close()
        await self.sessions.switch(thread)

    # ---- questions -----------------------------------------------------------------------------

    def _questions(self) -> tuple[Question, ...]:
        session = self.sessions.session
        return () if session is None else session.questions

    def _leave_open(self) -> None:
        if (session := self.sessions.session) is not None:
            session.interrupt()

    async def _approve(self, question: Question) -> Verdict:
        try:
            return await self._approvals.approve(question)
        except EOFError:
            self.leave()
            raise

    async def _ask(self, call: ToolCall) -> Answer:
        try:
            return await self._approvals.ask(call)
        except EOFError:
            self.leave()
            raise

    # ---- commands ------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        name, _, rest = text[1:].partition(" ")
        found = next((one for one in self.commands if one.name == name), None)
        if found is None:
            from treadle.models.catalog import nearest

            advice = nearest(f"/{name}", [f"/{one.name}" for one in self.commands])
            self.tell(f"there is no /{name}{advice}; /help lists what there is", "warn")
        elif found.needs_rest:
            self._begin_at_rest(text, lambda: _run(found, rest.strip()))
        else:
            self.aside(_run(found, rest.strip()))

    async def outside(self, *arguments: str, lets_go: bool = False) -> int:
        """Run a command of the command line, with the screen to itself; its exit code.

        Args:
            *arguments: the command and its arguments.
            lets_go: whether it needs the thread, which is let go for it.
        """
        from treadle.cli.chat.outside import run

        had_session = self.sessions.session is not None
        if lets_go:
            await self.sessions.let_go()
        code = await self.terminal.away(lambda: run(arguments, self.sessions.folder))
        if lets_go and had_session:
            await self.open()
        return code

    async def _run_shell(self, command: str) -> None:
        from treadle.cli.chat.shell import run_shell

        folder = self.sessions.folder or self.options.cwd or "."
        output, exit_code = await run_shell(command, folder, self.view)
        session = await self.open()
        if session is not None:
            session.show_command(command, output, exit_code)


async def _run(command: SlashCommand, rest: str) -> None:
    await command.run(rest)
