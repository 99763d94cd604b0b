"""The task machine without I/O: transitions per second, and whether a step costs the same for ever.

A step is a whole cycle: the model asks for a tool, the tool runs, its result is observed, the next
request is made. Its cost is taken with 10 and with 5,000 entries of history, all of it in view
(no reflection), and with the reflection that is on by default.
"""

from __future__ import annotations

import statistics
import time

from bench.report import Row, at_least, at_most
from treadle.core.actions import SendLlmRequest
from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, ToolCompleted, ToolStarted
from treadle.core.llm import LlmResponse, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import TaskConfig, TaskGiven
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import EffectClass, ToolDefinition, ToolExecutionOutcome

SHORT, LONG, SAMPLE = 10, 5_000, 400
MOVES_PER_STEP = 3
"""Planning to Acting, to Observing, to Planning."""


def _step(machine: TaskMachine, number: int) -> None:
    call = ToolCall(f"c{number}", "look", '{"path": "a/file.py"}')
    answer = LlmResponse(Message.assistant("", (call,)), Usage(100, 10))
    machine.handle_event(LlmEvent.Completed(answer))
    machine.handle_event(ToolStarted(call.id))
    outcome = ToolExecutionOutcome.Success(call.id, "what the file holds")
    action = machine.handle_event(ToolCompleted(call.id, outcome))
    assert isinstance(action, SendLlmRequest)


def _machine(reflect_every: int) -> TaskMachine:
    look = ToolDefinition("look", "", {"type": "object"}, EffectClass.READ)
    machine = TaskMachine(AgentConfig(tools=(look,)))
    config = TaskConfig(max_steps=10**9, reflect_every_n_steps=reflect_every)
    machine.handle_event(TaskGiven("look at everything", config=config))
    return machine


def _costs(reflect_every: int) -> tuple[float, float]:
    """The median seconds of a step, after `SHORT` and after `LONG` steps."""
    machine = _machine(reflect_every)
    took: list[float] = []
    for number in range(LONG + SAMPLE):
        start = time.perf_counter()
        _step(machine, number)
        took.append(time.perf_counter() - start)
    if not reflect_every:
        assert len(machine.memory.history) == LONG + SAMPLE
    return (
        statistics.median(took[SHORT : SHORT + SAMPLE]),
        statistics.median(took[LONG : LONG + SAMPLE]),
    )


def measure() -> list[Row]:
    """Transitions per second, and the cost of a late step to that of an early one."""
    start = time.perf_counter()
    machine = _machine(0)
    for number in range(LONG):
        _step(machine, number)
    took = time.perf_counter() - start
    assert machine.memory.moves == 1 + MOVES_PER_STEP * LONG
    kept_early, kept_late = _costs(0)
    _, digested_late = _costs(5)
    return [
        at_least(
            "task machine: transitions per second", machine.memory.moves / took, "1/s", 20_000
        ),
        at_most(
            f"task machine: a step after {LONG} to one after {SHORT}",
            kept_late / kept_early,
            "x",
            1.25,
            "all history in view",
        ),
        Row(
            "task machine: a step with reflection to one without",
            digested_late / kept_late,
            "x",
            note=f"after {LONG}; median",
        ),
    ]
