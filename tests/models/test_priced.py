"""A provider that tells prices passes everything through, and knows what it costs."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal

import pytest
from msgspec.structs import replace

from models.conformance import ProviderConformance, drain
from models.conformance import request as make_request
from models.tapes import TRAITS, Playback
from models.test_scripted_conformance import ASKED, REPLIES
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.models.prices.provider import PricedProvider
from treadle.models.prices.table import compute_price
from treadle.models.scripted.provider import ScriptedModel

ASK = make_request("a")
USAGE = Usage(10, 5)


def a_cent(provider: str, model: str, usage: Usage) -> Decimal | None:
    return Decimal("0.01")


def nothing_known(provider: str, model: str, usage: Usage) -> Decimal | None:
    return None


def answer(usage: Usage | None) -> list[LlmEvent.TextDelta | LlmEvent.Completed]:
    response = LlmResponse(Message.assistant("yes"), usage, "stop")
    return [LlmEvent.TextDelta("yes"), LlmEvent.Completed(response, "now")]


async def usage_of(usage: Usage | None, by) -> Usage | None:
    *_, end = await drain(PricedProvider(Playback(answer(usage)), by).stream(ASK))
    return end.response.usage


class TestAPricedProvider(ProviderConformance):
    ASKED = ASKED

    @pytest.fixture
    def provider(self):
        return PricedProvider(ScriptedModel.of(*REPLIES), a_cent)


class TestAPricedProviderByRealPrices(TestAPricedProvider):
    @pytest.fixture
    def provider(self):
        return PricedProvider(ScriptedModel.of(*REPLIES), compute_price)


class TestTheCost:
    async def test_it_is_in_the_usage_and_all_else_stays(self):
        events = await drain(PricedProvider(Playback(answer(USAGE)), a_cent).stream(ASK))
        assert events == answer(replace(USAGE, cost_usd=Decimal("0.01")))

    async def test_it_is_in_the_usage_of_a_failure_too(self):
        error = LlmError(LlmErrorKind.CUT_STREAM, "no", usage=USAGE)
        provider = PricedProvider(Playback([LlmEvent.Error(error, 0.5)]), a_cent)
        (event,) = await drain(provider.stream(ASK))
        assert event == LlmEvent.Error(
            replace(error, usage=replace(USAGE, cost_usd=Decimal("0.01"))), 0.5
        )

    async def test_without_a_price_the_tokens_are_counted_as_unpriced(self):
        assert await usage_of(USAGE, nothing_known) == replace(USAGE, unpriced_tokens=15)

    async def test_nothing_is_a_price(self):
        usage = await usage_of(USAGE, lambda *_: Decimal(0))
        assert usage == replace(USAGE, cost_usd=Decimal(0))

    async def test_without_a_usage_there_is_none(self):
        assert await usage_of(None, a_cent) is None

    @pytest.mark.parametrize("more", [{"cost_usd": Decimal(7)}, {"unpriced_tokens": 3}])
    async def test_what_the_provider_says_of_its_cost_stays(self, more):
        told = replace(USAGE, **more)
        assert await usage_of(told, a_cent) == told

    async def test_it_is_asked_for_by_provider_model_and_usage(self):
        asked = []

        def by(*what: object) -> Decimal | None:
            asked.append(what)
            return None

        await usage_of(USAGE, by)
        assert asked[-1] == ("playback", "any-model", USAGE)

    async def test_a_price_that_fails_is_unknown_and_is_logged(self, caplog):
        def broken(*_: object) -> Decimal | None:
            raise ImportError("no such package")

        assert await usage_of(USAGE, broken) == replace(USAGE, unpriced_tokens=15)
        (record,) = caplog.records
        assert "the price of any-model could not be found out" in record.message

    async def test_a_usage_that_cannot_be_makes_its_price_unknown(self, caplog):
        inner = Playback(answer(Usage(10, 5, cache_read_tokens=99)))
        inner.name = "anthropic"
        asked = replace(ASK, model="claude-sonnet-4-5")
        *_, end = await drain(PricedProvider(inner, compute_price).stream(asked))
        assert end.response.usage.unpriced_tokens == 15
        assert len(caplog.records) == 1

    async def test_name_traits_counts_and_closing_are_those_of_who_answers(self):
        inner = Playback()
        provider = PricedProvider(inner, a_cent)
        assert provider.name == "playback"
        assert provider.traits("any") is TRAITS
        assert await provider.count_tokens(make_request("a", "b")) == 2
        await provider.aclose()
        assert inner.is_closed


class SlowPrice:
    """A price that is not known before it is let."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.is_awaited = asyncio.Event()
        self.may_end = threading.Event()

    def __call__(self, provider: str, model: str, usage: Usage) -> Decimal | None:
        asked = self.is_awaited if usage == USAGE else self.begun
        self.loop.call_soon_threadsafe(asked.set)
        self.may_end.wait(60)
        return Decimal(1)


class TestAPriceThatTakesItsTime:
    async def test_it_is_looked_for_while_the_answer_arrives(self):
        slow = SlowPrice()
        stream = PricedProvider(Playback(answer(USAGE)), slow).stream(ASK)
        await anext(stream)
        await slow.begun.wait()
        slow.may_end.set()
        assert (await anext(stream)).response.usage.cost_usd == 1
        await stream.aclose()

    async def test_a_reader_that_leaves_early_does_not_wait_for_it(self):
        slow = SlowPrice()
        stream = PricedProvider(Playback(answer(USAGE)), slow).stream(ASK)
        await anext(stream)
        await slow.begun.wait()
        await stream.aclose()
        assert not slow.may_end.is_set()
        slow.may_end.set()

    async def test_a_reader_that_is_cancelled_at_the_end_does_not_wait_for_it(self):
        slow = SlowPrice()
        provider = PricedProvider(Playback(answer(USAGE), answer(USAGE)), slow)
        reading = asyncio.create_task(drain(provider.stream(ASK)))
        await slow.is_awaited.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not slow.may_end.is_set()
        slow.may_end.set()
        *_, end = await drain(provider.stream(ASK))
        assert end.response.usage.cost_usd == 1

    def test_a_program_can_end_while_it_is_looked_for(self):
        waiting = threading.Event()

        def slow(*_: object) -> Decimal | None:
            waiting.wait(0.05)
            return None

        async def leave() -> None:
            stream = PricedProvider(Playback(answer(USAGE)), slow).stream(ASK)
            await anext(stream)
            await stream.aclose()

        asyncio.run(leave())
