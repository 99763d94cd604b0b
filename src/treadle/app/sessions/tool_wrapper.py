"""The tools of a session, with something of its host's or its person's around each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.runtime.ports import Tools, have_questions, have_start
from treadle.runtime.refused_calls import have_checks
from treadle.runtime.subagents import CallWork
from treadle.server_questions import AnswerServer
from treadle.tools.background import BackgroundCommands

RunCall: TypeAlias = Callable[[ToolCall, CallWork, Sightings | None], Awaitable[Outcome]]
"""Runs a call by `CallWork`, or says why it does not run; knows what the model knows of files."""


class ToolWrapper:
    """The runtime's `Tools` port: those of another, whose calls somebody else begins and ends.

    Args:
        tools: who runs calls.
        run_call: what is around them.
    """

    def __init__(self, tools: Tools, run_call: RunCall) -> None:
        self._tools = tools
        self._run_call = run_call

    def definitions(self) -> Sequence[ToolDefinition]:
        """See `Tools`."""
        return self._tools.definitions()

    def recall(self, recorded: Sequence[ToolDefinition]) -> None:
        """See `StartedTools`."""
        if have_start(self._tools):
            self._tools.recall(recorded)

    async def prepare(self) -> Sequence[str]:
        """See `StartedTools`."""
        return await self._tools.prepare() if have_start(self._tools) else ()

    def answer_with(self, thread: str, answer: AnswerServer) -> None:
        """See `AskingTools`."""
        if have_questions(self._tools):
            self._tools.answer_with(thread, answer)

    def risk_of(self, call: ToolCall) -> RiskLevel | None:
        """See `Tools`."""
        return self._tools.risk_of(call)

    def scope_of(self, call: ToolCall) -> Scope | None:
        """See `Tools`."""
        return self._tools.scope_of(call)

    def refusal_of(
        self, call: ToolCall, sightings: Sightings | None = None, *, explains: bool = False
    ) -> ToolExecutionOutcome.Error | None:
        """See `CheckedTools`. Nothing around calls is told of one that would fail."""
        if not have_checks(self._tools):
            return None
        return self._tools.refusal_of(call, sightings, explains=explains)

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        """Run one call, with what is around it."""

        def work() -> Awaitable[Outcome]:
            return self._tools.execute(
                call, key=key, progress=progress, sightings=sightings, background=background
            )

        return await self._run_call(call, work, sightings)
