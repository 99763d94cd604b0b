"""Usage in words for people."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from treadle.core.llm import Usage

_CENT: Final = Decimal("0.01")
_DIGITS_OF_LITTLE: Final = 2


def describe_usage(usage: Usage) -> str:
    """One line: `12,345 tokens in (9,000 cached), 678 out, $0.0423`.

    The cost is left out where nobody asked for it: a scripted model has none.
    """
    about = "about " if usage.estimated else ""
    unit = "token" if usage.input_tokens == 1 else "tokens"
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    tokens = f"{about}{usage.input_tokens:,} {unit} in{cached}, {usage.output_tokens:,} out"
    if usage.web_searches:
        searches = "search" if usage.web_searches == 1 else "searches"
        tokens += f", {usage.web_searches:,} web {searches}"
    cost = describe_cost(usage)
    return f"{tokens}, {cost}" if cost else tokens


def describe_cost(usage: Usage) -> str:
    """What it cost, as far as prices are known; empty where nobody asked for it."""
    return describe_priced(usage.cost_usd, usage.unpriced_tokens)


def describe_priced(cost_usd: Decimal | None, unpriced: int) -> str:
    """What the tokens of known price cost, if there are any, and how many others there are."""
    if cost_usd is None:
        return "price unknown" if unpriced else ""
    if not unpriced:
        return describe_dollars(cost_usd)
    unit = "token" if unpriced == 1 else "tokens"
    return f"{describe_dollars(cost_usd)} and {unpriced:,} {unit} of unknown price"


def describe_dollars(amount: Decimal) -> str:
    """An amount for people: cents from a dollar on, below it hundredths of a cent.

    Below a cent two digits, however small they are: an answer that costs something never reads as
    one that costs nothing.
    """
    if amount == 0:
        return "$0"
    if amount >= 1:
        places = 2
    elif amount >= _CENT:
        places = 4
    else:
        places = _DIGITS_OF_LITTLE - 1 - amount.adjusted()
    rounded = amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    whole, _, decimals = f"{rounded:,f}".partition(".")
    return f"${whole}.{decimals.rstrip('0'):0<2}"
