"""A conversation that is open for work: turns of a person and an agent, on one thread."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import AgentAction, DisplayError, SendLlmRequest, Summarize
from treadle.core.budget import TokenBudget
from treadle.core.chat.states import Compacting, CompactionCause
from treadle.core.compaction import find_cut_at_end
from treadle.core.events import (
    CancelRequested,
    CompactionFailed,
    CompactionRequested,
    LlmEvent,
    ShutdownRequested,
    Steered,
    UserInput,
)
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.errors import UsageError
from treadle.outputs import Ending, Output, TurnFinished, TurnOutcome
from treadle.runtime.calls import cut_middle
from treadle.runtime.driver import Driver
from treadle.runtime.inbox import StopRequest
from treadle.thread.codec import Event
from treadle.thread.facts import CommandBegun, CommandShown, InputQueued, InputWithdrawn, Renamed
from treadle.thread.record import replace_surrogates
from treadle.thread.undelivered_input import append_commands, strip_commands

TITLE_WAIT_S_MAX: Final = 3.0
"""Seconds that the end of the first turn waits for its title, which is asked for at its start."""


class Session(Driver):
    """A thread on which a person talks with an agent.

    Args:
        *args: as `Driver`.
        budget: what one turn may use; looked at before each request. `None` is no bound.
        titler: asked for a title when the first prompt is said; without one, or until it answers,
            the title is the first line of that prompt.
        first_prompt: what stands as `make_first_input` in the first write of the thread, which this
            process has just made; `resume` answers it.
        **rest: as `Driver`.

    What the thread's last process left unfinished is taken up by the first `turn` or `resume`.
    """

    def __init__(
        self,
        *args: Any,
        budget: TokenBudget | None = None,
        titler: Callable[[str], Awaitable[Renamed | None]] | None = None,
        first_prompt: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        self._budget = budget
        self._titler = titler
        self._first_prompt = first_prompt

    async def turn(self, text: str) -> TurnFinished:
        """Say something and work until the agent waits again.

        If the thread was left busy, that is finished first. If a turn is running already, the
        input is queued, durably, and the running turn delivers it; this waits for it too.

        Raises:
            UsageError: there is nothing in the text.
            StoreError: the disk refused; this session is finished, what was acknowledged is safe.
        """
        message = _make_prompt(text)
        if self._running is None:
            unheard = self._writer.fold.undelivered
            is_free = self.is_waiting and not unheard
            told = append_commands(unheard.commands, message)
            return await self._run_titled_turn(
                text, UserInput(told) if is_free else InputQueued(message)
            )
        self._record_at_once(InputQueued(message))
        return await self._wait_for_run()

    async def resume(self) -> TurnFinished:
        """See `Driver`."""
        if self._first_prompt is None or self._running is not None or self._is_prepared:
            return await super().resume()
        return await self._run_titled_turn(self._first_prompt)

    async def _recover(self) -> None:
        """A prompt that this process has just recorded was not left by another one."""
        if self._first_prompt is None or self._is_prepared:
            await super()._recover()
            return
        self._due = self._writer.fold.machine.obligations()
        self._announce_turn()
        await self._observer.observe()

    def queue(self, text: str, *, steers: bool = False) -> None:
        """Have something heard later; it is durable when this returns.

        While a turn runs, what `steers` is heard before the turn's next request to the model, which
        is after the calls in flight; everything else, and what came too late for that, in turns of
        their own behind the running one, in order. If no turn runs, the next `turn` or `resume`
        delivers it first. A turn that is cancelled leaves it where it is.

        Raises:
            UsageError: there is nothing in the text.
            StoreError: as `turn`.
        """
        self._record_at_once(InputQueued(_make_prompt(text), steers))

    @property
    def queued_inputs(self) -> tuple[tuple[str, bool], ...]:
        """What waits to be heard, oldest first: the text, and whether it steers."""
        return tuple(
            (one.message.content, one.steers) for one in self._writer.fold.undelivered.queued
        )

    def withdraw_input(self) -> str | None:
        """Withdraw the newest that waits to be heard, and give its text; `None` if nothing waits.

        The model never sees it. It is durable when this returns.

        Raises:
            StoreError: as `turn`.
        """
        waiting = self.queued_inputs
        if not waiting:
            return None
        self._record_at_once(InputWithdrawn())
        return waiting[-1][0]

    def record_command_start(self, command: str, folder: str) -> str:
        """Record that the person runs a command now; gives the id that `record_command_end` takes.

        It is durable when this returns: run it then. If nothing comes behind it, the next prompt
        tells the model that it had begun, and that its end is not known.

        Raises:
            StoreError: as `turn`; the command has not begun.
        """
        command, folder = (
            cut_middle((self._redact or str)(replace_surrogates(text)))
            for text in (command, folder)
        )
        command_id = secrets.token_hex(4)
        self._record_at_once(CommandBegun(command_id, command, folder))
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
        redact = self._redact or str
        command, output = (
            cut_middle(redact(replace_surrogates(text))) for text in (command, output)
        )
        self._record_at_once(CommandShown(command, output, exit_code, command_id))

    @property
    def unfinished_commands(self) -> tuple[CommandBegun, ...]:
        """The person's commands whose end nobody knows, and of which the model was not told yet."""
        return self._writer.fold.undelivered.unfinished_commands

    @property
    def context_share(self) -> float | None:
        """How much of its context the model had used when it last answered; `None`: not known.

        1.0 is all of it.
        """
        fold = self._writer.fold
        limit, used = fold.machine.config.context_tokens_max, fold.conversation.tokens
        return used / limit if limit and used else None

    @property
    def usage(self) -> Usage:
        """What the whole thread has used."""
        return self._writer.fold.usage

    @property
    def turn_usage(self) -> Usage:
        """What the last turn has used, failed requests included."""
        return self._writer.fold.turn_usage

    @property
    def version(self) -> int:
        """The number of the last record."""
        return self._writer.fold.version

    async def _run_titled_turn(self, prompt: str, *said: UserInput | InputQueued) -> TurnFinished:
        """Run a turn; if it is the first one, have it named meanwhile."""
        fold, naming = self._writer.fold, None
        is_first = not (said and fold.conversation)
        if self._titler is not None and is_first and not fold.metadata.title:
            redact = self._redact or str
            naming = asyncio.ensure_future(self._titler(redact(replace_surrogates(prompt))))
        try:
            finished = await self._run(*said)
            if naming is not None:
                await asyncio.wait({naming}, timeout=TITLE_WAIT_S_MAX)
        finally:
            if naming is not None:
                naming.cancel()
        if naming is None or not naming.done() or naming.cancelled() or naming.exception():
            return finished
        if (renamed := naming.result()) is not None and self._writer.is_usable:
            self._writer.stage(renamed, self._redact)
            self._commit()
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
        if self._running is not None:
            raise UsageError("a turn is running", hint="compact when it is over")
        if not self.is_waiting:
            await self._run()
        if not find_cut_at_end(self._writer.fold.conversation):
            raise UsageError("there is nothing to compact yet")
        return await self._run(CompactionRequested(replace_surrogates(focus), self._writer.now()))

    def stream(self, text: str | None) -> AsyncGenerator[Output, None]:
        """`turn` (or `resume`, for `None`) as a stream of outputs, ending with `TurnFinished`."""
        return self._stream_outputs(self.resume if text is None else lambda: self.turn(text))

    async def close(self) -> None:
        """Stop work, record what is known, write the snapshot, free the thread.

        A turn that was running stays unfinished on disk, to be resumed.
        """
        try:
            await super().close()
        finally:
            self._writer.fold.machine.handle_event(ShutdownRequested())

    # ---- what the driver asks ------------------------------------------------------------------

    def _make_turn_result(self) -> TurnFinished:
        fold = self._writer.fold
        answer = ""
        if self._end.outcome is TurnOutcome.DONE and fold.conversation:
            last = fold.conversation[-1]
            answer = last.content if last.role == "assistant" else ""
        return TurnFinished(
            self.thread_id,
            self._end.outcome,
            answer,
            fold.version,
            fold.usage,
            fold.turn_usage,
            self._end.error,
            self._end.error_kind,
        )

    def _refuse_request(self, due: SendLlmRequest | Summarize) -> tuple[str, Event] | None:
        fold = self._writer.fold
        limit, why, state = fold.machine.config.max_steps, "", fold.state
        # A summary that a person asks for is no step of a turn; any other is on the way to one.
        is_asked = isinstance(state, Compacting) and state.cause is CompactionCause.REQUESTED
        if limit and fold.turn_steps >= limit and not is_asked:
            why = f"stopped after {limit} model requests (max steps)"
        elif self._budget is not None:
            why = self._budget.find_exceeded_limit(fold.turn_usage)[1]
        return (why, CancelRequested(reason=why, at=self._writer.now())) if why else None

    def _time_left_s(self) -> float | None:
        return None if self._budget is None else self._budget.max_time_s

    def _budget_left(self) -> TokenBudget | None:
        fold = self._writer.fold
        return None if self._budget is None else self._budget.get_remaining(fold.turn_usage)

    def _next_input(self, *, steering: bool = False) -> Event | None:
        unheard = self._writer.fold.undelivered
        message = unheard.next_steering if steering else unheard.next_prompt
        if message is None:
            return None
        told = append_commands(unheard.commands, message)
        return Steered(told) if steering else UserInput(told, was_queued=True)

    def _make_stop_event(self, stop: StopRequest, partial_text: str) -> Event | None:
        return CancelRequested(partial_text, stop.reason, self._writer.now())

    def _announce_turn(self) -> None:
        """Tell people which prompt begins a turn."""
        prompt = strip_commands(self.conversation[-1].content)
        self._later.append(outputs.TurnStarted(self.thread_id, prompt))

    def _on_event(self, event: Event, action: AgentAction | None) -> None:
        if isinstance(event, UserInput):
            self._end = Ending()
            self._announce_turn()
        elif isinstance(event, Steered):
            text = strip_commands(self.conversation[-1].content)
            self._later.append(outputs.InputDelivered(text))
        elif isinstance(action, DisplayError) and isinstance(
            event, LlmEvent.Error | CompactionFailed
        ):
            self._end = Ending(TurnOutcome.FAILED, action.text, event.error.kind)
            self._later.append(outputs.ErrorShown(action.text))


def make_first_input(text: str) -> UserInput:
    """The first prompt of a thread, to be recorded in the write that makes it.

    Raises:
        UsageError: there is nothing in the text.
    """
    return UserInput(_make_prompt(text))


def _make_prompt(text: str) -> Message:
    if not text.strip():
        raise UsageError("the prompt is empty", hint="say what the agent is to do")
    return Message.user(replace_surrogates(text))
