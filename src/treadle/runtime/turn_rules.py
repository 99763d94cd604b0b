"""What differs from machine to machine in the way a driver works on its thread."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from treadle.core.actions import AgentAction, SendLlmRequest, Summarize
from treadle.core.budget import TokenBudget
from treadle.outputs import Ending, TurnFinished
from treadle.runtime.inbox import StopRequest
from treadle.runtime.ports import Provider, Tools
from treadle.thread.codec import Event


class TurnRules(Protocol):
    """How turns of a conversation, or of a task, are bounded, fed, stopped and told."""

    is_new: bool
    """Whether this process has just recorded what begins the first turn: no other has left it."""

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is unfinished: neither work nor a question to a person."""
        ...

    def announce_start(self) -> None:
        """Announce what begins the first turn, which is recorded already."""
        ...

    def make_result(self, end: Ending) -> TurnFinished:
        """How the turn ended, for whoever asked for it."""
        ...

    def make_stop_event(self, stop: StopRequest, partial_text: str) -> Event | None:
        """The event that tells the machine of an order to stop; `None` leaves it as it is."""
        ...

    def refuse_request(self, due: SendLlmRequest | Summarize) -> tuple[str, Event] | None:
        """Why this request must not be sent, and the event that says so; `None` if it may."""
        ...

    def record_idle_time(self, since: str, until: str) -> None:
        """Between these times a person was waited for while calls were running."""
        ...

    def time_left_s(self) -> float | None:
        """Seconds until work must end; `None` if nobody set a limit."""
        ...

    def budget_left(self) -> TokenBudget | None:
        """What a sub-agent that begins now may use at most."""
        ...

    def next_input(self, *, steering: bool = False) -> Event | None:
        """What was said meanwhile and begins a turn now, or is heard before the request due."""
        ...

    def make_action_work(
        self, action: AgentAction, provider: Provider, tools: Tools
    ) -> Coroutine[Any, Any, Event] | None:
        """Work for an action that only this machine has, with who answers and who runs calls."""
        ...

    def follow_event(self, event: Event, action: AgentAction | None) -> Ending | None:
        """Announce what a folded event means here; how the turn ends now, if that is new."""
        ...
