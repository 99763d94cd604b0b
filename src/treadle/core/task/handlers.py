"""The handler of each built-in state. Where an event leads is the table's to say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from treadle.core.actions import WAIT
from treadle.core.messages import Message
from treadle.core.task.acting_state import ACTING, PARALLEL_ACTING
from treadle.core.task.calls import append_missing_results
from treadle.core.task.handler import Handler, HandlerContext, StateResult, shorten
from treadle.core.task.memory import AgentMemory
from treadle.core.task.observing_state import OBSERVING
from treadle.core.task.planning_state import PLANNING
from treadle.core.task.reflecting_state import REFLECTING
from treadle.core.task.table import Event, State
from treadle.core.task.waiting_for_human_state import WAITING_FOR_HUMAN


def _start(memory: AgentMemory, _: HandlerContext) -> StateResult:
    about = f"{memory.task_type}, at most {memory.config.max_steps} steps: {memory.task}"
    return memory.log(State.IDLE, "AGENT_STARTED", shorten(about)), Event.START


def _complete(memory: AgentMemory, _: HandlerContext) -> StateResult:
    """The transcript ends with the answer, whoever gave it."""
    answer = memory.final_answer or ""
    memory = append_missing_results(memory)
    last = memory.transcript[-1] if memory.transcript else None
    is_there = last is not None and last.role == "assistant" and last.content == answer
    if answer.strip() and not is_there:
        transcript = memory.transcript.append(Message.assistant(answer))
        memory = replace(memory, transcript=transcript)
    return memory.log(State.DONE, "TASK_COMPLETE", shorten(answer)), WAIT


def _fail(memory: AgentMemory, _: HandlerContext) -> StateResult:
    memory = append_missing_results(memory)
    return memory.log(State.ERROR, "AGENT_FAILED", memory.error or "Unknown error"), WAIT


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        State.IDLE: Handler(_start),
        State.PLANNING: PLANNING,
        State.ACTING: ACTING,
        State.PARALLEL_ACTING: PARALLEL_ACTING,
        State.WAITING_FOR_HUMAN: WAITING_FOR_HUMAN,
        State.OBSERVING: OBSERVING,
        State.REFLECTING: REFLECTING,
        State.DONE: Handler(_complete),
        State.ERROR: Handler(_fail),
    }
)
