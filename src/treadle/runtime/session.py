"""A conversation that is open for work: turns of a person and an agent, on one thread."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.approval import Decision, Question
from treadle.core.budget import TokenBudget
from treadle.core.compaction import find_cut_at_end
from treadle.core.config import AgentConfig
from treadle.core.events import CompactionRequested, ShutdownRequested, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Attachment, BlobRef, Message, SeenFile
from treadle.errors import UsageError
from treadle.outputs import Output, TurnFinished
from treadle.runtime.calls import cut_middle
from treadle.runtime.conversation_rules import ConversationRules, ObserveSituation
from treadle.runtime.driver import Driver
from treadle.runtime.inbox import Inbox
from treadle.runtime.options import DriverOptions, check_parts
from treadle.runtime.parts import make_journal, make_parts
from treadle.runtime.ports import Provider, Tools, Writer
from treadle.thread.document import ThreadMetadata
from treadle.thread.facts import (
    CommandBegun,
    CommandShown,
    InputQueued,
    InputWithdrawn,
    Renamed,
    RequestTaken,
)
from treadle.thread.record import replace_surrogates
from treadle.thread.typed_words import strip_additions

TITLE_WAIT_S_MAX: Final = 3.0
"""Seconds that the end of the first turn waits for its title, which is asked for at its start."""


class SessionOptions(Struct, frozen=True):
    """How turns of a conversation are bounded, and how it begins.

    `budget` is what one turn may use; looked at before each request. `titler` is asked for a title
    when the first prompt is said; without one, or until it answers, the title is the first line of
    that prompt. `first_prompt` is what stands as `make_first_input` in the first write of the
    thread, which this process has just made; `resume` answers it. `situation` says where and how
    the agent works: what has changed since the model was told is told with the next message.
    """

    budget: TokenBudget | None = None
    titler: Callable[[str], Awaitable[Renamed | None]] | None = None
    first_prompt: str | None = None
    situation: ObserveSituation | None = None


class Session:
    """A thread on which a person talks with an agent.

    What the thread's last process left unfinished is taken up by the first `turn` or `resume`.

    Args:
        writer: the thread, as `LocalStore.create` or `LocalStore.open` gives it.
        provider: who answers.
        tools: who runs calls.
        config: model, limits, prompt; `None` keeps what the thread has recorded. The definitions
            of the tools are put in here.
        options: who is asked and told, what is known of the folder, and all else that can be left
            out.
        turns: how turns are bounded, and how the thread gets its title.

    Raises:
        UsageError: what is given is no thread, no provider or no set of tools.
    """

    def __init__(
        self,
        writer: Writer,
        provider: Provider,
        tools: Tools,
        config: AgentConfig | None = None,
        options: DriverOptions = DriverOptions(),  # noqa: B008  it is frozen
        turns: SessionOptions = SessionOptions(),  # noqa: B008  it is frozen
    ) -> None:
        check_parts(writer, provider, tools)
        inbox = Inbox()
        self._journal = make_journal(writer, options, inbox)
        self._turns = turns
        is_new = turns.first_prompt is not None
        self._rules = ConversationRules(self._journal, turns.budget, turns.situation, is_new=is_new)
        parts = make_parts(self._journal, self._rules, inbox, provider, tools, options)
        self.driver = Driver(parts, config, options.live)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._journal.fold.is_idle

    async def turn(
        self,
        text: str,
        attachments: tuple[Attachment, ...] = (),
        seen: tuple[SeenFile, ...] = (),
    ) -> TurnFinished:
        """Say something and work until the agent waits again.

        If the thread was left busy, that is finished first. If a turn is running already, the
        input is queued, durably, and the running turn delivers it; this waits for it too.

        Args:
            text: what is said.
            attachments: what is shown besides; its bytes are kept already (`keep`).
            seen: the files of the workspace that stand in the text, as they stand there: the
                agent's tools count them as read.

        Raises:
            UsageError: there is nothing in the text.
            StoreError: the disk refused; this session is finished, what was acknowledged is safe.
        """
        message = _make_prompt(text, attachments, seen)
        if not self.driver.is_running:
            self.driver.background.settle()
            unheard = self._journal.fold.undelivered
            is_free = self.is_waiting and not unheard
            # The configuration of this process is recorded right before the message, if it is news.
            told = self._rules.add_context(message, self.driver.config) if is_free else message
            return await self._run_titled_turn(
                text, UserInput(told) if is_free else InputQueued(message)
            )
        self.driver.record(InputQueued(message))
        return await self.driver.wait()

    async def correct(self, note: str) -> TurnFinished:
        """Send the last answer back with a note, which is nobody's prompt. Raises as `turn`."""
        return await self.driver.run(UserInput(Message.note(note)))

    async def resume(self) -> TurnFinished:
        """See `Driver.resume`."""
        if self._turns.first_prompt is None or self.driver.is_running or self.driver.is_prepared:
            return await self.driver.resume()
        return await self._run_titled_turn(self._turns.first_prompt)

    def keep(self, data: bytes) -> BlobRef:
        """Keep bytes beside the thread, for an attachment of what is said next; durable then.

        Raises:
            DiskError: the disk refused; nothing else has changed.
        """
        return self._journal.writer.keep(data)

    def queue(
        self,
        text: str,
        attachments: tuple[Attachment, ...] = (),
        seen: tuple[SeenFile, ...] = (),
        *,
        steers: bool = False,
        taken: RequestTaken | None = None,
    ) -> None:
        """Have something heard later; it is durable when this returns.

        While a turn runs, what `steers` is heard before the turn's next request to the model, which
        is after the calls in flight; everything else, and what came too late for that, in turns of
        their own behind the running one, in order. If no turn runs, the next `turn` or `resume`
        delivers it first. A turn that is cancelled leaves it where it is. What was said elsewhere
        is recorded with who said it (`taken`).

        Raises:
            UsageError: there is nothing in the text.
            StoreError: as `turn`.
        """
        said = InputQueued(_make_prompt(text, attachments, seen), steers)
        self.driver.record(*([] if taken is None else [taken]), said)

    @property
    def queued_inputs(self) -> tuple[tuple[str, bool], ...]:
        """What waits to be heard, oldest first: what was typed, and whether it steers."""
        return tuple(
            (strip_additions(one.message.content), one.steers)
            for one in self._journal.fold.undelivered.queued
        )

    def withdraw_input(self) -> str | None:
        """Withdraw the newest that waits, and give what was typed; `None` if nothing waits.

        The model never sees it. It is durable when this returns.

        Raises:
            StoreError: as `turn`.
        """
        waiting = self.queued_inputs
        if not waiting:
            return None
        self.driver.record(InputWithdrawn())
        return waiting[-1][0]

    def record_command_start(self, command: str, folder: str) -> str:
        """Record that the person runs a command now; gives the id that `record_command_end` takes.

        It is durable when this returns: run it then. If nothing comes behind it, the next prompt
        tells the model that it had begun, and that its end is not known.

        Raises:
            StoreError: as `turn`; the command has not begun.
        """
        command, folder = (
            cut_middle((self._journal.redact or str)(replace_surrogates(text)))
            for text in (command, folder)
        )
        command_id = secrets.token_hex(4)
        self.driver.record(CommandBegun(command_id, command, folder))
        return command_id

    def record_command_end(
        self, command: str, output: str, exit_code: int = 0, command_id: str = ""
    ) -> None:
        """Record a command that the person ran; the model is told of it with the next prompt.

        Secrets are replaced, and a long output cut in the middle, as in that of a tool. It is
        durable when this returns, and nothing is said to the model before the person says more.

        Args:
            command: the command.
            output: what it printed.
            exit_code: how it ended.
            command_id: what `record_command_start` gave, if its beginning was recorded.

        Raises:
            StoreError: as `turn`.
        """
        redact = self._journal.redact or str
        command, output = (
            cut_middle(redact(replace_surrogates(text))) for text in (command, output)
        )
        self.driver.record(CommandShown(command, output, exit_code, command_id))

    @property
    def unfinished_commands(self) -> tuple[CommandBegun, ...]:
        """The person's commands whose end nobody knows, and of which the model was not told yet."""
        return self._journal.fold.undelivered.unfinished_commands

    @property
    def context_tokens(self) -> tuple[int, int]:
        """The tokens of its context that the model had used when it last answered, and all of them.

        Either is 0 where it is not known.
        """
        fold = self._journal.fold
        return fold.conversation.tokens, fold.machine.config.context_tokens_max or 0

    @property
    def usage(self) -> Usage:
        """What the whole thread has used."""
        return self._journal.fold.usage

    @property
    def turn_usage(self) -> Usage:
        """What the last turn has used, failed requests included."""
        return self._journal.fold.turn_usage

    @property
    def metadata(self) -> ThreadMetadata:
        """Title, tags and values as they are now."""
        return self._journal.fold.metadata

    @property
    def version(self) -> int:
        """The number of the last record."""
        return self._journal.fold.version

    async def _run_titled_turn(self, prompt: str, *said: UserInput | InputQueued) -> TurnFinished:
        """Run a turn; if it is the first one, have it named meanwhile."""
        fold, naming = self._journal.fold, None
        is_first = not (said and fold.conversation)
        if self._turns.titler is not None and is_first and not fold.metadata.title:
            redact = self._journal.redact or str
            naming = asyncio.ensure_future(self._turns.titler(redact(replace_surrogates(prompt))))
        try:
            finished = await self.driver.run(*said)
            if naming is not None:
                await asyncio.wait({naming}, timeout=TITLE_WAIT_S_MAX)
        finally:
            if naming is not None:
                naming.cancel()
        if naming is None or not naming.done() or naming.cancelled() or naming.exception():
            return finished
        if (renamed := naming.result()) is not None and self._journal.writer.is_usable:
            self._journal.stage(renamed)
            await self._journal.commit_beside()
            finished = replace(finished, version=fold.version, usage=fold.usage)
        return finished

    async def compact(self, focus: str = "") -> TurnFinished:
        """Have a summary stand for the conversation so far in what the model is shown.

        No message is lost. What was left unfinished is finished first.

        Args:
            focus: what must not be forgotten, in words.

        Raises:
            UsageError: there is nothing to compact, or a turn is running.
            StoreError: as `turn`.
        """
        if self.driver.is_running:
            raise UsageError("a turn is running", hint="compact when it is over")
        if not self.is_waiting:
            await self.driver.run()
        if not find_cut_at_end(self._journal.fold.conversation):
            raise UsageError("there is nothing to compact yet")
        return await self.driver.run(
            CompactionRequested(replace_surrogates(focus), self._journal.now())
        )

    def stream(self, text: str | None) -> AsyncGenerator[Output, None]:
        """`turn` (or `resume`, for `None`) as a stream of outputs, ending with `TurnFinished`."""
        return self.driver.stream(self.resume if text is None else lambda: self.turn(text))

    async def close(self) -> None:
        """Stop work, record what is known, write the snapshot, free the thread.

        A turn that was running stays unfinished on disk, to be resumed.
        """
        try:
            await self.driver.close()
        finally:
            self._journal.machine.handle_event(ShutdownRequested())

    # ---- what every driver does ----------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self.driver.thread_id

    @property
    def conversation(self) -> Sequence[Message]:
        """All messages so far."""
        return self.driver.conversation

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word; `decide` answers them."""
        return self.driver.questions

    async def decide(
        self,
        decisions: Mapping[str, Decision],
        *,
        grant: Sequence[str] = (),
        kinds: Mapping[str, Sequence[str]] | None = None,
    ) -> TurnFinished:
        """See `Driver.decide`."""
        return await self.driver.decide(decisions, grant=grant, kinds=kinds)

    def cancel(self, reason: str = "cancelled by the user") -> None:
        """End what is running; what is known is kept."""
        self.driver.cancel(reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def make_first_input(
    text: str, attachments: tuple[Attachment, ...] = (), seen: tuple[SeenFile, ...] = ()
) -> UserInput:
    """The first prompt of a thread, to be recorded in the write that makes it.

    Raises:
        UsageError: there is nothing in the text.
    """
    return UserInput(_make_prompt(text, attachments, seen))


def _make_prompt(
    text: str, attachments: tuple[Attachment, ...], seen: tuple[SeenFile, ...]
) -> Message:
    if not text.strip():
        raise UsageError("the prompt is empty", hint="say what the agent is to do")
    return Message.user(replace_surrogates(text), attachments, seen)
