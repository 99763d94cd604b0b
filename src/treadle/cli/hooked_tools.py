"""Tools around whose calls the person's hooks run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from treadle.cli.hooks import Hooks
from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.runtime.ports import Tools


class HookedTools:
    """The runtime's `Tools` port: those of another, with hooks before and after each call.

    Args:
        tools: who runs calls.
        hooks: who is asked before, and told after.
    """

    def __init__(self, tools: Tools, hooks: Hooks) -> None:
        self._tools = tools
        self._hooks = hooks

    def definitions(self) -> Sequence[ToolDefinition]:
        """See `Tools`."""
        return self._tools.definitions()

    def risk_of(self, call: ToolCall) -> RiskLevel | None:
        """See `Tools`."""
        return self._tools.risk_of(call)

    def scope_of(self, call: ToolCall) -> Scope | None:
        """See `Tools`."""
        return self._tools.scope_of(call)

    async def execute(
        self, call: ToolCall, *, key: str, progress: Callable[[ToolProgress], None]
    ) -> Outcome:
        """Run one call, unless a hook says no; what a hook says afterwards stands at its end."""
        if no := await self._hooks.before_tool(call):
            message = f"blocked by a hook of the user's, nothing ran: {no}"
            return ToolExecutionOutcome.Error(call.id, ToolError(ToolErrorKind.REJECTED, message))
        outcome = await self._tools.execute(call, key=key, progress=progress)
        said = await self._hooks.after_tool(call, outcome)
        return _with_words(outcome, f"[a hook of the user's says: {said}]") if said else outcome


def _with_words(outcome: Outcome, words: str) -> Outcome:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        output = f"{outcome.output}\n{words}" if outcome.output else words
        return replace(outcome, output=output)
    error = outcome.error
    output = f"{error.output}\n{words}" if error.output else words
    return replace(outcome, error=replace(error, output=output))
