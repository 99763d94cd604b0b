"""What each approval mode means, and which of two allows more."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from treadle.config.settings import ApprovalMode
from treadle.core.approval import AskAbove, NeverAsk, OnlyRead, Policy
from treadle.core.tools import RiskLevel

APPROVAL_MODES: Final[Mapping[ApprovalMode, Policy]] = MappingProxyType(
    {
        "plan": OnlyRead(),
        "ask": AskAbove(RiskLevel.MEDIUM),
        "auto-edit": AskAbove(RiskLevel.HIGH),
        "auto": NeverAsk(),
    }
)
"""Which calls need a person's yes; the mode that allows least comes first.

All offer the same tools, so that a change of mode leaves the provider's cache as it is: in `plan`
those that may change something are refused.
"""


def is_wider(mode: ApprovalMode, other: ApprovalMode) -> bool:
    """Whether a mode lets the agent do more by itself than another one does."""
    order = list(APPROVAL_MODES)
    return order.index(mode) > order.index(other)
