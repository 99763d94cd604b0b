"""What a server of models on one's own machine tells of a model, where its list has but the name.

Ollama tells it by `/api/show`, and by `/api/ps` what a model that is loaded has been given; LM
Studio lists both. A model that is loaded with less than it could read has what it was loaded with:
what is beyond that such a server drops without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from treadle.core.llm import ModelTraits
from treadle.models.token_counts import get_token_count
from treadle.models.wire.endpoint import ModelEndpoint
from treadle.models.wire.stream import read_object

_CONTEXT_PARAMETER: Final = re.compile(r"^num_ctx\s+([0-9]{1,9})$", re.MULTILINE)


async def fetch_local_traits(server: ModelEndpoint, model: str, within_s: float) -> ModelTraits:
    """What Ollama or LM Studio say of a model; nothing if neither of them is there.

    Args:
        server: its root, above `/v1`.
        model: as the server calls it.
        within_s: how long each of three requests may take.
    """
    shown = await _ask(server, "/api/show", within_s, {"model": model})
    if isinstance(shown.get("model_info"), Mapping):
        return read_ollama_traits(shown, await _ask(server, "/api/ps", within_s), model)
    return read_lmstudio_traits(await _ask(server, "/api/v0/models", within_s), model)


async def _ask(
    server: ModelEndpoint, path: str, within_s: float, body: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    try:
        if body is None:
            return await read_object(server.get(path, within_s), within_s)
        return await read_object(server.post(path, body, timeout_s=within_s), within_s)
    except Exception:  # noqa: BLE001  whatever went wrong, nothing is known from there
        return {}


def read_ollama_traits(
    shown: Mapping[str, Any], loaded: Mapping[str, Any], model: str
) -> ModelTraits:
    """The traits in what Ollama shows of a model, and of those that are loaded. Pure."""
    whole = model if ":" in model else f"{model}:latest"
    now = [get_token_count(one, "context_length") for one in _find_rows(loaded, "models", whole)]
    given = _CONTEXT_PARAMETER.search(str(shown.get("parameters") or ""))
    info = shown["model_info"]
    made = [get_token_count(info, name) for name in info if name.endswith(".context_length")]
    counts = (*now, int(given[1]) if given else None, *made)
    abilities = shown.get("capabilities")
    return _make_traits(counts, "vision" in abilities if isinstance(abilities, list) else None)


def read_lmstudio_traits(listed: Mapping[str, Any], model: str) -> ModelTraits:
    """The traits in LM Studio's own list. Pure."""
    for one in _find_rows(listed, "data", model):
        names = ("loaded_context_length", "max_context_length")
        counts = tuple(get_token_count(one, name) for name in names)
        return _make_traits(counts, {"vlm": True, "llm": False}.get(str(one.get("type"))))
    return ModelTraits()


def _find_rows(told: Mapping[str, Any], place: str, model: str) -> list[dict[str, Any]]:
    rows = told.get(place)
    found = [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []
    return [one for one in found if model in (one.get("id"), one.get("model"))]


def _make_traits(counts: tuple[int | None, ...], sees_images: bool | None) -> ModelTraits:
    window = next((count for count in counts if count), None)
    traits = replace(ModelTraits(), context_tokens_max=window)
    return traits if sees_images is None else replace(traits, sees_images=sees_images)
