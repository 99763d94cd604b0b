"""Calls around which the person's hooks run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from treadle.app.sessions.hooks import Hooks
from treadle.app.sessions.tool_wrapper import ToolWrapper
from treadle.core.approval import NO_SCOPE, Scope
from treadle.core.call_decision import describe_change
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    Outcome,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
)
from treadle.runtime.ports import Tools
from treadle.runtime.subagents import CallWork


def add_hooks(tools: Tools, hooks: Hooks) -> Tools:
    """The tools, with hooks before and after each call."""

    async def run_call(call: ToolCall, work: CallWork, _: Sightings | None) -> Outcome:
        return await run_between_hooks(hooks, call, work, tools.scope_of)

    return ToolWrapper(tools, run_call)


def _find_no_scope(_: ToolCall) -> None:
    """That of calls which are bound to nothing."""


async def run_between_hooks(
    hooks: Hooks,
    call: ToolCall,
    work: CallWork,
    scope_of: Callable[[ToolCall], Scope | None] = _find_no_scope,
) -> Outcome:
    """Run one call, unless a hook says no; what a hook says afterwards stands at its end.

    A hook takes its time. A call that is not any more, after it, what was allowed before it does
    not run; one that has ended has its result, even if the hook after it is cut short.

    Args:
        hooks: who is asked before, and told after.
        call: as the model asked.
        work: runs it.
        scope_of: what a yes to it covers, as things stand.
    """
    if hooks.has("before_tool"):
        before = scope_of(call) or NO_SCOPE
        if no := await hooks.before_tool(call):
            return _make_rejection(call, f"blocked by a hook of the user's, nothing ran: {no}")
        if why := _explain_change(before, scope_of(call) or NO_SCOPE):
            return _make_rejection(call, why)
    outcome = await work()
    try:
        said = await hooks.after_tool(call, outcome)
    except asyncio.CancelledError:
        return outcome
    return _append_text(outcome, f"[a hook of the user's says: {said}]") if said else outcome


def _explain_change(before: Scope, now: Scope) -> str:
    """Why a call may not run that was allowed as it was before a hook ran; empty if it may."""
    what = describe_change(before.binding, now.binding)
    if not what and now.must_ask and not before.must_ask:
        what = "what it would do"
    if not what:
        return ""
    return (
        f"{what} has changed since this call was allowed, while a hook of the user's looked at it; "
        "nothing ran; ask for it again"
    )


def _make_rejection(call: ToolCall, message: str) -> Outcome:
    return ToolExecutionOutcome.Error(call.id, ToolError(ToolErrorKind.REJECTED, message))


def _append_text(outcome: Outcome, words: str) -> Outcome:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        output = f"{outcome.output}\n{words}" if outcome.output else words
        return replace(outcome, output=output)
    error = outcome.error
    output = f"{error.output}\n{words}" if error.output else words
    return replace(outcome, error=replace(error, output=output))
