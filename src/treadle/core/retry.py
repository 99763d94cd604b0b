"""When a failed model request is tried again, and after how long.

The delays come from the design (0.5 s, factor 2, at most 30 s); which failures can pass from the
providers' own documents: 408, 409, 429, 500, 502, 503, 504, 529 and everything below HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from treadle.core.llm import LlmError, LlmErrorKind

RETRYABLE: Final = frozenset(
    {
        LlmErrorKind.RATE_LIMITED,
        LlmErrorKind.OVERLOADED,
        LlmErrorKind.SERVER,
        LlmErrorKind.TIMEOUT,
        LlmErrorKind.NETWORK,
        LlmErrorKind.CUT_STREAM,
    }
)

KIND_OF_STATUS: Final[Mapping[int, LlmErrorKind]] = MappingProxyType(
    {
        400: LlmErrorKind.BAD_REQUEST,
        401: LlmErrorKind.AUTHENTICATION,
        403: LlmErrorKind.PERMISSION,
        404: LlmErrorKind.NOT_FOUND,
        408: LlmErrorKind.TIMEOUT,
        409: LlmErrorKind.SERVER,
        413: LlmErrorKind.CONTEXT_TOO_LONG,
        422: LlmErrorKind.BAD_REQUEST,
        429: LlmErrorKind.RATE_LIMITED,
        500: LlmErrorKind.SERVER,
        502: LlmErrorKind.SERVER,
        503: LlmErrorKind.OVERLOADED,
        504: LlmErrorKind.TIMEOUT,
        529: LlmErrorKind.OVERLOADED,
    }
)
"""The HTTP statuses providers answer with, and what each means."""

DELAY_S_FIRST: Final = 0.5
DELAY_FACTOR: Final = 2
DELAY_S_MAX: Final = 30.0
RETRY_AFTER_S_MAX: Final = 600.0
"""A server that asks for more is not waited for: the person is told instead."""


def is_retryable(error: LlmError) -> bool:
    """Whether the same request may succeed later, within a time a person would wait."""
    return error.kind in RETRYABLE and (error.retry_after_s or 0.0) <= RETRY_AFTER_S_MAX


def retry_delay_s(error: LlmError, retries: int, jitter: float) -> float:
    """Seconds to wait before retry number `retries` + 1.

    Args:
        error: the failure; its `retry_after_s` wins where the server gave one.
        retries: retries made before, from 0.
        jitter: 0.0 to 1.0, drawn by the runtime and carried in the event; 1.0 waits in full,
            0.0 half as long.
    """
    if error.retry_after_s is not None:
        return max(0.0, error.retry_after_s)
    backoff_s: float = min(DELAY_S_MAX, DELAY_S_FIRST * DELAY_FACTOR ** min(retries, 16))
    return backoff_s * (0.5 + 0.5 * min(1.0, max(0.0, jitter)))
