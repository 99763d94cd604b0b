"""The border where the failures of HTTP and wire formats become `LlmError`s, once.

`make_llm_error` takes any exception that a provider's stream can raise; `make_stream_llm_error` an
error object that arrives in the middle of a stream, under HTTP 200. `error_body` reads such an
object, and the tables of `failure_kinds` say what it means. Classes are known by what they carry,
not imported.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final

import msgspec

from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.retry import DELAY_S_FIRST, KIND_OF_STATUS, RETRY_AFTER_S_MAX
from treadle.models.error_body import read_error
from treadle.models.failure_kinds import classify_error
from treadle.thread.record import replace_surrogates

MESSAGE_LENGTH_MAX: Final = 500

SECRET_LENGTH_MIN: Final = 8

_K = LlmErrorKind
_MASKED: Final = re.compile(r"[\w-]*[*•]{3,}[\w-]*")
"""A key as endpoints echo it: `sk-pr*******9fQA`."""

_SPACE: Final = re.compile(r"\s+")

LONG_REQUEST: Final = 16_000
"""Characters from which a refusal without a word may mean that the request is too long: half of the
smallest window that is in use, of 8,192 tokens."""


class WireError(Exception):
    """What arrives is not what was agreed; raised and caught in this package only."""

    def __init__(self, kind: LlmErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def shorten_to_line(text: str) -> str:
    """For people: storable, on one line, cut to size."""
    line = _SPACE.sub(" ", replace_surrogates(text)).strip()
    if not line.isprintable():  # an escape sequence would be obeyed by the terminal
        line = "".join(each if each.isprintable() else "\ufffd" for each in line)
    return line if len(line) <= MESSAGE_LENGTH_MAX else line[: MESSAGE_LENGTH_MAX - 1] + "…"


def make_llm_error(
    error: Exception,
    who: str,
    *,
    is_asked: bool = True,
    has_begun: bool = False,
    usage: Usage | None = None,
    request_length: int = 0,
) -> LlmError:
    """Why a request failed.

    Args:
        error: what the HTTP client, a decoder or this package raised.
        who: the provider's name, for the message.
        is_asked: whether the request was made; an error of no known kind is
            then blamed on what came back, before that on this program.
        has_begun: whether the answer had begun: a lost connection is then a cut stream.
        usage: what the attempt is known to have used.
        request_length: characters that the model was to read.
    """
    chain = list(_list_causes(error))
    for one in chain:
        if isinstance(one, WireError):
            return LlmError(one.kind, shorten_to_line(f"{who}: {one.message}"), usage=usage)
    for missing in (error, error.__cause__):
        if isinstance(missing, ImportError):  # no answer of a server makes a module go missing
            text = f"{who}: {type(missing).__name__}: {missing}"
            return LlmError(_K.INTERNAL, shorten_to_line(text), usage=usage)
    for one in chain:
        status = getattr(one, "status_code", None)
        if isinstance(status, int):
            failure = _make_status_error(one, status, who, request_length)
            return msgspec.structs.replace(failure, usage=usage)
    names = {kind.__name__ for one in chain for kind in type(one).__mro__}
    words = str(chain[-1]) or type(chain[-1]).__name__
    if "TimeoutException" in names or "APITimeoutError" in names or "TimeoutError" in names:
        return LlmError(_K.TIMEOUT, shorten_to_line(f"{who}: {words}"), usage=usage)
    if "TransportError" in names or "APIConnectionError" in names or "OSError" in names:
        kind = _K.CUT_STREAM if has_begun else _K.NETWORK
        return LlmError(kind, shorten_to_line(f"{who}: {words}"), usage=usage)
    what = f"{type(error).__name__}: {error}"
    if not is_asked:
        return LlmError(_K.INTERNAL, shorten_to_line(f"{who}: {what}"), usage=usage)
    text = f"{who}: what came makes no sense: {what}"
    return LlmError(_K.INVALID_RESPONSE, shorten_to_line(text), usage=usage)


def make_stream_llm_error(body: Any, who: str, usage: Usage | None = None) -> LlmError:
    """An error object that came in the middle of a stream; of no known kind, it is the server's."""
    read = read_error(body)
    words = read.words or "no reason given"
    kind = classify_error(read.codes, words, None)
    return LlmError(
        kind, shorten_to_line(f"{who}: {words}"), _choose_wait_s({}, read.wait), usage=usage
    )


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what lies under it, at most ten deep."""
    one: BaseException | None = error
    for _ in range(10):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _make_status_error(
    error: BaseException, status: int, who: str, request_length: int
) -> LlmError:
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", {})
    read = read_error(getattr(error, "body", None))
    kind = classify_error(read.codes, read.words, _classify_status(status))
    words = read.words
    if 300 <= status < 400:
        words = f"redirects to {headers.get('location', 'nowhere')}, which is never followed"
    elif not words:
        words = getattr(response, "reason_phrase", "") or type(error).__name__
        if status == 400 and not read.codes and request_length >= LONG_REQUEST:
            # Cerebras refuses a request that is too long without a word. One that was refused for
            # something else is compacted once for nothing; without this no thread there ever is.
            kind, words = _K.CONTEXT_TOO_LONG, f"{words}, without a word; a long request"
    request_id = headers.get("request-id") or headers.get("x-request-id")
    about = f"HTTP {status}" + (f", request {request_id}" if request_id else "")
    wait_s = _choose_wait_s(headers, read.wait)
    about = shorten_to_line(about)[:100]
    if wait_s is not None and wait_s > RETRY_AFTER_S_MAX:
        about += f", to be asked again in {wait_s / 60:,.0f} minutes"
    return LlmError(kind, f"{shorten_to_line(f'{who}: {words}')} ({about})", wait_s)


def _classify_status(status: int) -> LlmErrorKind:
    if 300 <= status < 400:  # never followed: what answers at this address is not the provider
        return _K.INVALID_RESPONSE
    if status == 402:
        return _K.PERMISSION
    return KIND_OF_STATUS.get(status, _K.SERVER if status >= 500 else _K.BAD_REQUEST)


def _choose_wait_s(headers: Mapping[str, str], in_body: str) -> float | None:
    """The wait that headers and body ask for; one of zero would make a loop of the retries."""
    named = (retry_after_s(headers), _parse_seconds(in_body.removesuffix("s") or None))
    return max((max(DELAY_S_FIRST, wait_s) for wait_s in named if wait_s is not None), default=None)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What the server asks for, in seconds; `None` if it asks for nothing that makes sense.

    Azure sends both headers and leaves one of them at zero: the longest wait that is named holds.
    """
    named = (
        _parse_seconds(headers.get("retry-after-ms"), 0.001),
        _parse_seconds(headers.get("retry-after")),
    )
    return max((wait_s for wait_s in named if wait_s is not None), default=None)


def _parse_seconds(text: str | None, scale: float = 1.0) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text) * scale
    except ValueError:
        moment = parsedate_tz(text)
        if moment is None:
            return None
        try:  # one without a zone is in GMT, as HTTP has it, and not in the zone of this machine
            seconds = mktime_tz((*moment[:9], moment[9] or 0)) - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def redact_key(text: str, key: str, mark: str) -> str:
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
