"""Counts of tokens: what a provider says, if it makes sense, else a guess by characters."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treadle.core.llm import LlmRequest, Usage
from treadle.core.messages import OpaquePart

CHARS_PER_TOKEN: Final = 4
"""For the estimate of a usage that nobody gives."""

TOKENS_MAX: Final = 2**53
"""A number above it is no count of tokens; every JSON reader takes numbers up to it."""


def token_count(numbers: Any, name: str, limit: int = TOKENS_MAX) -> int | None:
    """The count of this name in an object; `None` if there is none that makes sense."""
    value = numbers.get(name) if isinstance(numbers, dict) else None
    return value if type(value) is int and 0 <= value <= limit else None


def estimate(read_length: int, written_length: int) -> Usage:
    """The usage that so many characters are likely to be."""
    return Usage(tokens_in(read_length), tokens_in(written_length), estimated=True)


def tokens_in(length: int) -> int:
    """How many tokens so many characters are likely to be."""
    return -(-length // CHARS_PER_TOKEN)


def length_of(request: LlmRequest) -> int:
    """How many characters the model will read."""
    length = len(request.system)
    length += len(msgspec.json.encode(request.tools)) if request.tools else 0
    for message in request.messages:
        length += len(message.content)
        length += sum(len(call.arguments_json) for call in message.tool_calls)
        for part in message.native.parts if message.native else ():
            length += len(part.block_json) if isinstance(part, OpaquePart) else 0
    return length
