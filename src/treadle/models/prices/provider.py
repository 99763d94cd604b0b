"""A provider that tells what the answers of another one cost.

To know a price may take a second the first time, so that is begun in a thread when a stream
begins, and is over before most answers are. What fails there makes a price unknown, nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from decimal import Decimal

from msgspec.structs import replace

from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits, Usage
from treadle.models.wrapped_provider import WrappedProvider

_log = logging.getLogger("treadle.models")


class PricedProvider:
    """A provider that puts the cost of each answer into its usage.

    A cost that is there already, because the provider itself told it, stays.

    Args:
        inner: who answers; closed with this provider.
        price: what a usage costs, by provider and model; `None` if nobody knows. Called in
            threads.
    """

    def __init__(
        self, inner: WrappedProvider, price: Callable[[str, str, Usage], Decimal | None]
    ) -> None:
        self._inner = inner
        self._price = price
        self._is_warm = False

    @property
    def name(self) -> str:
        """The name of who answers."""
        return self._inner.name

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the answer; its end knows its cost, or how many tokens have none."""
        self._warm_up(request.model)
        async with aclosing(self._inner.stream(request)) as stream:
            async for event in stream:
                match event:
                    case LlmEvent.Completed(response) if response.usage is not None:
                        usage = await self._add_price(request.model, response.usage)
                        yield replace(event, response=replace(response, usage=usage))
                    case LlmEvent.Error(error) if error.usage is not None:
                        usage = await self._add_price(request.model, error.usage)
                        yield replace(event, error=replace(error, usage=usage))
                    case _:
                        yield event

    def traits(self, model: str) -> ModelTraits:
        """Those of who answers."""
        return self._inner.traits(model)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """As who answers counts them."""
        return await self._inner.count_tokens(request)

    async def aclose(self) -> None:
        """Close who answers."""
        await self._inner.aclose()

    def _warm_up(self, model: str) -> None:
        """Begin to load the prices, once; nobody waits for it, nor hears of its failure."""
        if not self._is_warm:
            self._is_warm = True
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._load_prices, model)

    def _load_prices(self, model: str) -> None:
        with suppress(Exception):  # it fails again, and is logged, when it matters
            self._price(self._inner.name, model, Usage())

    async def _add_price(self, model: str, usage: Usage) -> Usage:
        if usage.cost_usd is not None or usage.unpriced_tokens:
            return usage
        cost = await asyncio.to_thread(self._compute_price, model, usage)
        if cost is None:
            return replace(usage, unpriced_tokens=usage.input_tokens + usage.output_tokens)
        return replace(usage, cost_usd=cost)

    def _compute_price(self, model: str, usage: Usage) -> Decimal | None:
        try:
            return self._price(self._inner.name, model, usage)
        except Exception:  # noqa: BLE001  the answer matters more than its price
            _log.warning("the price of %s could not be found out", model, exc_info=True)
            return None
