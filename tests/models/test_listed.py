"""What the lists of providers say of their models, as they were recorded, and over real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from models.loopback import Answer, Loopback, Seen, refusal
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


OLLAMA_SHOWS = {
    "capabilities": ["completion", "tools", "vision"],
    "model_info": {"general.architecture": "qwen2", "qwen2.context_length": 32_768},
    "parameters": "temperature 0.7\nnum_ctx    8192",
}
LMSTUDIO_LISTS = {"id": "m:7b", "type": "llm", "max_context_length": 4096}


def local_server(told: dict[str, Any]) -> Callable[[Seen], Answer]:
    """Ollama or LM Studio: what is at each path, the list of names alone at its usual one."""
    names = {"/v1/models": {"data": [{"id": "m:7b", "object": "model"}]}}
    return lambda seen: (
        refusal(200, found) if (found := {**names, **told}.get(seen.path)) else refusal(404, b"")
    )


async def test_a_server_of_this_machine_tells_what_its_list_does_not() -> None:
    shows: dict[str, Any] = {"/api/show": OLLAMA_SHOWS}
    plain = {"/api/show": {**OLLAMA_SHOWS, "parameters": "", "capabilities": ["completion"]}}
    now = {"/api/ps": {"models": [{"model": "m:7b", "context_length": 4096}, 7]}}
    other = {"/api/ps": {"models": [{"model": "o:7b", "context_length": 4096}]}}
    loaded = {**LMSTUDIO_LISTS, "loaded_context_length": 2048, "type": "vlm"}
    cases: list[tuple[str, dict[str, Any], str, tuple[int | None, bool | None]]] = [
        ("what it was made with", shows, "", (8192, True)),
        ("what it could", {**plain, **other}, "", (32_768, False)),
        ("what it is loaded with", {**shows, **now}, "", (4096, True)),
        ("nonsense", {"/api/show": {"model_info": {"x.context_length": "y"}}}, "", (None, None)),
        ("lm studio", {"/api/v0/models": {"data": [LMSTUDIO_LISTS]}}, "", (4096, False)),
        ("lm studio, loaded", {"/api/v0/models": {"data": [loaded]}}, "", (2048, True)),
        ("neither", {}, "", (None, None)),
        ("with a key", shows, "k" * 20, (None, None)),
    ]
    misses = []
    for name, told, key, expected in cases:
        async with Loopback(local_server(told)) as server:
            provider = OpenAiChatProvider(key, name="here", base_url=f"{server.url}/v1")
            found = await provider.fetch_traits("here:m:7b", 5.0)
            await provider.aclose()
            bodies = [seen.json for seen in server.requests if seen.path == "/api/show"]
        assert found is not None
        if (found.context_tokens_max, found.sees_images) != expected or any(
            body != {"model": "m:7b"} for body in bodies
        ):
            misses.append((name, found, bodies))
    assert misses == []
