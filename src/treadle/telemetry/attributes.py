"""The names of the GenAI conventions, and what records say under them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treadle.core.llm import LlmRequest, Usage
from treadle.telemetry.spans import AttributeValue
from treadle.thread.facts import ThreadCreated

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
CONVERSATION: Final = "gen_ai.conversation.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL: Final = "gen_ai.tool.name"
CALL_ID: Final = "gen_ai.tool.call.id"
ERROR: Final = "error.type"

CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"

PURPOSE: Final = "treadle.purpose"
OUTCOME: Final = "treadle.outcome"
SUB_AGENT_THREAD: Final = "treadle.sub_agent.thread"

_PROVIDERS: Final[Mapping[str, str]] = {
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""What the conventions call a provider, where it is not what we call it."""


def describe_model(provider: str, model: str) -> dict[str, AttributeValue]:
    """Who is asked, as the conventions call a provider, and as it calls its model.

    Args:
        provider: of the thread; empty if the model's name says whose it is.
        model: its name, which may begin with that of its provider.
    """
    if not provider:
        provider, _, model = model.partition(":") if ":" in model else ("", "", model)
    found: dict[str, AttributeValue] = {
        OPERATION: CHAT,
        PROVIDER: _PROVIDERS.get(provider, provider) or "unknown",
    }
    if name := model.removeprefix(f"{provider}:"):
        found[MODEL] = name
    return found


def describe_thread(header: ThreadCreated, imported_from: str | None) -> dict[str, AttributeValue]:
    """Which thread it is, and where that comes from."""
    found: dict[str, AttributeValue] = {
        CONVERSATION: header.thread,
        "treadle.machine": header.machine,
    }
    named = {
        "treadle.key": header.key,
        "treadle.parent.thread": header.parent,
        "treadle.parent.call": header.parent_call,
        "treadle.base.thread": "" if header.base is None else header.base.thread,
        "treadle.imported_from": imported_from,
    }
    found.update({name: text for name, text in named.items() if text})
    if header.base is not None:
        found["treadle.base.version"] = header.base.version
    return found


def describe_request(request: LlmRequest) -> dict[str, AttributeValue]:
    """How it is asked; what the provider decides is not there."""
    found: dict[str, AttributeValue] = {}
    if request.max_tokens:
        found["gen_ai.request.max_tokens"] = request.max_tokens
    if request.temperature is not None:
        found["gen_ai.request.temperature"] = request.temperature
    return found


def describe_usage(usage: Usage | None) -> dict[str, AttributeValue]:
    """What was used; nothing where nobody says it."""
    if usage is None:
        return {}
    found: dict[str, AttributeValue] = {
        INPUT_TOKENS: usage.input_tokens,
        OUTPUT_TOKENS: usage.output_tokens,
    }
    parts = {
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "treadle.usage.web_searches": usage.web_searches,
    }
    found.update({name: count for name, count in parts.items() if count})
    if usage.estimated:
        found["treadle.usage.estimated"] = True
    if usage.cost_usd is not None:
        found["treadle.usage.cost_usd"] = float(usage.cost_usd)
    return found
