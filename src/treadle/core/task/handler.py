"""What the handler of a state is, and what it gets.

Handlers are pure. `enter` is called when the state is entered, `on` when something happens in it;
both return the memory, changed or not, and one of:

- an event by name: the machine looks it up in the table and goes on from there;
- an action: the world is to do it, and the state waits for what comes of it;
- `None`: the state waits. `on` with the very memory it was given: the event does not fit here.

`owed` is the action that must be in flight while the state waits: what `enter` or `on` asked for
last, the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.actions import WAIT, AgentAction
from treadle.core.budget import Limit
from treadle.core.config import AgentConfig
from treadle.core.llm import Usage
from treadle.core.task.memory import AgentMemory

DATA_LENGTH_MAX: Final = 200
"""Characters of what models and tools say that a line of the trace keeps."""


class HandlerContext(Struct, frozen=True):
    """What a handler decides by, beside memory: the settings requests are made of."""

    settings: AgentConfig


StateResult: TypeAlias = tuple[AgentMemory, str | AgentAction | None]
"""The memory, and what is next."""


def refuse_event(memory: AgentMemory, _: Any, __: HandlerContext) -> StateResult:
    """No event fits here."""
    return memory, None


def wait_for_events(_: AgentMemory, __: HandlerContext) -> AgentAction:
    """Nothing is in flight."""
    return WAIT


class Handler(Struct, frozen=True):
    """The three functions of a state."""

    enter: Callable[[AgentMemory, HandlerContext], StateResult]
    on: Callable[[AgentMemory, Any, HandlerContext], StateResult] = refuse_event
    owed: Callable[[AgentMemory, HandlerContext], AgentAction] = wait_for_events


def stop_over_budget(memory: AgentMemory, state: str) -> AgentMemory | None:
    """The memory of a run that has used up its budget; `None` if it has not."""
    if memory.budget is None:
        return None
    limit, text = memory.budget.find_exceeded_limit(memory.total_usage, memory.elapsed_s)
    return _stop_run(memory, state, limit, text) if limit else None


def stop_out_of_time(memory: AgentMemory, state: str) -> AgentMemory:
    """The memory of a run whose time limit passed while work was in flight."""
    limit = None if memory.budget is None else memory.budget.max_time_s
    used = f"{memory.elapsed_s:.0f}" if limit is None else f"{memory.elapsed_s:.0f} of {limit:g}"
    return _stop_run(memory, state, "time", f"Time limit exceeded: {used} s used")


def _stop_run(memory: AgentMemory, state: str, limit: Limit, text: str) -> AgentMemory:
    return replace(memory, error=text, exceeded=limit).log(state, "BUDGET_EXCEEDED", text)


def add_usage(memory: AgentMemory, usage: Usage | None) -> AgentMemory:
    """A memory that counts what was used of models, if anything."""
    return memory if usage is None else replace(memory, total_usage=memory.total_usage + usage)


def shorten(text: str) -> str:
    """As much of a text as a line of the trace keeps, on one line."""
    line = " ".join(text[: 4 * DATA_LENGTH_MAX].split())
    return line if len(line) <= DATA_LENGTH_MAX else line[: DATA_LENGTH_MAX - 1] + "…"
