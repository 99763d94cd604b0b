"""What the lists of providers say of their models, as they were recorded, and over real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from models.loopback import Answer, Loopback, refusal
from treadle.core.llm import ModelTraits
from treadle.models.anthropic.provider import AnthropicProvider
from treadle.models.model_lists import read_listed_traits
from treadle.models.openai.chat import OpenAiChatProvider


def _can(*what: str) -> dict[str, Any]:
    """Anthropic's capabilities, of which a model has these."""
    types = {kind: {"supported": kind in what} for kind in ("adaptive", "enabled")}
    return {
        "thinking": {"supported": bool(what), "types": types},
        "effort": {"supported": "effort" in what},
    }


LISTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "anthropic": (
        {"max_input_tokens": 1_000_000, "max_tokens": 64_000, "capabilities": _can("adaptive")},
        {
            "context_tokens_max": 1_000_000,
            "output_tokens_max": 64_000,
            "reasoning": "adaptive",
        },
    ),
    "anthropic, older": (
        {"max_input_tokens": 200_000, "max_tokens": 8192, "capabilities": _can("enabled")},
        {"context_tokens_max": 200_000, "output_tokens_max": 8192, "reasoning": "budget"},
    ),
    "openrouter": (
        {
            "context_length": 262_144,
            "top_provider": {"context_length": 131_072, "max_completion_tokens": 65_536},
            "supported_parameters": ["tools", "reasoning", "max_tokens"],
        },
        {"context_tokens_max": 262_144, "output_tokens_max": 65_536, "reasoning": "effort"},
    ),
    "groq": (
        {"context_window": 131_072, "max_completion_tokens": 32_768},
        {"context_tokens_max": 131_072, "output_tokens_max": 32_768},
    ),
    "mistral": (
        {"max_context_length": 262_144, "capabilities": {"completion_chat": True}},
        {"context_tokens_max": 262_144},
    ),
    "vllm": ({"max_model_len": 32_768, "permission": []}, {"context_tokens_max": 32_768}),
    "openai": ({"object": "model", "owned_by": "system"}, {}),
    "nonsense": (
        {"context_length": "many", "max_tokens": -1, "capabilities": [1], "top_provider": 7},
        {},
    ),
}


def test_what_every_list_says_is_read_in_its_words() -> None:
    misses = []
    for name, (fields, expected) in LISTS.items():
        models = [{"id": "other", "context_length": 1}, {"id": "m/x", **fields}, None, 7]
        found = read_listed_traits(models, "m/x")
        if found != ModelTraits(**expected):
            misses.append((name, found))
    assert misses == []
    fields, expected = next(iter(LISTS.values()))
    assert read_listed_traits([{"id": "models/m", **fields}], "m") == ModelTraits(**expected)
    assert read_listed_traits([{"id": "a"}], "m") == read_listed_traits(None, "m") == ModelTraits()


@pytest.mark.parametrize("kind", [AnthropicProvider, OpenAiChatProvider])
@pytest.mark.parametrize(
    ("answer", "window"),
    [
        (refusal(200, {"data": [{"id": "m", "max_input_tokens": 5}]}), 5),
        (refusal(200, {"data": {"id": "m"}}), None),
        (refusal(200, b"<html>"), None),
        (refusal(404, b""), None),
    ],
)
async def test_a_list_that_cannot_be_had_says_nothing(
    kind: Any, answer: Answer, window: int | None
) -> None:
    async with Loopback(answer) as server:
        provider = kind("k" * 20, name="here", base_url=server.url)
        told = await provider.fetch_traits("here:m", 5.0)
        await provider.aclose()
    assert (told and told.context_tokens_max) == window
