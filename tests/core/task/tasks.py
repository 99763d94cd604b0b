"""Tasks for the tests: a machine, what happens to it, and what it asked for."""

from __future__ import annotations

from typing import Any, Final

from treadle.core.actions import AgentAction, SendLlmRequest
from treadle.core.approval import Decision
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import ApprovalDecided, LlmEvent, ToolCompleted, ToolStarted
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import (
    CustomState,
    Graph,
    MemoryChanges,
    StateCompleted,
    TaskConfig,
    TaskGiven,
)
from treadle.core.task.handler import Handler
from treadle.core.task.handlers import HANDLERS
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import (
    EffectClass,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)

Success = ToolExecutionOutcome.Success
Rows = tuple[tuple[str, str, str], ...]
ANSWER: Final = "The answer to all of this is forty-two."


def tool(name: str, effect: EffectClass, risk: RiskLevel = RiskLevel.MEDIUM) -> ToolDefinition:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    return ToolDefinition(name, f"does {name}", schema, effect, risk)


TOOLS: Final = (
    tool("look", EffectClass.READ, RiskLevel.LOW),
    tool("edit", EffectClass.MUTATE),
    tool("put", EffectClass.IDEMPOTENT),
    tool("burn", EffectClass.MUTATE, RiskLevel.HIGH),
)


def at(seconds: float) -> str:
    """A time, that many seconds (less than an hour) after the task was given."""
    whole = int(seconds)
    micros = round((seconds - whole) * 1_000_000)
    return f"2026-03-01T10:{whole // 60:02}:{whole % 60:02}.{micros:06}Z"


def settings(**rest: Any) -> AgentConfig:
    return AgentConfig(**{"model_name": "model-1", "tools": TOOLS, **rest})


def idle(handlers: dict[str, Handler] | None = None, **rest: Any) -> TaskMachine:
    """A machine without a task; `rest` are settings of its requests."""
    return TaskMachine(settings(**rest), thread_id="T-1", handlers={**HANDLERS, **(handlers or {})})


def given(task: str = "count the lines", **rest: Any) -> TaskGiven:
    """A task; limits of `AgentConfig` are taken by name, beside the fields of the event."""
    limits = {name: rest.pop(name) for name in (*rest,) if name in TaskConfig.__struct_fields__}
    return TaskGiven(task, **{"at": at(0), "config": TaskConfig(**limits), **rest})


def agent(task: str = "count the lines", **rest: Any) -> TaskMachine:
    """A machine that has a task and waits for the first answer of its model."""
    names = {"handlers", *AgentConfig.__struct_fields__} - {"max_retries", "max_steps"}
    mine = {name: rest.pop(name) for name in (*rest,) if name in names - {"system_prompt"}}
    machine = idle(**mine)
    machine.handle_event(given(task, **rest))
    return machine


def call(call_id: str = "a", name: str = "look", arguments: str = '{"x":"1"}') -> ToolCall:
    return ToolCall(call_id, name, arguments)


def says(
    text: str = "",
    *calls: ToolCall,
    confidence: float | None = None,
    usage: Usage | None = None,
    finish_reason: str | None = None,
    **rest: Any,
) -> LlmEvent.Completed:
    """The model's answer; `rest` are fields of the event."""
    response = LlmResponse(Message.assistant(text, calls), usage, finish_reason, confidence)
    return LlmEvent.Completed(response, **rest)


def asks(*calls: ToolCall, **rest: Any) -> LlmEvent.Completed:
    return says("", *(calls or (call(),)), **rest)


def broken(
    kind: LlmErrorKind = LlmErrorKind.NETWORK, *, at: str = "", **rest: Any
) -> LlmEvent.Error:
    return LlmEvent.Error(LlmError(kind, "so it goes", **rest), at=at)


def fine(call_id: str, output: str = "fine", **rest: Any) -> ToolCompleted:
    return ToolCompleted(call_id, Success(call_id, output), **rest)


def fails(call_id: str, why: str = "no such luck", **rest: Any) -> ToolCompleted:
    error = ToolError(ToolErrorKind.FAILED, why)
    return ToolCompleted(call_id, ToolExecutionOutcome.Error(call_id, error), **rest)


def decided(call_id: str, decision: Decision, when: str = "") -> ApprovalDecided:
    return ApprovalDecided(call_id, decision, when)


def does(machine: TaskMachine, *events: Any) -> AgentAction:
    """Let these happen; the action that follows from the last."""
    for event in events:
        action = machine.handle_event(event)
    return action


def request(action: AgentAction) -> LlmRequest:
    assert isinstance(action, SendLlmRequest), action
    return action.request


def texts(conversation: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in conversation]


def logged(machine: TaskMachine) -> list[str]:
    return [entry.event for entry in machine.memory.trace]


def cycle(machine: TaskMachine, number: int, output: str = "fine") -> AgentAction:
    """One call of a tool that changes nothing, from the answer to the next request."""
    one = f"call-{number}"
    return does(machine, asks(call(one)), ToolStarted(one), fine(one, output))


def graph(*states: CustomState, rows: Rows = (), **rest: Any) -> Graph:
    """A custom graph of these states and rows."""
    return Graph(states, rows, **rest)


def ended(event: str, state: str = "Review", **rest: Any) -> StateCompleted:
    """A custom state has ended; fields of memory among `rest` are what it wrote."""
    changes = MemoryChanges(
        **{name: rest.pop(name) for name in (*rest,) if name in MemoryChanges.__struct_fields__}
    )
    return StateCompleted(state, event, changes, **rest)
