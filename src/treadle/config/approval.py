"""What each approval mode means, and which of two allows more."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from treadle.config.settings import ApprovalMode
from treadle.core.approval import AskAbove, NeverAsk, Policy
from treadle.core.tools import RiskLevel

APPROVAL_MODES: Final[Mapping[ApprovalMode, Policy]] = MappingProxyType(
    {
        "plan": NeverAsk(),
        "ask": AskAbove(RiskLevel.MEDIUM),
        "auto-edit": AskAbove(RiskLevel.HIGH),
        "auto": NeverAsk(),
    }
)
"""Which calls need a person's yes; the mode that allows least comes first.

`plan` needs no policy to be the narrowest: it offers only tools that read.
"""


def is_wider(mode: ApprovalMode, other: ApprovalMode) -> bool:
    """Whether a mode lets the agent do more by itself than another one does."""
    order = list(APPROVAL_MODES)
    return order.index(mode) > order.index(other)
