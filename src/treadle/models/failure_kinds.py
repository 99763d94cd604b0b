"""What the errors of providers mean: tables of codes and of words, and how one is looked up.

A code or type that the provider gives decides. Most endpoints have few of them, and use one for
many things (`invalid_request_error`), so behind it the words decide, but only between kinds that
are mixed up in fact: each row of `PHRASES` says which kinds it corrects. All providers stand
together, because they do not contradict each other and a gateway passes on the errors of many.

Where the words come from: the error pages of the providers' documentation, and what Anthropic,
Azure, Bedrock, Cerebras, Copilot, DashScope, DeepSeek, Fireworks, Gemini, Groq, Kimi, llama.cpp,
MiniMax, Mistral, Ollama, OpenAI, OpenRouter, Perplexity, Together, vLLM, xAI and z.ai answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from treadle.core.llm import LlmErrorKind
from treadle.core.retry import KIND_OF_STATUS

_K = LlmErrorKind

FLAGGED_INPUT: Final = "flagged_input"
"""OpenRouter gives a refusal for moderation no code, but says what was flagged in this field."""

FAILED_GENERATION: Final = "failed_generation"
"""What the model wrote and Groq refused stands in this field, whatever code it gives for it."""

KIND_OF_CODE: Final[Mapping[str, LlmErrorKind]] = {
    "authentication_error": _K.AUTHENTICATION,
    "invalid_api_key": _K.AUTHENTICATION,
    "API_KEY_INVALID": _K.AUTHENTICATION,  # Gemini, under 400
    "permission_error": _K.PERMISSION,
    "permission_denied": _K.PERMISSION,
    "billing_error": _K.PERMISSION,
    "billing_not_active": _K.PERMISSION,  # OpenAI, under 429
    "billing_hard_limit_reached": _K.PERMISSION,  # OpenAI, under 400
    "insufficient_quota": _K.PERMISSION,
    "insufficient_balance": _K.PERMISSION,
    "insufficient_balance_error": _K.PERMISSION,  # MiniMax
    "exceeded_current_quota_error": _K.PERMISSION,  # Moonshot, under 429
    "Arrearage": _K.PERMISSION,  # DashScope, under 400
    "AllocationQuota.FreeTierOnly": _K.PERMISSION,  # DashScope
    "1113": _K.PERMISSION,  # z.ai, under 429: no balance
    "1308": _K.PERMISSION,  # z.ai, under 429: the limit of hours
    "1309": _K.PERMISSION,  # z.ai, under 429: the plan has ended
    "1310": _K.PERMISSION,  # z.ai, under 429: the limit of the week or month
    "not_found_error": _K.NOT_FOUND,
    "model_not_found": _K.NOT_FOUND,
    "1211": _K.NOT_FOUND,  # z.ai, under 400
    "request_too_large": _K.CONTEXT_TOO_LONG,
    "context_length_exceeded": _K.CONTEXT_TOO_LONG,
    "model_context_window_exceeded": _K.CONTEXT_TOO_LONG,
    "exceed_context_size_error": _K.CONTEXT_TOO_LONG,
    "too_many_prompt_tokens": _K.CONTEXT_TOO_LONG,  # Perplexity
    "requested_too_many_tokens": _K.CONTEXT_TOO_LONG,  # Perplexity
    "model_max_prompt_tokens_exceeded": _K.CONTEXT_TOO_LONG,  # Copilot
    "1261": _K.CONTEXT_TOO_LONG,  # z.ai
    "content_filter": _K.CONTENT_FILTERED,
    "content_policy_violation": _K.CONTENT_FILTERED,
    "data_inspection_failed": _K.CONTENT_FILTERED,  # DashScope
    FLAGGED_INPUT: _K.CONTENT_FILTERED,
    "1301": _K.CONTENT_FILTERED,  # z.ai
    "invalid_prompt": _K.CONTENT_FILTERED,
    "bio_policy": _K.CONTENT_FILTERED,
    "cyber_policy": _K.CONTENT_FILTERED,
    "misalignment_policy_violation": _K.CONTENT_FILTERED,
    "rate_limit_error": _K.RATE_LIMITED,
    "rate_limit_exceeded": _K.RATE_LIMITED,
    "overloaded_error": _K.OVERLOADED,
    "server_is_overloaded": _K.OVERLOADED,
    "slow_down": _K.OVERLOADED,
    "service_unavailable": _K.OVERLOADED,
    "timeout_error": _K.TIMEOUT,
    # Groq checks the calls that its models write, and refuses the whole answer for a bad one, with
    # the status of a bad request. The next sample of the same request may well be a good one.
    "tool_use_failed": _K.SERVER,
    FAILED_GENERATION: _K.SERVER,
}
"""Codes and types of error objects.

Those for any fault of a server (`api_error`, `server_error`) are left out: Ollama says the one for
401, OpenAI the other for 503, and without a status it is the server's fault anyway.
"""


class ErrorPhrase(Struct, frozen=True):
    """Words that tell what an error is, where code and status say one of the kinds `instead_of`."""

    kind: LlmErrorKind
    instead_of: frozenset[LlmErrorKind]
    words: tuple[re.Pattern[str], ...]

    def matches(self, message: str) -> bool:
        """Whether the message holds one of the words."""
        return any(pattern.search(message) for pattern in self.words)


def _make_phrase(
    kind: LlmErrorKind, instead_of: Iterable[LlmErrorKind], *words: str
) -> ErrorPhrase:
    patterns = tuple(re.compile(one, re.IGNORECASE | re.DOTALL) for one in words)
    return ErrorPhrase(kind, frozenset(instead_of), patterns)


_COMPARED_LENGTH_MAX: Final = 4096
"""Characters of a message that are compared: what it is about stands at its beginning."""

_OVER_A_LIMIT: Final = (
    r"^(?!.*\b(?:(?:output|completion) tokens|tokens you requested|images|tools|items)\b)"
    r".*\b(?:prompt|prompt_tokens|inputs?|messages?|request|tokens?|length)\b.{0,60}"
    r"(?:\bexceed|\b(?:longer|greater|larger|more) than\b|\bmust (?:be|have) less than\b).{0,60}"
    r"(?:\blimit\b|\bmax|\blength\b|\btokens\b)"
)
"""What is counted, that it is too much, what of: servers word it anew with each release, and for a
model whose window nobody knows this is the only way to a compaction. One that is made for nothing
costs a request; limits of what is written, and of other things than text, are none of it."""

PHRASES: Final = (
    # Retried as a limit of requests it would never succeed: it alone is over the limit of tokens,
    # or longer than what the person's plan pays for.
    _make_phrase(
        _K.CONTEXT_TOO_LONG,
        (_K.RATE_LIMITED, _K.BAD_REQUEST, _K.SERVER),
        r"request too large .*\b(tokens per min|TPM)\b",
        r"required for long context requests",
    ),
    _make_phrase(
        _K.PERMISSION,
        (_K.RATE_LIMITED, _K.BAD_REQUEST, _K.SERVER),
        r"credit balance is too low",
        r"reached your specified (workspace )?API usage limits",
        r"insufficient (account )?(balance|credits|funds)",
        r"credits are depleted",
        r"monthly spending (cap|limit)",
        r"check your billing details",
        r"account is in good standing",
        r"organization has been (disabled|restricted)",
    ),
    _make_phrase(
        _K.CONTENT_FILTERED,
        (_K.BAD_REQUEST, _K.PERMISSION, _K.SERVER),
        r"output blocked by content filtering policy",
        r"your input was flagged",
        r"content management policy",
        r"content exists risk",
        r"(inappropriate|unsafe or sensitive) content",
        r"violat(es|ing) (our )?usage (guidelines|polic)",
        r"rejected because it was considered high risk",
        r"rejected as a result of our safety system",
        r"put new_sensitive",
    ),
    _make_phrase(
        _K.AUTHENTICATION,
        (_K.BAD_REQUEST, _K.PERMISSION),
        r"incorrect API key",
        r"API key (not valid|expired|was reported as leaked)",
        r"missing or invalid authorization header",
    ),
    # As `tool_use_failed`, where it has no code.
    _make_phrase(_K.SERVER, (_K.BAD_REQUEST,), r"failed to generate tool_calls"),
    _make_phrase(
        _K.CONTEXT_TOO_LONG,
        (_K.BAD_REQUEST, _K.SERVER),
        r"(prompt|input|request) (is )?too (long|large)",
        r"maximum (context|prompt) length",
        r"context ?(window|length|size)",
        r"exceeds? context limit",
        r"too many (input )?tokens",
        r"tokens? limit (was |has been )?exceeded",
        r"reduce the length of the (messages|prompt|input)",
        r"range of input length should be",
        r"\btokens\b.{0,80}must be <=",
        _OVER_A_LIMIT,
    ),
)
"""In this order; the first that fits and may correct what code and status say."""


def classify_error(codes: Iterable[str], words: str, default: LlmErrorKind | None) -> LlmErrorKind:
    """What an error is.

    Args:
        codes: its codes and types, the innermost first.
        words: its message.
        default: what its HTTP status says; without one, `invalid_request_error` decides between
            the two sides. It cannot do so before the status, because OpenAI says it for 401 and
            404 too.
    """
    codes = tuple(codes)
    kind = next((KIND_OF_CODE[code] for code in codes if code in KIND_OF_CODE), None)
    if kind is None:
        status = next((int(code) for code in codes if code.isdecimal() and len(code) == 3), 0)
        if default is None:
            default = _K.BAD_REQUEST if "invalid_request_error" in codes else _K.SERVER
        kind = KIND_OF_STATUS.get(status, default)
    for phrase in PHRASES:
        if kind in phrase.instead_of and phrase.matches(words[:_COMPARED_LENGTH_MAX]):
            return phrase.kind
    return kind
