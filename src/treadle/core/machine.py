"""What every machine is to the runtime, journal, replay and command line."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from msgspec import Struct

from treadle.core.actions import AgentAction
from treadle.core.approval import Question
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmError
from treadle.core.messages import ToolCall
from treadle.core.tools import Status

EventT_contra = TypeVar("EventT_contra", contravariant=True)


class Retry(Struct, frozen=True):
    """A failed request that is to be sent again after `delay_s` seconds."""

    error: LlmError
    delay_s: float


class Machine(Protocol[EventT_contra]):
    """A pure, synchronous state machine: event in, action out. Same events, same actions."""

    @property
    def config(self) -> AgentConfig:
        """Limits and request settings."""
        ...

    def with_config(self, config: AgentConfig) -> Self:
        """A machine in the same state with another configuration; this one stays as it is."""
        ...

    def handle_event(self, event: EventT_contra) -> AgentAction:
        """Move as the transition table says and return what the world is to do."""
        ...

    def obligations(self) -> AgentAction:
        """The action that must be in flight in this state; recovery performs it."""
        ...

    @property
    def state_name(self) -> str:
        """The current state, as people read it."""
        ...

    @property
    def conversation(self) -> Conversation:
        """All messages so far."""
        ...

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to be done until a person says something, or for ever."""
        ...

    @property
    def round(self) -> tuple[tuple[ToolCall, Status], ...]:
        """The calls that run or ran in this round, as they are to be run, in request order."""
        ...

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word."""
        ...

    @property
    def retry(self) -> Retry | None:
        """What the retry timer is to wait for, if it is to run."""
        ...

    @property
    def parallel_max(self) -> int:
        """How many calls of a round may run at a time; 0 is no bound."""
        ...
