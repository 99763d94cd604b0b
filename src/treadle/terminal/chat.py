"""The chat: turns keys into work on a session, and what the session tells into blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from treadle.errors import MissingModelError, StoreError, ThreadBusyError, TreadleError
from treadle.terminal.approval_modes import ApprovalModeSwitch
from treadle.terminal.approvals import ApprovalContext, ApprovalDialogs
from treadle.terminal.chat_session import ChatCallbacks, ChatOptions, ChatSession
from treadle.terminal.notices import shorten_ids, styled_text
from treadle.terminal.ports import DialogChoice, StatusFields, Terminal, TurnQueueEntry
from treadle.terminal.slash_commands import SlashCommands
from treadle.terminal.thread_transcript import TranscriptReader
from treadle.terminal.turn_queue import TurnQueue

if TYPE_CHECKING:
    from treadle.answers import Answer, Verdict
    from treadle.app.sessions.open_threads import Session
    from treadle.app.sessions.prompt_files import PromptFileList
    from treadle.app.sessions.session_status import SessionStatus
    from treadle.app.threads.transcript import Transcript
    from treadle.core.approval import Question
    from treadle.outputs import Output
    from treadle.terminal.view import ChatView

SECOND_SIGNAL_S: Final = 2.0
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
    modes: ApprovalModeSwitch
    _approvals: ApprovalDialogs

    def __init__(self, options: ChatOptions) -> None:
        self.turns = TurnQueue(self)
        people = ChatCallbacks(
            *(self._on_output, self._approve, self._ask, self.notify, self.set_prompts),
            self._find_model,
            lambda one: self._approvals.answer_server(one),  # noqa: PLW0108  it comes later
            self.turns.go_on,
        )
        self.options = options
        self.sessions = ChatSession(options, people)
        self.slash_commands = SlashCommands(self)
        self.code = 0
        self.status: SessionStatus | None = None
        self._work: asyncio.Task[None] | None = None
        self._asides: set[asyncio.Task[None]] = set()
        self._transcripts = TranscriptReader(self.show_error)
        self._untold: list[tuple[str, str]] = []
        """Lines for the person from before there was a screen."""
        self._is_attached = self._has_vim_keys = self._is_silent = self.is_leaving = False
        self._switching_count = 0
        """Commands, run or waiting, that may end in a private thread."""
        self._bug: BaseException | None = None
        self._signalled_at = -SECOND_SIGNAL_S

    def attach(self, terminal: Terminal, view: ChatView) -> None:
        """Give it a keyboard and a screen."""
        self.terminal, self.view = terminal, view
        self._update_history_setting()
        self._is_attached = True
        for text, style in self._untold:
            self.notify(text, style)
        self._untold.clear()
        context = ApprovalContext(
            self._questions,
            self._leave_open,
            self.leave,
            folder=lambda: self.sessions.folder,
            thread=lambda: self.sessions.thread_id or "",
            mode=lambda: self.sessions.mode,
        )
        self._approvals = ApprovalDialogs(
            terminal,
            view.preview_diff,
            context,
            lambda is_waiting: view.pause(is_waiting=is_waiting),
        )
        self.modes = ApprovalModeSwitch(
            self.sessions,
            terminal,
            self._approvals,
            self._on_mode_change,
            may_auto=self.options.approval_mode == "auto",
        )

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Hear the keyboard until the end; the thread is settled and free then.

        Args:
            begin: what is done beside the first drawing.

        Raises:
            Exception: a mistake of this program, after all was settled.
        """
        self.start_work(begin())
        if self.options.prompt is not None:  # before what is typed meanwhile
            self.submit(self.options.prompt, steers=False)
        try:
            await self.terminal.run(self)
        finally:
            self.is_leaving = True
            await self._settle()
        if self._bug is not None:
            raise self._bug

    # ---- the keyboard --------------------------------------------------------------------------

    def submit(self, text: str, *, steers: bool) -> None:
        """See `Keys`."""
        text = text.strip()
        if not text or self.is_leaving:
            return
        head = text.split(maxsplit=1)[0]
        if text.startswith("!"):
            command = text[1:].strip()
            self.turns.add_command(TurnQueueEntry(text, work=lambda: self._run_shell(command)))
        elif text.startswith("/") and "/" not in head[1:]:
            self.slash_commands.run(text, steers=steers)
        else:
            self.turns.add_prompt(text, steers=steers)

    def interrupt(self) -> bool:
        """See `Keys`. A question that is being asked stays open, on disk."""
        if self._work is None:
            return False
        self.turns.pause()
        session = self.sessions.session
        if self.turns.is_at_turn and session is not None:
            if self._approvals.is_asking:
                self._leave_open()
            else:
                session.cancel()
        else:
            self._work.cancel()
        return True

    def rewind(self) -> None:
        """See `Keys`."""
        self.slash_commands.run("/rewind", steers=False)

    def cycle_mode(self) -> None:
        """See `Keys`."""
        self.run_in_background(self.modes.cycle())

    async def read_transcript(self, *, only_news: bool = False) -> Transcript | None:
        """See `Keys`."""
        commands = self.turns.unrecorded_commands
        return await self._transcripts.read(self.sessions, commands, only_news=only_news)

    def take_back(self) -> None:
        """See `Keys`."""
        self.turns.take_back()

    def leave(self) -> None:
        """See `Keys`."""
        if not self.is_leaving:
            self.is_leaving = True
            self._stop_work()
            self.terminal.stop()

    def on_sigint(self) -> None:
        """SIGINT from outside: as Ctrl+C. While a command has the screen, it is the command's."""
        if getattr(self.terminal, "is_away", False):
            return
        now = time.monotonic()
        if not self.interrupt() and now - self._signalled_at < SECOND_SIGNAL_S:
            self.leave()
        self._signalled_at = now

    def on_exit_signal(self, code: int) -> None:
        """SIGTERM or SIGHUP: what runs stays unfinished on disk, to be resumed."""
        from treadle.terminal.external_programs import terminate_all

        self.code = code
        terminate_all()
        self.leave()

    async def find_prompts(self) -> None:
        """Wait until the skills and commands are known that hold here. Raises as `prepare`."""
        await self.sessions.ensure_prepared()

    def set_prompts(self, listed: PromptFileList) -> None:
        """These skills and commands were found in files; servers may have said their prompts."""
        self.slash_commands.set_prompts(listed, self.sessions.setup)
        if self._is_attached:
            self.slash_commands.complete_in(self.terminal)

    # ---- what is told --------------------------------------------------------------------------

    def notify(self, text: str, style: str = "dim") -> None:
        """A line for the person, in which ids of threads are short."""
        if self._is_attached:
            self.terminal.commit(styled_text(shorten_ids(self.sessions.setup, text), style))
        else:
            self._untold.append((text, style))

    def show_error(self, error: TreadleError) -> None:
        """What went wrong, and what to do."""
        self.notify(error.message, "bad")
        if error.hint:
            self.notify(error.hint)

    def refresh_status(self) -> None:
        """Have the status line tell what holds now; the repository is looked at beside that."""
        self._show_status()
        self.run_in_background(self._read_status())

    def _show_status(self) -> None:
        sessions, status = self.sessions, self.status
        session = sessions.session
        usage = None if session is None else session.usage
        self._update_history_setting()
        if sessions.setup is not None:
            settings = sessions.setup.loaded.settings
            self._has_vim_keys, self._is_silent = settings.keys == "vim", not settings.notify
        self.terminal.show_status(
            StatusFields(
                model=sessions.model,
                mode=sessions.mode,
                branch=status.branch if status else "",
                is_dirty=status is not None and status.is_dirty,
                context=(0, 0) if session is None else session.context_tokens,
                sums=(0, 0) if usage is None else (usage.total_tokens, usage.cache_read_tokens),
                cost_usd=None if usage is None else usage.cost_usd,
                sync=status.sync if status else "",
                is_private=sessions.is_private,
                sandbox=sessions.sandbox,
                has_vim_keys=self._has_vim_keys,
                notifies=not self._is_silent,
                remote="" if sessions.is_private else sessions.remote,
            )
        )

    def _update_history_setting(self) -> None:
        """What is typed is kept, unless it may be for a private thread."""
        is_known = not self._switching_count and not self.sessions.is_switching
        self.terminal.keeps_history = is_known and not self.sessions.is_private

    def _on_mode_change(self, mode: str) -> None:
        self._show_status()
        if self.terminal.is_plain:
            self.notify(f"approval mode {mode}")

    async def _read_status(self) -> None:
        from treadle.app.sessions.session_status import read_status

        sessions = self.sessions
        if sessions.setup is None:
            self.status = None
        else:
            thread = None if sessions.is_private else sessions.thread_id
            self.status = await read_status(sessions.setup.store, thread, sessions.folder)
        self._show_status()

    def _on_output(self, output: Output) -> None:
        """What the session tells, as it happens."""
        from treadle.outputs import TextDelta, ThinkingDelta, ToolProgressed

        self.turns.observe_output(output)
        self.view.show(output)
        if not isinstance(output, TextDelta | ThinkingDelta | ToolProgressed):
            self.turns.show_queue()
            self._show_status()

    # ---- work ----------------------------------------------------------------------------------

    @property
    def is_at_work(self) -> bool:
        """Whether a turn or a command is running."""
        return self._work is not None

    @property
    def folder(self) -> str:
        """Where the person's own commands run."""
        return self.sessions.folder or self.options.cwd or "."

    def start_work(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what nothing else may run beside."""
        assert self._work is None
        self._work = asyncio.ensure_future(self.run_guarded(work))
        self._work.add_done_callback(self._on_work_done)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside whatever else runs."""
        if self.is_leaving:
            work.close()
            return
        task = asyncio.ensure_future(self.run_guarded(work, is_aside=True))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def run_guarded(self, work: Awaitable[None], *, is_aside: bool = False) -> None:
        """Whatever it raises, the person is told, and the chat goes on if it can."""
        try:
            await work
        except StoreError as error:
            self.show_error(error)
            if is_aside:  # a turn may be running, which has the session
                self.sessions.mark_suspect()
            else:
                await self.sessions.close_after_failure()
        except TreadleError as error:
            self.show_error(error)
        except OSError as error:
            self.notify(str(error), "bad")
        except EOFError:
            self.leave()
        except Exception as error:  # noqa: BLE001  raised by `run`, when all is settled
            self._bug = error
            self.leave()

    def _on_work_done(self, _: asyncio.Task[None]) -> None:
        """What was at work is done: what was said meanwhile is next."""
        self._work = None
        if self.is_leaving:
            return
        self.turns.show_queue()
        self.refresh_status()
        self.turns.start_next()

    def _stop_work(self) -> None:
        session = self.sessions.session
        if self.turns.is_at_turn and session is not None:
            session.driver.interrupt()
        elif self._work is not None:
            self._work.cancel()

    async def _settle(self) -> None:
        """Bring what runs to its end, close the session."""
        self._stop_work()
        while self._work is not None:
            await asyncio.wait({self._work})
            await asyncio.sleep(0)  # its callback
        await self.turns.stop_delivery()
        for task in self._asides:
            task.cancel()
        await asyncio.gather(*self._asides, return_exceptions=True)
        await self.sessions.end()

    # ---- threads -------------------------------------------------------------------------------

    async def open(self) -> Session | None:
        """The session; `None` if another process has the thread, and the person left it there."""
        try:
            return await self.sessions.open()
        except ThreadBusyError as busy:
            return await self._handle_busy_thread(busy)

    async def _handle_busy_thread(self, busy: ThreadBusyError) -> Session | None:
        """What a person does about a thread that another process has open."""
        choices = [
            DialogChoice("w", "watch it"),
            DialogChoice("f", "fork it, and go on there"),
            DialogChoice("n", "nothing"),
        ]
        self.notify(busy.message, "warn")
        key = await self.terminal.choose(styled_text("What now?", "bold"), choices)
        if key == "f":
            await self.fork(busy.thread_id)
            return await self.sessions.open()
        if key == "w":
            await self.run_cli_command("watch", busy.thread_id)
        return None

    async def resume(self) -> None:
        """Take up what was left unfinished in the thread at hand, if anything was."""
        from treadle.exchange.record_text import describe_record

        session = await self.open()
        if session is None:
            return
        for begun in session.unfinished_commands:
            if (told := describe_record(begun)) is not None:
                self.notify(told.text, "warn")
        if session.is_waiting:
            if session.queued_inputs:  # it was left there
                self.turns.pause()
        else:
            self.notify("going on with what was left unfinished")
            await self.turns.run_turn(session, session.resume())
        await self.turns.offer_plan()

    async def compact(self, focus: str) -> None:
        """Have a summary stand for the conversation so far."""
        session = await self.open()
        if session is not None:
            await self.turns.run_turn(session, session.compact(focus))

    async def offer_plan(self) -> str | None:
        """See `ApprovalModeSwitch.offer_to_leave_plan`."""
        return await self.modes.offer_to_leave_plan()

    async def fork(self, thread_id: str) -> None:
        """Go on in a fork of a thread, from where nothing was under way."""
        from treadle.app.stores import open_store
        from treadle.app.threads.forks import fork_at_rest

        await self.sessions.close()
        fork = await asyncio.to_thread(fork_at_rest, open_store("treadle"), thread_id)
        base = fork.base
        self.notify(f"{fork.thread} goes on from version {base.version} of {base.thread}")
        await self.switch(fork.thread)

    async def switch(self, thread: str | None) -> None:
        """Leave the thread at hand for another one; `None` for a new one.

        Raises:
            UsageError: as `ChatSession.switch`.
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
            session.driver.interrupt()

    async def _approve(self, question: Question) -> Verdict:
        return await self._approvals.approve(question)

    async def _ask(self, question: Question) -> Answer:
        return await self._approvals.ask(question)

    async def _find_model(self, missing: MissingModelError) -> str | None:
        from treadle.terminal.model_setup import find_model

        return await find_model(self, missing) if self._is_attached else None

    # ---- commands ------------------------------------------------------------------------------

    async def run_switch(self, work: Awaitable[None]) -> None:
        """Do what may end in another thread; nothing that is typed meanwhile is kept."""
        self.begin_switch()
        try:
            await work
        finally:
            self.end_switch()

    def begin_switch(self) -> None:
        """From here on it is not known whether what is typed is for a private thread."""
        self._switching_count += 1
        self._update_history_setting()

    def end_switch(self) -> None:
        """One who began a switch is done, or has thought better of it."""
        self._switching_count -= 1
        self._update_history_setting()

    async def run_cli_command(self, *arguments: str, lets_go: bool = False) -> int:
        """Run a command of the command line, with the screen to itself; its exit code.

        Args:
            *arguments: the command and its arguments.
            lets_go: whether it needs the thread, which is let go for it.
        """
        from treadle.terminal.external_programs import run_cli_command

        had_session = self.sessions.session is not None
        if lets_go:
            await self.sessions.close()
        code = await self.terminal.run_in_terminal(lambda: run_cli_command(arguments, self.folder))
        if lets_go and had_session:
            await self.open()
        return code

    async def _run_shell(self, command: str) -> None:
        from treadle.terminal.shell import check_command, find_shell, run_shell

        check_command(command)
        shell = find_shell()
        command_id = await self.turns.record_command_start(command)
        if command_id is None:
            self.notify("the command was not run", "warn")
            return
        record = partial(self.turns.record_command_end, command, command_id)
        await run_shell(shell, command, self.folder, self.view, record)
