"""The border where the failures of SDKs, HTTP and wire formats become `LlmError`s, once.

`failure_of` takes any exception that a provider's stream can raise; `failure_in` an error object
that arrives in the middle of a stream, under HTTP 200. What an error means is decided in this
order: by the code or type the provider gives, by its words (context too long has no code with
most), by the HTTP status. The SDKs' classes are known by what they carry, not imported.

Where the words come from: the error pages of the Anthropic and OpenAI documentation, and what vLLM,
llama.cpp, Ollama, OpenRouter, Groq and DeepSeek answer.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.retry import KIND_OF_STATUS, RETRY_AFTER_S_MAX
from treadle.thread.record import clean

MESSAGE_LENGTH_MAX: Final = 500

SECRET_LENGTH_MIN: Final = 8

_K = LlmErrorKind
_MASKED: Final = re.compile(r"[\w-]*[*•]{3,}[\w-]*")
"""A key as endpoints echo it: `sk-pr*******9fQA`."""

KIND_OF_CODE: Final[Mapping[str, LlmErrorKind]] = {
    "authentication_error": _K.AUTHENTICATION,
    "invalid_api_key": _K.AUTHENTICATION,
    "permission_error": _K.PERMISSION,
    "permission_denied": _K.PERMISSION,
    "billing_error": _K.PERMISSION,
    "insufficient_quota": _K.PERMISSION,
    "insufficient_balance": _K.PERMISSION,
    "not_found_error": _K.NOT_FOUND,
    "model_not_found": _K.NOT_FOUND,
    "request_too_large": _K.CONTEXT_TOO_LONG,
    "context_length_exceeded": _K.CONTEXT_TOO_LONG,
    "exceed_context_size_error": _K.CONTEXT_TOO_LONG,
    "content_filter": _K.CONTENT_FILTERED,
    "content_policy_violation": _K.CONTENT_FILTERED,
    "invalid_prompt": _K.CONTENT_FILTERED,
    "bio_policy": _K.CONTENT_FILTERED,
    "cyber_policy": _K.CONTENT_FILTERED,
    "misalignment_policy_violation": _K.CONTENT_FILTERED,
    "rate_limit_error": _K.RATE_LIMITED,
    "rate_limit_exceeded": _K.RATE_LIMITED,
    "overloaded_error": _K.OVERLOADED,
    "server_is_overloaded": _K.OVERLOADED,
    "slow_down": _K.OVERLOADED,
    "timeout_error": _K.TIMEOUT,
    "service_unavailable": _K.OVERLOADED,
}
"""Codes and types of error objects, all providers together: they do not contradict each other.

Those for any fault of a server (`api_error`, `server_error`) are left out: Ollama says the one for
401, OpenAI the other for 503, and without a status it is the server's fault anyway.
"""

_TOO_LONG: Final = re.compile(
    r"prompt is too long|maximum context length|context (window|length|size)"
    r"|too many (input )?tokens|input is too long"
    r"|exceeds? the (model's )?(available|maximum) (context|number of tokens)",
    re.IGNORECASE,
)
_MAY_BE_TOO_LONG: Final = frozenset({_K.BAD_REQUEST, _K.SERVER})
_SPACE: Final = re.compile(r"\s+")


class WireError(Exception):
    """What arrives is not what was agreed; raised and caught in this package only."""

    def __init__(self, kind: LlmErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def one_line(text: str) -> str:
    """For people: storable, on one line, cut to size."""
    line = _SPACE.sub(" ", clean(text)).strip()
    if not line.isprintable():  # an escape sequence would be obeyed by the terminal
        line = "".join(each if each.isprintable() else "\ufffd" for each in line)
    return line if len(line) <= MESSAGE_LENGTH_MAX else line[: MESSAGE_LENGTH_MAX - 1] + "…"


def failure_of(
    error: Exception,
    who: str,
    *,
    is_asked: bool = True,
    has_begun: bool = False,
    usage: Usage | None = None,
) -> LlmError:
    """Why a request failed.

    Args:
        error: what the SDK, the HTTP client, a decoder or this package raised.
        who: the provider's name, for the message.
        is_asked: whether the request was made and handed to the SDK; an error of no known kind is
            then blamed on what came back, before that on this program.
        has_begun: whether the answer had begun: a lost connection is then a cut stream.
        usage: what the attempt is known to have used.
    """
    chain = list(_causes(error))
    for one in chain:
        if isinstance(one, WireError):
            return LlmError(one.kind, one_line(f"{who}: {one.message}"), usage=usage)
    for missing in (error, error.__cause__):
        if isinstance(missing, ImportError):  # no answer of a server makes a module go missing
            text = f"{who}: {type(missing).__name__}: {missing}"
            return LlmError(_K.INTERNAL, one_line(text), usage=usage)
    for one in chain:
        status = getattr(one, "status_code", None)
        if isinstance(status, int):
            return _of_status(one, status, who, usage)
    names = {kind.__name__ for one in chain for kind in type(one).__mro__}
    words = str(chain[-1]) or type(chain[-1]).__name__
    if "TimeoutException" in names or "APITimeoutError" in names or "TimeoutError" in names:
        return LlmError(_K.TIMEOUT, one_line(f"{who}: {words}"), usage=usage)
    if "TransportError" in names or "APIConnectionError" in names or "OSError" in names:
        kind = _K.CUT_STREAM if has_begun else _K.NETWORK
        return LlmError(kind, one_line(f"{who}: {words}"), usage=usage)
    what = f"{type(error).__name__}: {error}"
    if not is_asked:
        return LlmError(_K.INTERNAL, one_line(f"{who}: {what}"), usage=usage)
    text = f"{who}: what came makes no sense: {what}"
    return LlmError(_K.INVALID_RESPONSE, one_line(text), usage=usage)


def failure_in(body: Any, who: str, usage: Usage | None = None) -> LlmError:
    """An error object that came in the middle of a stream; of no known kind, it is the server's."""
    kind, words = _read(body, None)
    return LlmError(kind, one_line(f"{who}: {words}"), usage=usage)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what lies under it, at most ten deep."""
    one: BaseException | None = error
    for _ in range(10):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _of_status(error: BaseException, status: int, who: str, usage: Usage | None) -> LlmError:
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", {})
    otherwise = KIND_OF_STATUS.get(status)
    if otherwise is None:
        otherwise = _K.SERVER if status >= 500 else _K.BAD_REQUEST
    if status == 402:
        otherwise = _K.PERMISSION
    elif 300 <= status < 400:  # never followed: what answers at this address is not the provider
        otherwise = _K.INVALID_RESPONSE
    body = getattr(error, "body", None)
    kind, words = _read(body, otherwise)
    if 300 <= status < 400:
        words = f"redirects to {headers.get('location', 'nowhere')}, which is never followed"
    elif not words or body is None:
        words = getattr(response, "reason_phrase", "") or type(error).__name__
    request_id = headers.get("request-id") or headers.get("x-request-id")
    about = f"HTTP {status}" + (f", request {request_id}" if request_id else "")
    wait_s = retry_after_s(headers)
    about = one_line(about)[:100]
    if wait_s is not None and wait_s > RETRY_AFTER_S_MAX:
        about += f", to be asked again in {wait_s / 60:,.0f} minutes"
    return LlmError(kind, f"{one_line(f'{who}: {words}')} ({about})", wait_s, usage)


def _read(body: Any, otherwise: LlmErrorKind | None) -> tuple[LlmErrorKind, str]:
    """Kind and words of an error object, as deep as it is wrapped.

    `otherwise` is what its HTTP status says; without one, `invalid_request_error` decides between
    the two sides. It cannot do so before the status, because OpenAI says it for 401 and 404 too.
    """
    words = body if isinstance(body, str) else ""
    codes: list[str] = []
    for _ in range(3):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, Mapping):
            words = words or (body if isinstance(body, str) else "")
            break
        codes[:0] = [str(body[key]) for key in ("code", "type") if body.get(key)]
        words = body["message"] if isinstance(body.get("message"), str) else words
        body = body.get("error")
    kind = next((KIND_OF_CODE[code] for code in codes if code in KIND_OF_CODE), None)
    if kind is None:
        status = next((int(code) for code in codes if code.isdecimal() and len(code) == 3), 0)
        if otherwise is None:
            otherwise = _K.BAD_REQUEST if "invalid_request_error" in codes else _K.SERVER
        kind = KIND_OF_STATUS.get(status, otherwise)
    if kind in _MAY_BE_TOO_LONG and _TOO_LONG.search(words):
        kind = _K.CONTEXT_TOO_LONG
    return kind, words or "no reason given"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What the server asks for, in seconds; `None` if it asks for nothing that makes sense."""
    text = headers.get("retry-after-ms")
    scale = 0.001
    if text is None:
        text, scale = headers.get("retry-after"), 1.0
    if text is None:
        return None
    try:
        seconds = float(text) * scale
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def without_key(text: str, key: str, mark: str) -> str:
    """A message without the key, which some endpoints repeat whole, in part or half masked.

    Args:
        text: what is to be shown.
        key: every run of `SECRET_LENGTH_MIN` of its characters or more is replaced; a shorter key
            is a word (`ollama`), as servers without keys let one write, and hides nothing.
        mark: what stands in its place.
    """
    text = _MASKED.sub(mark, text)
    said: list[str] = []
    start = 0
    while start < len(text) and len(key) >= SECRET_LENGTH_MIN:
        end = start + SECRET_LENGTH_MIN
        if text[start:end] not in key or end > len(text):
            said.append(text[start])
            start += 1
            continue
        while end < len(text) and text[start : end + 1] in key:
            end += 1
        said.append(mark)
        start = end
    return "".join(said) + text[start:]
