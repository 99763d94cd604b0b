"""Which tools a thread is offered, and what a call of one that it is not offered is told.

All approval modes offer the same ones. What cannot be had here is left out: with it a model would
spend rounds on calls that are refused each time. It may call it all the same, because it was
offered it before or knows it from elsewhere, and reads then why it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from treadle.app.sessions.approval_modes import MUTATING_TOOLS
from treadle.core.call_decision import FORBIDDEN_REASON
from treadle.core.tool_families import FILE_CHANGES, ToolKind, kind_of, names_of
from treadle.sandbox.policy import Level
from treadle.thread.fold import CHAT, ThreadFold
from treadle.tools.builtin import builtin_tools
from treadle.tools.command_access import READ_ONLY
from treadle.tools.function_tool import AnyTool
from treadle.tools.web_fetch import NO_WEB

FILE_WRITERS: Final = names_of(*FILE_CHANGES)
"""The tools that change files without a command; no sandbox holds them."""
NETWORK_READERS: Final = names_of(ToolKind.FETCH)
"""The tools that are for nothing but the network."""
NETWORK_ARGUMENT: Final = "network"
"""With it a command says that it needs the network."""

_NOT_FOR_SUB_AGENTS: Final = (
    "this tool is not for your job, and nothing ran: say in your answer what you would do with it"
)


class OfferedTools(Struct, frozen=True):
    """The tools that are offered, and why others are not, by name."""

    tools: tuple[AnyTool, ...]
    unavailable: Mapping[str, str]


def choose_family(thread: ThreadFold | None, find_family: Callable[[], str]) -> str:
    """The family in whose shape a thread is offered tools: its own, or that of its first model.

    Args:
        thread: the thread; `None` if it begins now. Another program told its models of other
            tools: what is imported of it begins here too, and so does what nobody has spoken in.
        find_family: that of the model.
    """
    is_new = (
        thread is None
        or (thread.header.machine == CHAT and not thread.conversation)
        or (thread.imported_from is not None and not thread.machine.config.system_prompt)
    )
    return find_family() if thread is None or is_new else thread.machine.config.family


def list_tools(family: str, thread: ThreadFold | None) -> list[AnyTool]:
    """The tools of a family; for a task that keeps those it was begun with, those alone."""
    tools = builtin_tools(family)
    if thread is None:
        return [*tools]
    offered = {tool.name for tool in thread.machine.config.tools}
    return [tool for tool in tools if tool.definition.name in offered]


def choose_tools(
    tools: Sequence[AnyTool],
    level: Level,
    *,
    family: str,
    only_reads: bool,
    has_network: bool,
    left_out: Collection[str] = (),
) -> OfferedTools:
    """Those of a thread's tools that can be had.

    Args:
        tools: all of the thread.
        level: what commands may change.
        family: in whose shape they are.
        only_reads: whether the thread is in plan mode.
        has_network: whether a person may be asked for the network, or has allowed it.
        left_out: the names of those that are not for a sub-agent.
    """
    unavailable = dict.fromkeys(FILE_WRITERS if level is Level.READ_ONLY else (), READ_ONLY)
    if not has_network:
        unavailable |= dict.fromkeys(NETWORK_READERS, NO_WEB)
        tools = [_leave_out_network(tool) for tool in tools]
    unavailable |= dict.fromkeys(left_out, _NOT_FOR_SUB_AGENTS)
    offered = tuple(tool for tool in tools if tool.definition.name not in unavailable)
    if only_reads:
        # Also those that a task of an earlier version was not offered in this mode.
        known = {tool.definition.name for tool in builtin_tools(family)}
        lacking = MUTATING_TOOLS & known - {tool.definition.name for tool in offered}
        unavailable |= dict.fromkeys(lacking, FORBIDDEN_REASON)
    return OfferedTools(offered, unavailable)


def _leave_out_network(tool: AnyTool) -> AnyTool:
    is_command = kind_of(tool.definition.name) is ToolKind.RUN
    return tool.without_argument(NETWORK_ARGUMENT) if is_command else tool
