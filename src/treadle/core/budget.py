"""How much a run may use, and how much it has used. Folded from the journal, never from a clock.

A budget is looked at before each request to a model. It is exceeded when all of it is used: a
request that would begin with nothing left does not begin.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.llm import LlmRequest, Usage
from treadle.core.messages import Message, OpaquePart, measure_attachments

CHARACTERS_PER_TOKEN: Final = 4
"""What the providers' documents name as the rule of thumb for English text."""

Limit: TypeAlias = Literal["", "steps", "tokens", "input tokens", "output tokens", "cost", "time"]
"""What a run was stopped by; empty if by nothing."""

_N = TypeVar("_N", int, float, Decimal)

TokenUsage: TypeAlias = Usage
"""The name that the source document has for it."""


class TokenBudget(Struct, frozen=True, omit_defaults=True):
    """Limits of a run; `None` is no limit.

    `max_cost_usd` bounds what is known to be spent: tokens without a known price count as free,
    which `Usage.unpriced_tokens` tells. `max_time_s` counts seconds of work: not those between
    the death of a process and the resumption, nor those in which a person is waited for.
    """

    max_total: int | None = None
    max_input: int | None = None
    max_output: int | None = None
    max_cost_usd: Decimal | None = None
    max_time_s: float | None = None

    def find_exceeded_limit(self, usage: Usage, elapsed_s: float = 0.0) -> tuple[Limit, str]:
        """Which limit is used up, and a sentence that says so; two empty texts if none is."""
        total = usage.input_tokens + usage.output_tokens
        if self.max_total is not None and total >= self.max_total:
            return "tokens", f"Token budget exceeded: {total} of {self.max_total} tokens used"
        if self.max_input is not None and usage.input_tokens >= self.max_input:
            used = f"{usage.input_tokens} of {self.max_input}"
            return "input tokens", f"Token budget exceeded: {used} input tokens used"
        if self.max_output is not None and usage.output_tokens >= self.max_output:
            used = f"{usage.output_tokens} of {self.max_output}"
            return "output tokens", f"Token budget exceeded: {used} output tokens used"
        if self.max_cost_usd is not None and (usage.cost_usd or 0) >= self.max_cost_usd:
            spent = usage.cost_usd or Decimal(0)
            return "cost", f"Cost budget exceeded: {spent:.4f} of {self.max_cost_usd} USD spent"
        if self.max_time_s is not None and elapsed_s >= self.max_time_s:
            return "time", f"Time limit exceeded: {elapsed_s:.0f} of {self.max_time_s:g} s used"
        return "", ""

    def get_remaining(self, usage: Usage, elapsed_s: float = 0.0) -> TokenBudget:
        """What remains of it, at least nothing; what a sub-agent may use at most."""
        return TokenBudget(
            _subtract_used(self.max_total, usage.input_tokens + usage.output_tokens),
            _subtract_used(self.max_input, usage.input_tokens),
            _subtract_used(self.max_output, usage.output_tokens),
            None
            if self.max_cost_usd is None
            else max(Decimal(0), self.max_cost_usd - (usage.cost_usd or 0)),
            None if self.max_time_s is None else max(0.0, self.max_time_s - elapsed_s),
        )

    def split_between(self, count: int) -> TokenBudget:
        """The part of each of so many that work side by side; time passes for all alike."""
        return TokenBudget(
            None if self.max_total is None else self.max_total // count,
            None if self.max_input is None else self.max_input // count,
            None if self.max_output is None else self.max_output // count,
            None if self.max_cost_usd is None else self.max_cost_usd / count,
            self.max_time_s,
        )

    def restrict_to(self, other: TokenBudget) -> TokenBudget:
        """The tighter of each pair of limits."""
        return TokenBudget(
            _get_tighter_limit(self.max_total, other.max_total),
            _get_tighter_limit(self.max_input, other.max_input),
            _get_tighter_limit(self.max_output, other.max_output),
            _get_tighter_limit(self.max_cost_usd, other.max_cost_usd),
            _get_tighter_limit(self.max_time_s, other.max_time_s),
        )


def _subtract_used(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _get_tighter_limit(one: _N | None, other: _N | None) -> _N | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def estimate_request_usage(request: LlmRequest, message: Message) -> Usage:
    """What a request and its answer used, guessed by their length; nobody knows its price."""
    usage = estimate_usage(count_request_characters(request), _count_message_characters(message))
    return replace(usage, unpriced_tokens=usage.total_tokens)


def estimate_usage(read_length: int, written_length: int) -> Usage:
    """The usage that so many characters are likely to be, marked as a guess."""
    return Usage(estimate_tokens(read_length), estimate_tokens(written_length), estimated=True)


def estimate_tokens(length: int) -> int:
    """How many tokens so many characters are likely to be."""
    return -(-length // CHARACTERS_PER_TOKEN)


def count_request_characters(request: LlmRequest) -> int:
    """How many characters the model will read."""
    tools = len(msgspec.json.encode(request.tools)) if request.tools else 0
    return len(request.system) + tools + sum(map(_count_message_characters, request.messages))


def _count_message_characters(message: Message) -> int:
    length = len(message.content)
    length += sum(len(call.tool_name) + len(call.arguments_json) for call in message.tool_calls)
    for part in message.native.parts if message.native else ():
        length += len(part.block_json) if isinstance(part, OpaquePart) else 0
    return length + measure_attachments(message.attachments)


def seconds_between(earlier: str, later: str) -> float:
    """Seconds between two times as records hold them; 0 if one is missing or they run backwards."""
    if not earlier or not later:
        return 0.0
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, passed.total_seconds())
