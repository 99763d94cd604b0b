"""The values in answers about what was used of models."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct


class ModelUsageLine(Struct, frozen=True, kw_only=True):
    """What a user has used of a model on a day of UTC, in how many requests.

    `model` is empty where nobody knows: what was merged of another machine. `cost_usd` is what the
    tokens cost of which a price is known, and null if there are none; `unpriced_tokens` are the
    others. With `has_estimates` some of the tokens were guessed, as a provider said nothing.
    """

    day: str
    user: str
    organization: str
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    unpriced_tokens: int
    cost_usd: Decimal | None
    has_estimates: bool


class ModelUsage(Struct, frozen=True):
    """What was used, the newest day first."""

    lines: tuple[ModelUsageLine, ...]
