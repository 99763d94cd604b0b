"""What a provider's own list says of a model, in whatever words it has for it. Pure.

Anthropic tells most; OpenRouter, Groq, Mistral, Together, vLLM, Vercel and others a part; OpenAI
nothing but the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from treadle.core.llm import ModelTraits
from treadle.models.token_counts import get_token_count

_INPUT_LIMIT_NAMES: Final = (
    *("max_input_tokens", "context_length", "context_window", "max_context_length"),
    *("max_model_len", "input_token_limit", "inputTokenLimit"),
)
_OUTPUT_LIMIT_NAMES: Final = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "output_token_limit"),
    "outputTokenLimit",
)


def read_listed_traits(models: Any, model: str) -> ModelTraits:
    """The traits that a list of models gives one of them; those it does not give are unknown.

    Args:
        models: as the endpoint sent it.
        model: the name by which it is asked.
    """
    for one in models if isinstance(models, list) else ():
        if isinstance(one, Mapping) and str(one.get("id")).removeprefix("models/") == model:
            found: dict[str, Any] = {
                "context_tokens_max": _find_count(one, _INPUT_LIMIT_NAMES),
                "output_tokens_max": _find_count(one, _OUTPUT_LIMIT_NAMES),
                "reasoning": _find_reasoning(one),
                **_find_senses(one),
            }
            return replace(
                ModelTraits(), **{name: value for name, value in found.items() if value is not None}
            )
    return ModelTraits()


def _find_count(one: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first count of these names that is given, here or for OpenRouter's best provider."""
    for place in (one, one.get("top_provider")):
        for name in names:
            if count := get_token_count(place, name):
                return count
    return None


def _find_senses(one: Mapping[str, Any]) -> dict[str, bool]:
    """What the model is shown, as far as the list says: Anthropic's and Mistral's, OpenRouter's."""
    found: dict[str, bool] = {}
    capabilities, architecture = one.get("capabilities"), one.get("architecture")
    modalities = architecture.get("input_modalities") if isinstance(architecture, Mapping) else None
    if isinstance(modalities, list):
        found = {"sees_images": "image" in modalities, "reads_pdf": "file" in modalities}
    for name, key in (("sees_images", "image_input"), ("reads_pdf", "pdf_input")):
        if isinstance(capabilities, Mapping) and isinstance(capabilities.get(key), Mapping):
            found[name] = _has_flag(capabilities, key, "supported")
    if isinstance(capabilities, Mapping) and isinstance(capabilities.get("vision"), bool):
        found["sees_images"] = capabilities["vision"]
    return found


def _find_reasoning(one: Mapping[str, Any]) -> str | None:
    """How the model is asked to think, as far as the list says."""
    capabilities = one.get("capabilities")
    if _has_flag(capabilities, "thinking", "types", "adaptive", "supported"):
        return "adaptive"
    if _has_flag(capabilities, "effort", "supported"):
        return "effort"
    if _has_flag(capabilities, "thinking", "types", "enabled", "supported"):
        return "budget"
    parameters = one.get("supported_parameters")
    return "effort" if isinstance(parameters, list) and "reasoning" in parameters else None


def _has_flag(value: Any, *path: str) -> bool:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value is True
