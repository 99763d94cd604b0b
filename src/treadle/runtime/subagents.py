"""Sub-agents: a call that is worked on by an agent of its own, in a thread of its own.

The two threads name each other, so that a call whose process died goes on where its sub-agent
stood: the call counts as idempotent. What a sub-agent may use is at most what its parent has left,
and what it used counts as the parent's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from treadle.answers import Verdict
from treadle.core.approval import Question, Rejected
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig
from treadle.core.llm import Usage
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    EffectClass,
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.errors import TreadleError
from treadle.outputs import Output, SubAgentOutput, TurnFinished, TurnOutcome

DEPTH_MAX: Final = 3
"""How deep sub-agents may be nested under the thread that a person began."""

_SCHEMA: Final = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "what the sub-agent is to do"}},
    "required": ["task"],
    "additionalProperties": False,
}


class ChildEngine(Protocol):
    """The engine of a sub-agent."""

    @property
    def thread_id(self) -> str:
        """Its thread."""
        ...

    @property
    def total_usage(self) -> Usage:
        """What it and its own sub-agents have used of models."""
        ...

    async def resume(self) -> TurnFinished:
        """Work to the end."""
        ...

    async def close(self) -> None:
        """Give the thread back."""
        ...

    def abandon(self) -> None:
        """Give a thread back on which nothing was done; in whatever thread of the process."""
        ...


class ParentCall(Struct, frozen=True):
    """What a sub-agent has from the call it works for. It is private if the thread of that is.

    `config` is the configuration that holds there now; `progress` takes what is told of the call.
    `name` is what the sub-agent is called there, and `emit` takes everything that it tells.
    """

    thread: str
    call: str
    depth: int
    budget: TokenBudget | None
    approve: Callable[[Question], Awaitable[Verdict]]
    is_private: bool = False
    config: AgentConfig = AgentConfig()
    progress: Callable[[ToolProgress], None] = lambda _: None
    name: str = ""
    emit: Callable[[Output], None] = lambda _: None

    def relay(self, output: Output) -> None:
        """Tell there what the sub-agent tells here."""
        below = output if isinstance(output, SubAgentOutput) else None
        path = (self.name, *(() if below is None else below.path))
        told = output if below is None else below.output
        self.emit(SubAgentOutput(self.call, path, told))


def make_listener(
    own: Callable[[Output], None] | None, origin: ParentCall | None
) -> Callable[[Output], None] | None:
    """Who is told what happens: a program's own listener, and who listens where it works for."""
    if origin is None:
        return own

    def listen(output: Output) -> None:
        if own is not None:
            own(output)
        origin.relay(output)

    return listen


CallWork: TypeAlias = Callable[[], Awaitable[Outcome]]
"""Works on a call to its outcome."""


async def work_directly(_: ToolCall, work: CallWork) -> Outcome:
    """Work on a call with nothing around it."""
    return await work()


class SubAgent(Struct, frozen=True):
    """A tool whose calls are worked on by agents.

    `begin` makes the engine of a new thread for a task, `reopen` that of one that is there.
    `effect` is that of a call: a sub-agent that only reads changes nothing. `follow` is told of one
    that is at work when the thread it works for has another configuration from now on. `around` is
    given a call and what works on it, and answers with the outcome: its own, where that is refused.
    """

    name: str
    description: str
    begin: Callable[[str, ParentCall], ChildEngine]
    reopen: Callable[[str, ParentCall], ChildEngine]
    effect: EffectClass = EffectClass.IDEMPOTENT
    follow: Callable[[ChildEngine, AgentConfig], None] = lambda child, config: None
    around: Callable[[ToolCall, CallWork], Awaitable[Outcome]] = work_directly

    @property
    def definition(self) -> ToolDefinition:
        """The tool as the parent's model is told of it."""
        return ToolDefinition(self.name, self.description, _SCHEMA, self.effect, RiskLevel.LOW)


async def reject_unattended(_: Question) -> Verdict:
    """What a sub-agent is told where no person can be asked."""
    reason = "nobody is there to be asked: a sub-agent cannot wait for a person"
    return Verdict(Rejected(reason))


async def run_sub_agent(
    agent: SubAgent,
    call: ToolCall,
    origin: ParentCall,
    children: Mapping[str, str],
    started: Callable[[str, str], Awaitable[None]],
    at_work: MutableMapping[str, ChildEngine],
    open_child: Callable[[Callable[[], ChildEngine]], Awaitable[ChildEngine]],
) -> tuple[Outcome, Usage | None]:
    """Work on one call to its outcome; and what that used of models.

    Args:
        agent: whose call it is.
        call: as the model asked.
        origin: whom the sub-agent works for, and what it may use.
        children: the threads that were begun already, by call.
        started: makes it durable that a call has a thread; called before the thread does anything.
        at_work: who works on which call; one that is cut short stays there.
        open_child: begins or opens its thread, however long the store takes.
    """
    if origin.depth > DEPTH_MAX:
        return _make_failure(call, f"sub-agents may be nested {DEPTH_MAX} deep, no deeper"), None
    task = _parse_task(call)
    if task is None:
        why = 'it takes one argument: {"task": "what the sub-agent is to do"}'
        return _make_failure(call, why, ToolErrorKind.INVALID_ARGUMENTS), None
    usage: Usage | None = None

    async def work() -> Outcome:
        nonlocal usage
        child: ChildEngine | None = None
        try:
            known = children.get(call.id)
            if known is None:
                child = await open_child(lambda: agent.begin(task, origin))
                await started(call.id, child.thread_id)
            else:
                child = await open_child(lambda: agent.reopen(known, origin))
            at_work[call.id] = child
            outcome = _make_outcome(call, await child.resume(), child.thread_id)
            usage = child.total_usage
            del at_work[call.id]
            return outcome
        except TreadleError as error:
            at_work.pop(call.id, None)
            usage = None if child is None else child.total_usage
            return _make_failure(call, f"the sub-agent failed: {error.message}")
        finally:
            if child is not None:
                await child.close()

    return await agent.around(call, work), usage


def _parse_task(call: ToolCall) -> str | None:
    try:
        arguments = msgspec.json.decode(call.arguments_json)
    except (msgspec.DecodeError, RecursionError):
        return None
    task = arguments.get("task") if isinstance(arguments, dict) else None
    return task if isinstance(task, str) and task.strip() else None


def cancel_sub_agent_call(call: ToolCall, child: ChildEngine, reason: str) -> Outcome:
    """How a call ends whose sub-agent is stopped because its parent is."""
    why = f"{reason}; the sub-agent had not got to an answer (thread {child.thread_id})"
    return _make_failure(call, why, ToolErrorKind.CANCELLED)


def _make_outcome(call: ToolCall, finished: TurnFinished, thread: str) -> Outcome:
    if finished.outcome is TurnOutcome.DONE:
        return ToolExecutionOutcome.Success(call.id, finished.answer)
    why = finished.error or finished.outcome.value
    return _make_failure(call, f"the sub-agent did not get to an answer: {why} (thread {thread})")


def _make_failure(
    call: ToolCall, message: str, kind: ToolErrorKind = ToolErrorKind.FAILED
) -> ToolExecutionOutcome.Error:
    return ToolExecutionOutcome.Error(call.id, ToolError(kind, message))
