"""The machine without I/O: time of a transition, beside a general library and a bare `match`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from transitions import Machine

from bench.report import Row, at_least
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import WaitingForUserInput
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import (
    AgentEvent,
    LlmEvent,
    PostToolsHookCompleted,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.llm import LlmResponse
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import EffectClass, ToolDefinition, ToolExecutionOutcome

TURNS: Final = 1_000
ROUNDS: Final = 8
"""Of so many rounds the fastest counts, of each in turn: what else happens hits all alike."""


def _turn() -> list[AgentEvent]:
    """A turn with a mutating tool and the hook behind it; each event changes the state."""
    call = ToolCall("c", "write", "{}")
    return [
        UserInput(Message.user("do it")),
        LlmEvent.Completed(LlmResponse(Message.assistant("", (call,)))),
        ToolStarted("c"),
        ToolCompleted("c", ToolExecutionOutcome.Success("c", "done")),
        PostToolsHookCompleted(False),
        LlmEvent.Completed(LlmResponse(Message.assistant("done"))),
    ]


def _run_ours(events: list[AgentEvent]) -> Callable[[], None]:
    tool = ToolDefinition("write", "", {"type": "object"}, EffectClass.MUTATE)
    machine = ConversationMachine(AgentConfig(tools=(tool,)))
    empty = WaitingForUserInput(Conversation())

    def run() -> None:
        ours = machine
        for _ in range(TURNS):
            ours = ours.with_state(empty)  # call ids repeat from turn to turn
            handle = ours.handle_event
            for event in events:
                handle(event)
        assert isinstance(ours.state, WaitingForUserInput)

    return run


class _Model:
    """What `transitions` moves: it knows no conversation, no calls and no requests."""

    state: str
    trigger: Callable[..., bool]

    def has_calls(self, event: LlmEvent.Completed) -> bool:
        return bool(event.response.message.tool_calls)

    def has_none(self, event: LlmEvent.Completed) -> bool:
        return not event.response.message.tool_calls

    def act(self, event: AgentEvent) -> None:
        """An action of each transition."""


_ROWS: Final[list[dict[str, Any]]] = [
    {"trigger": "UserInput", "source": "waiting", "dest": "calling"},
    {"trigger": "Completed", "source": "calling", "dest": "tools", "conditions": "has_calls"},
    {"trigger": "Completed", "source": "calling", "dest": "waiting", "conditions": "has_none"},
    {"trigger": "ToolStarted", "source": "tools", "dest": "tools"},
    {"trigger": "ToolCompleted", "source": "tools", "dest": "hook"},
    {"trigger": "PostToolsHookCompleted", "source": "hook", "dest": "calling"},
]


def _run_library(events: list[AgentEvent]) -> Callable[[], None]:
    model = _Model()
    Machine(
        model,
        states=["waiting", "calling", "tools", "hook"],
        initial="waiting",
        transitions=[row | {"after": "act"} for row in _ROWS],
    )
    named = [(type(event).__name__, event) for event in events]

    def run() -> None:
        for _ in range(TURNS):
            for name, event in named:
                model.trigger(name, event)
        assert model.state == "waiting"

    return run


def _bare(state: str, event: AgentEvent) -> str:
    """The least that decides the same way: no context, no actions, no checks."""
    match state, event:
        case "waiting", UserInput():
            return "calling"
        case "calling", LlmEvent.Completed(response):
            return "tools" if response.message.tool_calls else "waiting"
        case "tools", ToolStarted():
            return "tools"
        case "tools", ToolCompleted():
            return "hook"
        case "hook", PostToolsHookCompleted():
            return "calling"
    raise AssertionError(state)


def _run_bare(events: list[AgentEvent]) -> Callable[[], None]:
    def run() -> None:
        state = "waiting"
        for _ in range(TURNS):
            for event in events:
                state = _bare(state, event)

    return run


def measure() -> list[Row]:
    """Microseconds of a transition, ours and the others'."""
    events = _turn()
    runs = {"ours": _run_ours(events), "library": _run_library(events), "bare": _run_bare(events)}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.process_time()
            run()
            least[name] = min(least[name], time.process_time() - start)
    took_us = {name: one / TURNS / len(events) * 1e6 for name, one in least.items()}
    note = f"{took_us['library']:.2f} us, for which it keeps no conversation"
    return [
        Row("machine: a transition", took_us["ours"], "us"),
        at_least(
            "machine: the library `transitions` to it",
            took_us["library"] / took_us["ours"],
            "x",
            3,
            note,
        ),
        Row("  a bare match to it", took_us["bare"] / took_us["ours"], "x"),
    ]
