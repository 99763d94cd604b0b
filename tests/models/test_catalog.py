"""Names of models lead where they should, and the built-in table is worth its lines."""

from __future__ import annotations

from typing import get_args

import pytest
from anthropic.types.model import Model as AnthropicModel
from genai_prices.data_snapshot import get_snapshot
from msgspec.structs import replace
from openai.types.shared.chat_model import ChatModel

from case_tables import for_every_row
from treadle.core.llm import ModelTraits
from treadle.errors import NotConfiguredError, UsageError
from treadle.models.catalog import (
    Catalog,
    ModelRef,
    ProviderEntry,
    is_base_url,
    make_catalog,
    read_defaults,
)
from treadle.models.model_names import family_name
from treadle.models.prices.table import get_context_window

BUILT_IN = make_catalog(read_defaults())
LOCAL = {"ollama", "vllm", "lmstudio", "llamacpp"}


def entry(url: str = "https://host.invalid/v1", **fields: object) -> ProviderEntry:
    return ProviderEntry(api="openai-chat", base_url=url, **fields)  # type: ignore[arg-type]


def catalog(aliases: dict[str, str] | None = None, **providers: ProviderEntry) -> Catalog:
    return Catalog(providers, aliases or {}, {})


# ---- names -------------------------------------------------------------------------------------


@for_every_row(
    "name, provider, model",
    [
        ("openai:some-model", "openai", "some-model"),
        ("ollama:library/coder:30b-q4", "ollama", "library/coder:30b-q4"),
        ("groq:a/b", "groq", "a/b"),
    ],
)
def test_a_name_is_split_at_its_first_colon(name: str, provider: str, model: str) -> None:
    ref = BUILT_IN.resolve(name)
    assert ref == ModelRef(provider, model)
    assert ref.name == name


def test_a_provider_alone_means_its_default_model() -> None:
    known = catalog(one=entry(default_model="m"))
    assert known.resolve("one") == known.resolve("one:") == ModelRef("one", "m")


def test_an_alias_may_lead_to_a_model_a_provider_or_another_alias() -> None:
    aliases = {"a": "b", "b": "one:x", "c": "one"}
    known = catalog(aliases, one=entry(default_model="m"))
    assert known.resolve("a") == ModelRef("one", "x")
    assert known.resolve("c") == ModelRef("one", "m")


@pytest.mark.parametrize("aliases", [{"a": "a"}, {"a": "b", "b": "c", "c": "b"}])
def test_aliases_that_lead_in_a_circle_are_an_error(aliases: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"'a' leads in a circle: a -> "):
        catalog(aliases).resolve("a")


@for_every_row("name", ["opnai:x", "OpenAI:x", "Openai"])
def test_an_unknown_provider_is_told_with_the_nearest_and_all_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="did you mean openai") as raised:
        BUILT_IN.resolve(name)
    assert "anthropic, openai, openrouter" in raised.value.hint


def test_a_model_without_its_provider_is_told_with_it() -> None:
    known = Catalog({"one": entry()}, {}, {"one:m-1": {}})
    with pytest.raises(UsageError, match="no alias or provider 'm-1'; did you mean one:m-1"):
        known.resolve("m-1")
    with pytest.raises(UsageError, match="did you mean anthropic:claude-opus-9"):
        BUILT_IN.resolve("claude-opus-9")


def test_a_name_like_nothing_gets_no_suggestion() -> None:
    with pytest.raises(UsageError) as raised:
        BUILT_IN.resolve("qqqqqq")
    assert "did you mean" not in raised.value.message


def test_an_alias_to_an_unknown_provider_says_which_alias() -> None:
    with pytest.raises(UsageError, match=r"no provider 'nobody' \(the alias 'mine'"):
        catalog({"mine": "nobody:m"}).resolve("mine")


def test_a_provider_without_a_default_model_asks_for_one() -> None:
    with pytest.raises(NotConfiguredError, match="'vllm' has no default model") as raised:
        BUILT_IN.resolve("vllm")
    assert "vllm:MODEL" in raised.value.hint


# ---- what is known -----------------------------------------------------------------------------


def test_nothing_is_known_of_a_model_that_is_not_in_the_table() -> None:
    assert BUILT_IN.traits(ModelRef("groq", "whatever")) == ModelTraits()
    assert BUILT_IN.traits(ModelRef("ollama", "whatever")) == ModelTraits(native_output=True)


def test_the_first_provider_with_a_default_model_and_a_key_is_found() -> None:
    known = catalog(
        nothing=entry(key_env="A"),
        one=entry(key_env="B", default_model="m"),
        two=entry(key_command="say", default_model="m"),
    )
    assert known.find_provider_with_key({"A": "k", "B": "k"}) == "one"
    assert known.find_provider_with_key({"A": "k", "B": ""}) == "two"
    assert known.find_provider_with_key({"B": " \n"}) == "two"
    assert BUILT_IN.find_provider_with_key({}) is None
    assert BUILT_IN.find_provider_with_key({"OPENAI_API_KEY": "k"}) == "openai"
    assert (
        BUILT_IN.find_provider_with_key({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
        == "anthropic"
    )


def test_a_variable_without_a_name_is_no_key() -> None:
    assert catalog(one=entry(default_model="m")).find_provider_with_key({"": "k"}) is None


@for_every_row(
    "url, is_local",
    [
        ("http://localhost:1/v1", True),
        ("http://LOCALHOST/v1", True),
        ("http://127.0.0.1", True),
        ("http://127.9.9.9:80/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://127.0.0.1.example.invalid/v1", False),
        ("http://localhost.example.invalid/v1", False),
        ("http://10.0.0.1/v1", False),
        ("http://[::2]/v1", False),
        ("https://api.example.invalid/localhost", False),
    ],
)
def test_only_this_machine_is_local(url: str, is_local: bool) -> None:
    assert catalog(one=entry(url)).is_local("one", {}) == is_local


def test_a_variable_moves_a_provider_and_an_empty_one_does_not() -> None:
    one = entry("http://localhost/v1", base_url_env="WHERE")
    known = catalog(one=one)
    assert one.url({"WHERE": ""}) == "http://localhost/v1"
    assert one.url({"WHERE": "https://far.invalid/v1"}) == "https://far.invalid/v1"
    assert known.is_local("one", {"WHERE": ""})
    assert not known.is_local("one", {"WHERE": "https://far.invalid/v1"})


def test_a_variable_that_holds_no_address_is_named_and_not_shown() -> None:
    one = entry(base_url_env="WHERE")
    with pytest.raises(UsageError, match="WHERE is no base URL") as raised:
        one.url({"WHERE": "https://user:hunter2@host.invalid"})
    assert "hunter2" not in raised.value.message + raised.value.hint


def test_whether_an_unknown_provider_is_local_is_an_error() -> None:
    with pytest.raises(UsageError, match="no provider 'nobody'"):
        BUILT_IN.is_local("nobody", {})


@for_every_row(
    "text",
    [
        *("", "host.invalid/v1", "ftp://host.invalid", "https://", "https://user@host.invalid"),
        *("http://far.invalid\\@localhost/v1", "https://host.invalid/v1?key=1"),
        *("https://host.invalid/v1#x", "https://host.invalid/v1 ", "https://host.invalid/\n"),
        *("https://host.invalid:99999", "https://[::1", "https://[::1]far.invalid/"),
        *("https://far.invalid[::1]/", "https://host.invalid:80:90/", "https://host.invalid:0/"),
        *("https://höst.invalid/", "https://localhost;far.invalid/"),
    ],
)
def test_what_paths_cannot_be_put_behind_is_no_base_url(text: str) -> None:
    assert not is_base_url(text)


# ---- the built-in table ------------------------------------------------------------------------


def test_every_provider_has_an_address_and_a_way_to_its_key() -> None:
    assert list(BUILT_IN.providers)[:2] == ["anthropic", "openai"]
    for name, one in BUILT_IN.providers.items():
        assert is_base_url(one.base_url)
        assert BUILT_IN.is_local(name, {}) == (name in LOCAL)
        assert one.needs_key == bool(one.key_env) == (name not in LOCAL)
        assert one.base_url.startswith("http://localhost:" if name in LOCAL else "https://")


def test_every_alias_and_every_default_leads_to_a_model_whose_window_is_known() -> None:
    names = [*BUILT_IN.aliases, *(n for n, p in BUILT_IN.providers.items() if p.default_model)]
    assert {"opus", "sonnet", "haiku", "gpt", "anthropic", "openai"} <= set(names)
    unknown = []
    for name in names:
        ref = BUILT_IN.resolve(name)
        entry = BUILT_IN.providers[ref.provider]
        told = get_context_window(entry.prices or ref.provider, ref.model)
        if not (BUILT_IN.traits(ref).context_tokens_max or told):
            unknown.append(name)
        if ref.provider in ("anthropic", "openai"):
            assert BUILT_IN.traits(ref).reasoning != "none", name
    assert unknown == ["huggingface"]  # the price data has those behind its router instead


def test_every_provider_with_a_key_has_a_default_model() -> None:
    assert [n for n, p in BUILT_IN.providers.items() if p.needs_key and not p.default_model] == []


def test_every_row_is_for_models_that_the_official_clients_or_the_price_data_know() -> None:
    known = {name for part in get_args(AnthropicModel) for name in get_args(part)}
    known |= set(get_args(ChatModel))
    known |= {model.id for provider in get_snapshot().providers for model in provider.models}
    families = {family_name(name) for name in known} | known
    rows = [row.partition(":")[2].removesuffix("*") for row in BUILT_IN.model_traits]
    unknown = [row for row in rows if not any(name.startswith(row) for name in families)]
    assert unknown == ["claude-opus-41"]  # GitHub's name for it


SPELT = {
    "claude-sonnet-4-5": (
        "anthropic:claude-sonnet-4-5",
        "anthropic:claude-sonnet-4-5-20250929",
        "anthropic:claude-sonnet-4-5-latest",
        "openrouter:anthropic/claude-sonnet-4.5",
        "openrouter:anthropic/claude-sonnet-4.5:thinking",
        "vercel:anthropic/claude-sonnet-4.5",
        "vercel:anthropic/claude-4.5-sonnet",
        "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0",
        "vertex:claude-sonnet-4-5@20250929",
    ),
    "claude-haiku-4-5": ("anthropic:claude-haiku-4-5-20251001",),
    "claude-opus-4": ("anthropic:claude-opus-4-20250514", "x:anthropic/claude-4-opus"),
    "claude-3-7-sonnet": ("openrouter:anthropic/claude-3.7-sonnet",),
    "gpt-5": ("openai:gpt-5", "openai:gpt-5-2025-08-07", "openrouter:openai/gpt-5"),
    "gpt-5-codex": ("openai:gpt-5-codex",),
    "gpt-5.4-mini": ("openai:gpt-5.4-mini-2026-03-17",),
    "gpt-4o": ("openai:ft:gpt-4o-2024-08-06:acme::abc123", "openrouter:openai/gpt-4o:extended"),
    "o4-mini": ("openai:ft:o4-mini-2025-04-16:acme:a-suffix:x", "openai:o4-mini"),
    "o3": ("openai:o3", "openai:o3-2025-04-16", "openrouter:openai/o3"),
    "gpt-oss-120b": (
        "groq:openai/gpt-oss-120b",
        "fireworks:accounts/fireworks/models/gpt-oss-120b",
    ),
    "gpt-oss:20b": ("ollama:gpt-oss:20b",),
    "qwen2.5-coder": ("ollama:qwen2.5-coder:latest",),
    "kimi-k3": ("huggingface:moonshotai/Kimi-K3",),
    "llama-3.3-70b": ("together:meta-llama/Llama-3.3-70b",),
}


def test_the_names_of_vendors_gateways_and_clouds_are_those_of_the_makers() -> None:
    misses = [
        (name, family_name(name.partition(":")[2]))
        for family, names in SPELT.items()
        for name in names
        if family_name(name.partition(":")[2]) != family
    ]
    assert misses == []


def test_what_is_known_of_a_family_is_known_under_every_name() -> None:
    expected = {
        "claude-sonnet-4-5": ModelTraits(200_000, 64_000, "budget"),
        "claude-haiku-4-5": ModelTraits(200_000, 64_000, "budget"),
        "claude-opus-4": ModelTraits(200_000, 32_000, "budget"),
        "claude-3-7-sonnet": ModelTraits(200_000, 64_000, "budget"),
        "gpt-5": ModelTraits(400_000, 128_000, "effort", has_temperature=False),
        "gpt-5-codex": ModelTraits(400_000, 128_000, "effort", has_temperature=False),
        "gpt-5.4-mini": ModelTraits(400_000, 128_000, "effort", has_temperature=False),
        "o3": ModelTraits(200_000, 100_000, "effort", has_temperature=False),
        "gpt-4o": ModelTraits(128_000, 16_384),
        "o4-mini": ModelTraits(200_000, 100_000, "effort", has_temperature=False),
        "gpt-oss-120b": ModelTraits(reasoning="effort"),
    }
    for family, known in expected.items():
        traits = replace(known, family="claude" if family.startswith("claude") else "openai")
        for name in SPELT[family]:
            provider, _, model = name.partition(":")
            known = BUILT_IN.traits(ModelRef(provider, model))
            unlike = {"sees_images": None, "reads_pdf": None, "native_output": None}
            assert replace(known, **unlike) == traits, name
    numbers = ("o1", "o3", "o4", "gpt-5", "gpt-6", "claude-opus-4", "claude-sonnet-4", "claude-3")
    for start in numbers:
        for rest in ("0", "0-mini", "00-2027-01-01", "23"):
            known = BUILT_IN.traits(ModelRef("any", start + rest))
            assert replace(known, family="") == ModelTraits(), start + rest
        for rest in ("", "-mini", ".9", ":free", "@20270101", "-20270101", "-2027-01-01"):
            known = BUILT_IN.traits(ModelRef("any", start + rest))
            assert known.context_tokens_max, start + rest
    assert (
        replace(BUILT_IN.traits(ModelRef("any", "claude-opus-41")), family="")
        == expected["claude-opus-4"]
    )
    assert BUILT_IN.traits(ModelRef("openai", "gpt-5-chat-latest")).reasoning == "none"
    assert BUILT_IN.traits(ModelRef("anthropic", "claude-opus-5-5")).reasoning == "adaptive"


def test_a_row_that_says_more_about_a_model_wins_key_by_key() -> None:
    tables = {
        **read_defaults(),
        "model_traits": {
            "*:coder*": {"context_tokens_max": 1, "output_tokens_max": 1, "reasoning": "effort"},
            "*:coder-large*": {"context_tokens_max": 2},
            "ollama:coder*": {"context_tokens_max": 3, "has_tools": False},
            "ollama:coder-large": {"output_tokens_max": 4},
        },
    }
    catalog = make_catalog(tables)
    assert catalog.traits(ModelRef("ollama", "coder-large")) == ModelTraits(3, 4, "effort", False)
    assert catalog.traits(ModelRef("ollama", "coder-large-2")) == ModelTraits(3, 1, "effort", False)
    assert catalog.traits(ModelRef("vllm", "coder-large")) == ModelTraits(2, 1, "effort")
    assert catalog.traits(ModelRef("vllm", "Coder-20250101")) == ModelTraits(1, 1, "effort")
    assert catalog.traits(ModelRef("vllm", "my-coder")) == ModelTraits()


def test_the_prices_of_the_default_models_are_known() -> None:
    prices = {provider.id: provider for provider in get_snapshot().providers}
    unknown = []
    for name, one in BUILT_IN.providers.items():
        if one.needs_key:
            provider = prices.get(one.prices or name)
            if provider is None:
                unknown.append(name)
                continue
            model = one.default_model
            assert any(known.match.is_match(model) for known in provider.models), name
    advice = 'does genai-prices call it differently? Then `prices = "..."` in models/defaults.toml'
    # Gateways that the data does not have.
    assert unknown == ["vercel", "huggingface"], advice


def test_a_context_holds_what_may_be_written() -> None:
    for name in BUILT_IN.model_traits:
        traits = BUILT_IN.traits(ModelRef("any", name.removeprefix("*:").removesuffix("*")))
        assert (traits.output_tokens_max or 0) < (traits.context_tokens_max or 1), name
