"""The handler of each built-in state. Where an event leads is the table's to say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from treadle.core.actions import WAIT
from treadle.core.messages import Message
from treadle.core.task import human, observing, planning, reflection
from treadle.core.task.acting import ACTING, PARALLEL_ACTING
from treadle.core.task.calls import with_answers
from treadle.core.task.handler import Handler, HandlerContext, Result, short
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import Event, State


def _start(memory: AgentMemory, _: HandlerContext) -> Result:
    about = f"{memory.task_type}, at most {memory.config.max_steps} steps: {memory.task}"
    return memory.log(State.IDLE, "AGENT_STARTED", short(about)), Event.START


def _complete(memory: AgentMemory, _: HandlerContext) -> Result:
    """The transcript ends with the answer, whoever gave it."""
    answer = memory.final_answer or ""
    memory = with_answers(memory)
    last = memory.transcript[-1] if memory.transcript else None
    is_there = last is not None and last.role == "assistant" and last.content == answer
    if answer.strip() and not is_there:
        transcript = memory.transcript.append(Message.assistant(answer))
        memory = replace(memory, transcript=transcript)
    return memory.log(State.DONE, "TASK_COMPLETE", short(answer)), WAIT


def _fail(memory: AgentMemory, _: HandlerContext) -> Result:
    memory = with_answers(memory)
    return memory.log(State.ERROR, "AGENT_FAILED", memory.error or "Unknown error"), WAIT


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        State.IDLE: Handler(_start),
        State.PLANNING: Handler(planning.enter, planning.on, planning.owed),
        State.ACTING: ACTING,
        State.PARALLEL_ACTING: PARALLEL_ACTING,
        State.WAITING_FOR_HUMAN: Handler(human.enter, human.on, human.owed),
        State.OBSERVING: Handler(observing.enter, observing.on, observing.owed),
        State.REFLECTING: Handler(reflection.enter, reflection.on, reflection.owed),
        State.DONE: Handler(_complete),
        State.ERROR: Handler(_fail),
    }
)
