"""What every machine is to the runtime, journal, replay and command line."""

from __future__ import annotations

from typing import Protocol, TypeVar

StateT_co = TypeVar("StateT_co", covariant=True)
EventT_contra = TypeVar("EventT_contra", contravariant=True)
ActionT_co = TypeVar("ActionT_co", covariant=True)


class Machine(Protocol[StateT_co, EventT_contra, ActionT_co]):
    """A pure, synchronous state machine: event in, action out. Same events, same actions."""

    @property
    def state(self) -> StateT_co:
        """The current state; immutable."""
        ...

    def handle_event(self, event: EventT_contra) -> ActionT_co:
        """Move as the transition table says and return what the world is to do."""
        ...

    def obligations(self) -> ActionT_co:
        """The action that must be in flight in this state; recovery performs it."""
        ...
