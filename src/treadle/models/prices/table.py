"""What an answer costs and a model reads, by the data that the package genai-prices carries.

The package is loaded when the first price is asked for, which takes about a second. It reads no
network: what it knows is what was known when it was released.
"""

from __future__ import annotations

from decimal import Decimal

from treadle.core.llm import Usage


def get_context_window(provider_id: str, model: str) -> int | None:
    """How many tokens a model reads, as the same data has it; `None` if it is not known.

    Args:
        provider_id: `anthropic`, `openai`, ...; only a provider of exactly this name is looked at.
        model: as it is asked for, with or without what gateways put before it.
    """
    from genai_prices.data_snapshot import get_snapshot

    for name in (model, model.rpartition("/")[2]):
        try:
            provider, found = get_snapshot().find_provider_model(name, None, provider_id, None)
        except LookupError:
            continue
        if provider.id == provider_id and found.context_window:
            return int(found.context_window)
    return None


def compute_price(provider_id: str, model: str, usage: Usage) -> Decimal | None:
    """What `usage` costs in US dollars; `None` if the price is not known.

    Only a provider of exactly this name has a price: the package would take an endpoint that is
    named `my-openai-proxy` for OpenAI. A model that has a price for reading only (embeddings), or
    per minute of sound, has none for what it writes.

    Args:
        provider_id: `anthropic`, `openai`, ...
        model: as it was asked for, with or without a date.
        usage: tokens, those of the cache included in `input_tokens`, as the package counts too.
    """
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
        web_searches=usage.web_searches,
    )
    try:
        found = genai_prices.calc_price(tokens, model, provider_id=provider_id)
    except LookupError:
        return None
    prices = {key: value for key, value in vars(found.model_price).items() if value is not None}
    is_partial = (usage.input_tokens and "input_mtok" not in prices) or (
        usage.output_tokens and "output_mtok" not in prices
    )
    # A model without any prices is one that is free.
    if found.provider.id != provider_id or (prices and is_partial):
        return None
    return found.total_price
