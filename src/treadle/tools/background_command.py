"""The tool that looks after commands in the background."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from treadle.core.approval import Scope
from treadle.core.tools import Access, EffectClass, RiskLevel
from treadle.tools.background import BackgroundCommand, BackgroundCommands
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import Arguments, tool

WAIT_S_MAX: Final = 3600.0
_TAIL_SIZE: Final = 2000
"""Characters of the newest output that a look shows; `read_file` reads the rest."""


def _scope_of_look(_: Arguments, __: ToolContext) -> Scope:
    """What is looked at or stopped here is what the agent itself has begun."""
    return Scope(access=Access.READ)


@tool(effect=EffectClass.READ, risk=RiskLevel.LOW, scope_of=_scope_of_look)
async def background_command(
    context: ToolContext,
    call: str = "",
    timeout_s: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 0.0,
    stop: bool = False,
) -> str:
    """Look after commands that run in the background: how they stand, and what they printed last.

    You are told of one that ends with your next result, so there is no need to look again and
    again: do other work meanwhile, or wait here.

    Args:
        context: What runs in the background.
        call: The id that the command was given when it began; empty for all that run.
        timeout_s: Seconds to wait until it ends, or until the first of all does; 0 just looks.
        stop: Whether to end it, with all that it has started.
    """
    commands = context.background
    chosen = () if commands is None else commands.running
    if call:
        chosen = tuple(one for one in chosen if one.call_id == call)
    if commands is None or not chosen:
        return _explain_none(commands, call)
    if stop:
        await commands.stop(chosen)
    elif timeout_s:
        await commands.wait([one.call_id for one in chosen], timeout_s)
    return "\n".join([await _describe(one, commands) for one in chosen])


def _explain_none(commands: BackgroundCommands | None, call: str) -> str:
    if not call:
        return "[no command runs in the background]"
    known = "" if commands is None else ", ".join(one.call_id for one in commands.running)
    why = f"it has ended, or was never begun; running are: {known or 'none'}"
    return f"[no command {call} runs in the background: {why}]"


async def _describe(one: BackgroundCommand, commands: BackgroundCommands) -> str:
    if commands.find(one.call_id) is None:
        return f"[{one.call_id} has ended after {one.age_s:.0f} s: {one.command}]"
    text = await one.read()
    line_count = text.count("\n") + (not text.endswith("\n")) if text else 0
    head = f"[{one.call_id} runs for {one.age_s:.0f} s: {one.command}]\n"
    if not text:
        return f"{head}[it has printed nothing so far]"
    shown = text[-_TAIL_SIZE:]
    cut = f"[the last of {line_count} lines:]\n" if len(shown) < len(text) else ""
    return f"{head}{cut}{shown}"
