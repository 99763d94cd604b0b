"""What is special to conversations in the way a driver works on them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from treadle import outputs
from treadle.core.actions import AgentAction, DisplayError, SendLlmRequest, Summarize
from treadle.core.budget import TokenBudget
from treadle.core.chat.states import Compacting, CompactionCause
from treadle.core.config import AgentConfig
from treadle.core.events import (
    CancelRequested,
    CompactionFailed,
    LlmEvent,
    Steered,
    UserInput,
)
from treadle.core.messages import Message
from treadle.outputs import Ending, TurnFinished, TurnOutcome
from treadle.runtime.inbox import StopRequest
from treadle.runtime.ports import Provider, Tools
from treadle.runtime.thread_journal import ThreadJournal
from treadle.thread.codec import Event
from treadle.thread.situation import AgentSituation, append_news
from treadle.thread.typed_words import strip_additions
from treadle.thread.undelivered_input import append_undelivered

ObserveSituation: TypeAlias = Callable[[AgentConfig], AgentSituation]
"""Says how an agent with this configuration works now; quick."""


class ConversationRules:
    """A turn begins with what a person says, and ends when the agent waits again: `TurnRules`.

    Args:
        journal: the thread.
        budget: what one turn may use; looked at before each request. `None` is no bound.
        situation: what has changed in this since the model was told of it is said with the next
            message; without it nothing is.
        is_new: whether this process has just recorded the first prompt.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        budget: TokenBudget | None,
        situation: ObserveSituation | None = None,
        *,
        is_new: bool,
    ) -> None:
        self._journal = journal
        self._budget = budget
        self._situation = situation
        self.is_new = is_new

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        return self._journal.fold.is_idle

    def announce_start(self) -> None:
        """Announce which prompt begins a turn."""
        thread_id = self._journal.writer.thread_id
        said = self._journal.fold.conversation[-1]
        prompt = strip_additions(said.content)
        self._journal.announce(outputs.TurnStarted(thread_id, prompt, said.attachments))

    def make_result(self, end: Ending) -> TurnFinished:
        """How the turn ended."""
        fold = self._journal.fold
        answer = ""
        if end.outcome is TurnOutcome.DONE and fold.conversation:
            last = fold.conversation[-1]
            answer = last.content if last.role == "assistant" else ""
        return TurnFinished(
            fold.header.thread,
            end.outcome,
            answer,
            fold.version,
            fold.usage,
            fold.turn_usage,
            end.error,
            end.error_kind,
        )

    def refuse_request(self, due: SendLlmRequest | Summarize) -> tuple[str, Event] | None:
        """Why this request must not be sent: the steps or the budget of the turn are used up."""
        fold = self._journal.fold
        limit, why, state = fold.machine.config.max_steps, "", fold.state
        # A summary that a person asks for is no step of a turn; any other is on the way to one.
        is_asked = isinstance(state, Compacting) and state.cause is CompactionCause.REQUESTED
        if limit and fold.turn_steps >= limit and not is_asked:
            why = f"stopped after {limit} model requests (max steps)"
        elif self._budget is not None:
            why = self._budget.find_exceeded_limit(fold.turn_usage)[1]
        return (why, CancelRequested(reason=why, at=self._journal.now())) if why else None

    def record_idle_time(self, since: str, until: str) -> None:
        """Conversations do not count time."""

    def time_left_s(self) -> float | None:
        """Seconds until work must end."""
        return None if self._budget is None else self._budget.max_time_s

    def budget_left(self) -> TokenBudget | None:
        """What a sub-agent that begins now may use at most."""
        fold = self._journal.fold
        return None if self._budget is None else self._budget.get_remaining(fold.turn_usage)

    def next_input(self, *, steering: bool = False) -> Event | None:
        """What a person said meanwhile, with the commands that they ran, and what is news."""
        fold = self._journal.fold
        unheard = fold.undelivered
        message = unheard.next_steering if steering else unheard.next_prompt
        if message is None:
            return None
        told = self.add_context(message, fold.machine.config)
        return Steered(told) if steering else UserInput(told, was_queued=True)

    def add_context(self, message: Message, config: AgentConfig) -> Message:
        """A message that is delivered, with all that the model is told behind the person's words.

        Args:
            message: what the person said.
            config: what the thread works with from this message on.
        """
        fold = self._journal.fold
        told = append_undelivered(fold.undelivered, message)
        if self._situation is None:
            return told
        lines = map(self._journal.redact or str, self._situation(config).changing_lines)
        return append_news(lines, config.system_prompt, fold.conversation.in_view, told)

    def make_stop_event(self, stop: StopRequest, partial_text: str) -> Event | None:
        """A cancel, with what the model had said."""
        return CancelRequested(partial_text, stop.reason, self._journal.now())

    def make_action_work(
        self, action: AgentAction, provider: Provider, tools: Tools
    ) -> Coroutine[Any, Any, Event] | None:
        """The machine has no actions of its own."""
        raise AssertionError(f"nobody performs {type(action).__name__}")

    def follow_event(self, event: Event, action: AgentAction | None) -> Ending | None:
        """Announce prompts as they are heard, and failures."""
        if isinstance(event, UserInput):
            self.announce_start()
            return Ending()
        if isinstance(event, Steered):
            said = self._journal.fold.conversation[-1]
            text = strip_additions(said.content)
            self._journal.announce(outputs.InputDelivered(text, said.attachments))
        elif isinstance(action, DisplayError) and isinstance(
            event, LlmEvent.Error | CompactionFailed
        ):
            self._journal.announce(outputs.ErrorShown(action.text))
            return Ending(TurnOutcome.FAILED, action.text, event.error.kind)
        return None
