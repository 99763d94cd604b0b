"""Approval modes, as the command line offers them and as threads keep them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from treadle.config.approval_modes import APPROVAL_MODES
from treadle.config.settings import ApprovalMode
from treadle.core.approval import NeverAsk, OnlyRead, Policy
from treadle.core.config import AgentConfig
from treadle.core.tool_families import FAMILIES
from treadle.core.tools import EffectClass
from treadle.tools.builtin import builtin_tools

MODES: Final[tuple[ApprovalMode, ...]] = tuple(APPROVAL_MODES)

MUTATING_TOOLS: Final = frozenset(
    tool.definition.name
    for family in FAMILIES
    for tool in builtin_tools(family)
    if tool.definition.effect is not EffectClass.READ
)
"""The tools whose calls `plan` refuses."""


class Approval(Struct, frozen=True):
    """What an agent may do by itself.

    `name` is empty for a thread of the library whose policy is none of the modes. `only_reads`
    says that no call runs which may change what lasts.
    """

    name: str
    policy: Policy
    only_reads: bool

    @property
    def asks_nothing(self) -> bool:
        """Whether whatever is called runs by itself."""
        return not self.only_reads and isinstance(self.policy, NeverAsk)

    @property
    def notice(self) -> str:
        """What a person should know of it when work begins; empty if there is nothing to say."""
        if self.name == "plan":
            return (
                "approval mode plan: the agent can read files and run commands that only read, but "
                "change nothing; --approval-mode ask, auto-edit or auto lets it"
            )
        return ""


def make_approval(mode: ApprovalMode) -> Approval:
    """What a mode means."""
    return Approval(mode, APPROVAL_MODES[mode], mode == "plan")


def find_recorded_approval(config: AgentConfig) -> Approval:
    """What a thread was last worked on with: nothing is allowed that was not allowed before.

    A thread that was offered no tool of ours that changes something gets none, whatever else the
    program that began it had offered.
    """
    if isinstance(config.approval, OnlyRead):
        return make_approval("plan")
    only_reads = not any(tool.name in MUTATING_TOOLS for tool in config.tools)
    if only_reads and config.approval == NeverAsk():  # how `plan` was recorded before
        return make_approval("plan")
    for mode in MODES:
        found = make_approval(mode)
        if found.policy == config.approval and found.only_reads == only_reads:
            return found
    return Approval("", config.approval, only_reads)
