"""Calls one after the other in one thread, each told what those before it have shown of files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.core.conversation import Conversation
from treadle.core.events import ToolCompleted
from treadle.core.messages import Message, ToolCall
from treadle.core.sightings import Sighting, Sightings, add_sightings
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry


class CallsInThread:
    """A thread without a machine: its messages, and what they have told of files."""

    def __init__(self, folder: Path, family: str = "") -> None:
        self.registry = Registry(builtin_tools(family), workspace=folder)
        self.conversation = Conversation([Message.user("go")])
        self.sightings: tuple[Sighting, ...] = ()
        self.count = 0

    async def call(self, name: str, arguments: Any) -> Outcome:
        """One call in a round of its own; arguments that are a text are sent as they are."""
        (outcome,) = await self.round((name, arguments))
        return outcome

    async def round(self, *asked: tuple[str, Any]) -> Sequence[Outcome]:
        """Calls of one round, one after the other."""
        calls = []
        for name, arguments in asked:
            self.count += 1
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append(ToolCall(f"t{self.count}", name, text))
        self.conversation = self.conversation.append(Message.assistant("", tuple(calls)))
        ids = frozenset(call.id for call in calls)
        outcomes = []
        for call in calls:
            known = Sightings(self.sightings, self.conversation, ids)
            outcome = await self.registry.execute(
                call, key=call.id, progress=lambda _: None, sightings=known
            )
            outcomes.append(outcome)
            self.sightings = add_sightings(self.sightings, ToolCompleted(call.id, outcome))
        for call, outcome in zip(calls, outcomes, strict=True):
            self.conversation = self.conversation.append(Message.tool(call, answer_of(outcome)))
        return outcomes


def answer_of(outcome: Outcome) -> str:
    """What the model reads of it."""
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return f"ERROR: {outcome.error.text}"
