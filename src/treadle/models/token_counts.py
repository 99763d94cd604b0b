"""Counts of tokens: what a provider says, if it makes sense, else a guess by characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from treadle.core.budget import estimate_tokens, estimate_usage
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits, Usage

TOKENS_MAX: Final = 2**53
"""A number above it is no count of tokens; every JSON reader takes numbers up to it."""


def get_token_count(numbers: Any, name: str, limit: int = TOKENS_MAX) -> int | None:
    """The count of this name in an object; `None` if there is none that makes sense."""
    value = numbers.get(name) if isinstance(numbers, dict) else None
    return value if type(value) is int and 0 <= value <= limit else None


def get_output_limit(request: LlmRequest, traits: ModelTraits) -> int | None:
    """How many tokens the answer may have; `None` leaves it to the provider.

    Nobody knows what an unknown model takes, and endpoints refuse a number that is too large.
    """
    if not request.max_tokens:
        return None
    return min(request.max_tokens, traits.output_tokens_max or request.max_tokens)


class UsageEstimator:
    """The characters read and written for an answer so far: what its tokens are guessed from.

    Args:
        read_length: of the request.
    """

    def __init__(self, read_length: int) -> None:
        self.read_length = read_length
        self.written_length = 0

    def count_deltas(self, events: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
        """Pass on the deltas of an answer, and count what they bring."""
        for event in events:
            match event:
                case LlmEvent.TextDelta(text) | LlmEvent.ThinkingDelta(text):
                    self.written_length += len(text)
                case LlmEvent.ToolCallDelta():
                    self.written_length += len(event.arguments_fragment)
            yield event

    def estimate(self) -> Usage:
        """The usage where nobody told any."""
        return estimate_usage(self.read_length, self.written_length)

    def estimate_cut_answer(self, reported: Usage | None) -> Usage | None:
        """The usage of an answer that was cut: what was streamed is paid for, told or not.

        Args:
            reported: a count that is no total; its tokens written are those of some moment before.
        """
        if reported is None:
            return self.estimate() if self.written_length else None
        written = max(reported.output_tokens, estimate_tokens(self.written_length))
        return replace(reported, output_tokens=written, estimated=True)
