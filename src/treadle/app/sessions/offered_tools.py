"""Which tools a thread is offered, and what a call of one that it is not offered is told.

All approval modes offer the same ones. What cannot be had here is left out: with it a model would
spend rounds on calls that are refused each time. It may call it all the same, because it was
offered it before or knows it from elsewhere, and reads then why it is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from treadle.app.sessions.approval_modes import MUTATING_TOOLS
from treadle.core.call_decision import FORBIDDEN_REASON
from treadle.core.tool_families import COMMAND_NAME, FILE_CHANGES, ToolKind, names_of
from treadle.sandbox.policy import Level
from treadle.tools.command_access import READ_ONLY
from treadle.tools.registry import AnyTool
from treadle.tools.web_fetch import NO_WEB

FILE_WRITERS: Final = names_of(*FILE_CHANGES)
"""The tools that change files without a command; no sandbox holds them."""
NETWORK_READERS: Final = names_of(ToolKind.FETCH)
"""The tools that are for nothing but the network."""
NETWORK_ARGUMENT: Final = "network"
"""With it a command says that it needs the network."""


class OfferedTools(Struct, frozen=True):
    """The tools that are offered, and why others are not, by name."""

    tools: tuple[AnyTool, ...]
    unavailable: Mapping[str, str]


def choose_tools(
    tools: Sequence[AnyTool], level: Level, *, only_reads: bool, has_network: bool
) -> OfferedTools:
    """Those of a thread's tools that can be had.

    Args:
        tools: all of the thread.
        level: what commands may change.
        only_reads: whether the thread is in plan mode.
        has_network: whether a person may be asked for the network, or has allowed it.
    """
    unavailable = dict.fromkeys(FILE_WRITERS if level is Level.READ_ONLY else (), READ_ONLY)
    if not has_network:
        unavailable |= dict.fromkeys(NETWORK_READERS, NO_WEB)
        tools = [_leave_out_network(tool) for tool in tools]
    offered = tuple(tool for tool in tools if tool.definition.name not in unavailable)
    if only_reads:
        # Also those that a task of an earlier version was not offered in this mode.
        lacking = MUTATING_TOOLS - {tool.definition.name for tool in offered}
        unavailable |= dict.fromkeys(lacking, FORBIDDEN_REASON)
    return OfferedTools(offered, unavailable)


def _leave_out_network(tool: AnyTool) -> AnyTool:
    is_command = tool.definition.name == COMMAND_NAME
    return tool.without_argument(NETWORK_ARGUMENT) if is_command else tool
