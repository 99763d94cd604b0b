"""The machine without I/O: transitions per second, beside a bare `match` that decides the same."""

from __future__ import annotations

import time

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

TURNS = 20_000


def _turn() -> list[AgentEvent]:
    """A turn as it streams: eight deltas, a mutating tool, the hook, eight deltas, the answer."""
    call = ToolCall("c", "write", "{}")
    deltas: list[AgentEvent] = [LlmEvent.TextDelta("some words ")] * 8
    return [
        UserInput(Message.user("do it")),
        *deltas,
        LlmEvent.Completed(LlmResponse(Message.assistant("", (call,)))),
        ToolStarted("c"),
        ToolCompleted("c", ToolExecutionOutcome.Success("c", "done")),
        PostToolsHookCompleted(False),
        *deltas,
        LlmEvent.Completed(LlmResponse(Message.assistant("done"))),
    ]


def _bare(state: str, event: AgentEvent) -> str:
    """The least that decides the same way: no context, no actions, no checks."""
    match state, event:
        case "calling", LlmEvent.TextDelta():
            return "calling"
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
    return state


def measure() -> list[Row]:
    """Transitions per second, ours and bare."""
    tool = ToolDefinition("write", "", {"type": "object"}, EffectClass.MUTATE)
    config = AgentConfig(tools=(tool,))
    empty = WaitingForUserInput(Conversation())
    events = _turn()
    ours = bare = 0.0
    for _ in range(5):
        machine = ConversationMachine(config)
        start = time.perf_counter()
        for _ in range(TURNS // 5):
            machine = machine.with_state(empty)  # call ids repeat from turn to turn
            handle = machine.handle_event
            for event in events:
                handle(event)
        ours += time.perf_counter() - start
        assert isinstance(machine.state, WaitingForUserInput)
        state = "waiting"
        start = time.perf_counter()
        for _ in range(TURNS // 5):
            for event in events:
                state = _bare(state, event)
        bare += time.perf_counter() - start
    count = TURNS * len(events)
    return [
        at_least("machine: transitions per second", count / ours, "1/s", 500_000),
        Row("machine: a bare match, same events", count / bare, "1/s"),
        Row("machine: ratio ours / bare", ours / bare, "x"),
    ]
