"""The values in a chunk of Chat Completions, checked: what makes no sense is a `WireError`."""

from __future__ import annotations

import json
from typing import Any, Final

from treadle.core.llm import LlmErrorKind, Usage
from treadle.models.failures import WireError, shorten_to_line
from treadle.models.token_counts import get_token_count

_EXCERPT_LENGTH: Final = 100


def parse_usage(data: Any) -> Usage | None:
    """The usage that an endpoint tells; `None` if it tells nothing, or nothing sensible.

    The total counts where it is more than the two sums: xAI and Gemini leave the tokens of
    reasoning out of `completion_tokens`. Zeros alone are a place that was never filled.
    """
    if not isinstance(data, dict):
        return None
    read, written = (
        get_token_count(data, "prompt_tokens"),
        get_token_count(data, "completion_tokens"),
    )
    if read is None or written is None or read + written == 0:
        return None
    written = max(written, (get_token_count(data, "total_tokens") or 0) - read)
    of_read = data.get("prompt_tokens_details")
    cached = get_token_count(of_read, "cached_tokens")
    if cached is None:  # DeepSeek; Moonshot
        cached = get_token_count(data, "prompt_cache_hit_tokens") or get_token_count(
            data, "cached_tokens"
        )
    cached = cached or 0
    stored = get_token_count(of_read, "cache_write_tokens") or 0
    thought = get_token_count(data.get("completion_tokens_details"), "reasoning_tokens") or 0
    return Usage(
        read,
        written,
        cache_read_tokens=cached if cached <= read else 0,
        cache_write_tokens=stored if cached + stored <= read else 0,
        reasoning_tokens=thought if thought <= written else 0,
    )


def parse_arguments(value: Any) -> str:
    """Text; or an object as it stands, from servers that copy Ollama's own format."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return check_text(value, "the arguments of a call")


def make_value_error(what: str, value: Any) -> WireError:
    """The error that a value makes no sense at a place; `what` says which."""
    told = repr(value[:_EXCERPT_LENGTH]) if isinstance(value, str) else type(value).__name__
    text = shorten_to_line(f"{what} is {told}, which makes no sense there")
    return WireError(LlmErrorKind.INVALID_RESPONSE, text)


def check_object(value: Any, what: str) -> dict[str, Any]:
    """An object; `None` counts as an empty one.

    Raises:
        WireError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise make_value_error(what, value)
    return value


def check_list(value: Any, what: str) -> list[Any]:
    """A list; `None` counts as an empty one. Raises as `check_object`."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise make_value_error(what, value)
    return value


def check_text(value: Any, what: str) -> str:
    """A text; `None` counts as an empty one. Raises as `check_object`."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise make_value_error(what, value)
    return value
