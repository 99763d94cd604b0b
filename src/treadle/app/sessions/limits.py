"""What a person lets a turn or a task use."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treadle.core.budget import TokenBudget

MODES: Final = ("plan", "ask", "auto-edit", "auto")
"""As `app/sessions/approval_modes.py` has them, which takes longer to import."""


def make_budget(
    max_tokens: int | None, max_cost: Decimal | None, time_limit: float | None
) -> TokenBudget | None:
    """The budget of these limits; `None` if nothing was limited.

    Args:
        max_tokens: of all requests together.
        max_cost: in US dollars.
        time_limit: in seconds.
    """
    if max_tokens is None and max_cost is None and time_limit is None:
        return None
    from treadle.core.budget import TokenBudget

    return TokenBudget(max_total=max_tokens, max_cost_usd=max_cost, max_time_s=time_limit)
