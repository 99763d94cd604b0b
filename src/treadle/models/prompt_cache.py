"""Marks of Anthropic's prompt cache, as its own API and gateways in front of it take them. Pure."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from treadle.core.compaction import SUMMARY_INSTRUCTION
from treadle.core.llm import LlmRequest

CacheLifetime: TypeAlias = Literal["5m", "1h"]
"""How long the API keeps what it has cached after its last use; an hour costs more to write."""

LOOK_BACK: Final = 20
"""Blocks at which the API looks for something cached, from a mark on, the marked one included."""


def make_cache_mark(request: LlmRequest, lifetime: CacheLifetime) -> dict[str, Any]:
    """The field that marks the end of what is to be cached; empty if nobody would read it.

    To write a cache costs a quarter more, and one message without tools is a question by the way (a
    title, a commit message, a summary): no later request begins as it does.
    """
    if not request.tools and len(request.messages) <= 1:
        return {}
    ttl = {} if lifetime == "5m" else {"ttl": lifetime}
    return {"cache_control": {"type": "ephemeral", **ttl}}


def is_read_only(request: LlmRequest) -> bool:
    """Whether no later request begins as this one does to its end: it asks for a summary."""
    return bool(request.messages) and request.messages[-1].content.startswith(SUMMARY_INSTRUCTION)


def find_previous_request_end(messages: list[dict[str, Any]], *, is_read_only: bool) -> int:
    """Which message the request before this one ended with; -1 if there was none.

    It stands before the last answer, or before what asks for a summary if that was cut there. A
    mark there reads what was written then, and writes nothing.
    """
    if is_read_only and len(messages) > 1 and messages[-2]["role"] != "assistant":
        return len(messages) - 2
    for place in range(len(messages) - 1, 0, -1):
        if messages[place]["role"] == "assistant":
            return place - 1 if messages[place - 1]["role"] in ("user", "tool") else -1
    return -1
