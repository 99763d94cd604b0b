"""What an answer costs, checked by hand against the prices that the package carries."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from types import ModuleType
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.core.llm import Usage
from treadle.models.prices.table import compute_price
from treadle.models.prices.usage_text import describe_dollars, describe_usage

MILLION = Decimal(1_000_000)


def per_million(provider: str, model: str) -> dict[str, Decimal]:
    """The package's own data: dollars for a million tokens, where the request is a small one."""
    _, found = get_snapshot().find_provider_model(model, None, provider, None)
    assert not isinstance(found.prices, list)
    prices: dict[str, Any] = {**vars(found.prices)}
    return {key: getattr(value, "base", value) for key, value in prices.items()}


class TestPrices:
    def test_an_anthropic_answer_costs_what_its_tokens_cost_by_kind(self):
        cost = per_million("anthropic", "claude-sonnet-4-5")
        usage = Usage(10_000, 500, cache_read_tokens=6_000, cache_write_tokens=3_000)
        by_hand = (
            1_000 * cost["input_mtok"]
            + 6_000 * cost["cache_read_mtok"]
            + 3_000 * cost["cache_write_mtok"]
            + 500 * cost["output_mtok"]
        ) / MILLION
        assert compute_price("anthropic", "claude-sonnet-4-5", usage) == by_hand > 0
        assert len({*cost.values()}) > 3

    def test_an_openai_answer_costs_what_its_tokens_cost_reasoning_among_the_output(self):
        cost = per_million("openai", "gpt-5")
        usage = Usage(10_000, 500, cache_read_tokens=6_000, reasoning_tokens=400)
        by_hand = (
            4_000 * cost["input_mtok"] + 6_000 * cost["cache_read_mtok"] + 500 * cost["output_mtok"]
        ) / MILLION
        assert compute_price("openai", "gpt-5", usage) == by_hand > 0

    def test_what_is_written_into_a_cache_without_a_price_of_its_own_is_input(self):
        assert "cache_write_mtok" not in per_million("openai", "gpt-5")
        written = compute_price("openai", "gpt-5", Usage(1_000, 0, cache_write_tokens=1_000))
        assert written == compute_price("openai", "gpt-5", Usage(1_000, 0))

    @pytest.mark.parametrize(
        ("provider", "dated", "model"),
        [
            ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("openai", "gpt-4o-2024-08-06", "gpt-4o"),
        ],
    )
    def test_a_name_with_a_date_has_the_price_of_its_model(self, provider, dated, model):
        usage = Usage(1_000, 1_000)
        assert (
            compute_price(provider, dated, usage)
            == compute_price(provider, model, usage)
            is not None
        )

    @for_every_row(
        "provider, model",
        [
            ("ollama", "llama3"),
            ("scripted", "any"),
            ("my-openai-proxy", "gpt-4o"),
            ("anthropic:mine", "claude-sonnet-4-5"),
            ("", "gpt-4o"),
            ("openai", "nonsense"),
            ("openai", ""),
        ],
    )
    def test_what_nobody_knows_has_no_price(self, provider, model):
        assert compute_price(provider, model, Usage(1_000, 1_000)) is None

    def test_a_model_whose_output_has_no_price_has_one_for_its_input_only(self):
        assert "output_mtok" not in per_million("openai", "text-embedding-3-small")
        assert compute_price("openai", "text-embedding-3-small", Usage(1_000, 0))
        assert compute_price("openai", "text-embedding-3-small", Usage(1_000, 1)) is None

    def test_a_model_that_is_paid_by_the_minute_has_no_price_for_tokens(self):
        assert {*per_million("openai", "whisper-1")} == {"audio_hours", "input_audio_hours"}
        assert compute_price("openai", "whisper-1", Usage(1_000, 1)) is None

    def test_what_is_free_costs_nothing_which_is_known(self):
        assert per_million("github-copilot", "gpt-4o") == {}
        free = compute_price("github-copilot", "gpt-4o", Usage(1_000, 1_000))
        assert isinstance(free, Decimal)
        assert free == 0

    def test_no_tokens_cost_nothing(self):
        assert compute_price("openai", "gpt-4o", Usage()) == 0

    def test_the_package_is_loaded_when_a_price_is_asked_for_and_reads_no_network(self):
        program = """
import sys
import treadle.models.prices.table, treadle.models.prices.provider, treadle.models.prices.usage_text
assert "genai_prices" not in sys.modules
opened = []
sys.addaudithook(lambda event, _: opened.append(event) if event.startswith("socket.") else None)
import threading
from treadle.core.llm import Usage
assert treadle.models.prices.table.compute_price("openai", "gpt-4o", Usage(1000, 1000)) > 0
assert threading.active_count() == 1
network = {event for event in opened if event not in ("socket.gethostname",)}
assert not network, network
"""
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert run.stderr == ""
        assert run.returncode == 0

    def test_what_is_asked_of_the_package_is_there(self):
        assert isinstance(genai_prices, ModuleType)
        assert callable(genai_prices.calc_price)


class TestDollars:
    @for_every_row(
        "amount, words",
        [
            ("0", "$0"),
            ("0.00", "$0"),
            ("0.0423", "$0.0423"),
            ("0.04234999", "$0.0423"),
            ("0.01", "$0.01"),
            ("0.5", "$0.50"),
            ("0.1234567", "$0.1235"),
            ("0.99996", "$1.00"),
            ("1", "$1.00"),
            ("12.345", "$12.35"),
            ("1234567.891", "$1,234,567.89"),
            ("0.009999", "$0.01"),
            ("0.00123456", "$0.0012"),
            ("0.000042", "$0.000042"),
            ("5E-8", "$0.00000005"),
            ("1E+3", "$1,000.00"),
        ],
    )
    def test_they_are_told_as_precisely_as_people_want_them(self, amount, words):
        assert describe_dollars(Decimal(amount)) == words

    @given(st.decimals("0", "10000", places=9))
    def test_they_are_never_far_off_and_never_nothing_for_something(self, amount):
        told = Decimal(describe_dollars(amount)[1:].replace(",", ""))
        assert abs(told - amount) <= max(amount / 19, Decimal(0))
        assert (told == 0) == (amount == 0)


class TestUsageInWords:
    @for_every_row(
        "usage, words",
        [
            (
                Usage(12_345, 678, cache_read_tokens=9_000, cost_usd=Decimal("0.0423")),
                "12,345 tokens in (9,000 cached), 678 out, $0.0423",
            ),
            (Usage(100, 20), "100 tokens in, 20 out"),
            (Usage(1, 1), "1 token in, 1 out"),
            (Usage(), "0 tokens in, 0 out"),
            (Usage(100, 20, estimated=True), "about 100 tokens in, 20 out"),
            (Usage(100, 20, unpriced_tokens=120), "100 tokens in, 20 out, price unknown"),
            (Usage(100, 20, cost_usd=Decimal(0)), "100 tokens in, 20 out, $0"),
            (
                Usage(2_000, 234, cost_usd=Decimal("0.0423"), unpriced_tokens=1_234),
                "2,000 tokens in, 234 out, $0.0423 and 1,234 tokens of unknown price",
            ),
            (
                Usage(2, 1, cost_usd=Decimal(1), unpriced_tokens=1),
                "2 tokens in, 1 out, $1.00 and 1 token of unknown price",
            ),
        ],
    )
    def test_it_is_one_line(self, usage, words):
        assert describe_usage(usage) == words
