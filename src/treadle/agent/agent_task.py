"""A task that an agent is at work on, for programs that want more than its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Generic, Self

from treadle.agent.decisions import make_approvals, make_rejections
from treadle.agent.partial_values import follow_answer
from treadle.agent.result import Result
from treadle.agent.type_variables import OutputT
from treadle.core.approval import Question
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.task.trace import Trace
from treadle.outputs import Output
from treadle.runtime.engine import AgentEngine


class AgentTask(Generic[OutputT]):
    """One task, on a thread of its own. `Agent.task` and `Agent.resume_task` open one.

    An asynchronous context manager: leaving it stops what is running, which stays on disk to be
    gone on with.

    Args:
        engine: works on it.
    """

    def __init__(self, engine: AgentEngine) -> None:
        self._engine = engine

    @property
    def id(self) -> str:
        """The thread of the task; `Agent.resume_task` goes on with it, in any process."""
        return self._engine.thread_id

    @property
    def messages(self) -> Sequence[Message]:
        """All messages so far."""
        return self._engine.conversation

    @property
    def questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word; `approve` and `reject` answer them."""
        return self._engine.questions

    @property
    def usage(self) -> Usage:
        """What it has used of models so far, its sub-agents included."""
        return self._engine.total_usage

    @property
    def trace(self) -> Trace:
        """What each state did so far."""
        return self._engine.trace

    async def run(self) -> Result[OutputT]:
        """Work until it is over, and give its answer. A task that is over answers at once.

        Raises:
            BudgetExceeded: a limit of steps, tokens, cost or time is used up.
            AgentFailed: the task ended without an answer.
            ApprovalNeeded: a call waits for a person, and nobody is there to be asked.
            AgentError: it was stopped before its end, or no model answers for now; run it again.
            StoreError: the disk refused; what was acknowledged is safe.
        """
        text = await self._engine.run()
        output: Any = self._engine.output
        version = self._engine.version
        mode, usage = self._engine.output_mode, self._engine.total_usage
        return Result(output, text, self.id, version, usage, mode)

    def stream(self) -> AsyncGenerator[Output, None]:
        """Work, and tell everything that happens; the last output is `TurnFinished`.

        Whoever breaks out stops the work where it is; `run` or another `stream` goes on with it.
        """
        return self._engine.stream()

    def stream_output(self) -> AsyncGenerator[Any, None]:
        """`stream` as what is there of the answer while it arrives: plain data, the whole last.

        For agents whose answers are of a type; `run` gives the value then.
        """
        return follow_answer(self.stream())

    async def approve(self, *questions: Question) -> Result[OutputT]:
        """Say yes to these calls, or to all that wait, and go on. Raises as `run`."""
        await self._engine.decide(make_approvals(questions or self.questions))
        return await self.run()

    async def reject(self, *questions: Question, reason: str = "") -> Result[OutputT]:
        """Say no to these calls, or to all that wait, and go on. Raises as `run`.

        Args:
            questions: the calls.
            reason: what the model is told.
        """
        await self._engine.decide(make_rejections(questions or self.questions, reason))
        return await self.run()

    def cancel(self, reason: str = "cancelled by the program") -> None:
        """Stop what is running; the task stays where it is, to be gone on with."""
        self._engine.cancel(reason)

    async def close(self) -> None:
        """Stop work, record what is known, free the thread."""
        await self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
