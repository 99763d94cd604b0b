"""The error objects of providers, read into codes and words, as deep as they are wrapped.

Every framework in front of a model wraps an error once more: under `error`, as JSON in a text, in
`metadata.raw` (OpenRouter, around what the provider behind it said), in `detail` (FastAPI, around
a text or a list of faults), in `base_resp` (MiniMax). What matters stands innermost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.models.failure_kinds import FAILED_GENERATION, FLAGGED_INPUT

DEPTH_MAX: Final = 6
"""Wrappings that are looked through."""

_WRAPPED_LENGTH_MAX: Final = 256 * 1024
_FAULTS_MAX: Final = 3


class ErrorBody(Struct, frozen=True):
    """The codes and types of an error, the innermost first, and its words; both may be empty.

    `wait` is after how long to ask again, as `38.2s`: Google says it there and in no header.
    """

    codes: tuple[str, ...]
    words: str
    wait: str = ""


def read_error(body: Any) -> ErrorBody:
    """The codes and words of whatever came as an error: an object, a list of them, a text."""
    codes: list[str] = []
    words: list[str] = []
    waits: list[str] = []
    for level in _list_levels(body, DEPTH_MAX):
        if isinstance(level, str):
            words.append(level)
            continue
        codes[:0] = _list_codes(level)
        words += _list_words(level)
        waits += _list_details(level, "retryDelay")
    return ErrorBody(tuple(codes), _join_words(words), waits[-1] if waits else "")


def is_error_body(body: Mapping[str, Any]) -> bool:
    """Whether what came in a stream, and is none of its events, says what went wrong.

    Proxies and servers end a stream so in whatever form they have, often without `error`; passed
    over, it would leave nothing to be told but that the stream was cut.
    """
    own = body.get("base_resp")
    is_own = isinstance(own, Mapping) and bool(own.get("status_code"))
    return is_own or bool(body.get("error")) or any(True for _ in _list_words(body))


def _list_levels(body: Any, depth: int) -> Iterator[Mapping[str, Any] | str]:
    """The objects from the outermost to the innermost; a text that holds none is a level itself."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        inner = _decode_wrapped(body)
        if inner is None:
            yield body
            return
        body = inner
    if not isinstance(body, Mapping):
        return
    yield body
    if depth <= 1:
        return
    metadata = body.get("metadata")
    for inner in (
        body.get("error"),
        body.get("base_resp"),
        _decode_wrapped(body.get("message")),
        metadata.get("raw") if isinstance(metadata, Mapping) else None,
    ):
        if inner is not None:
            yield from _list_levels(inner, depth - 1)


def _decode_wrapped(text: Any) -> Any:
    """The object or list that a text or a `message` holds; `None` if it is only words."""
    if isinstance(text, Mapping):
        return text
    if not isinstance(text, str) or len(text) > _WRAPPED_LENGTH_MAX:
        return None
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and value else None


def _list_codes(level: Mapping[str, Any]) -> Iterator[str]:
    for key in ("code", "type"):
        if level.get(key):
            yield str(level[key])
    if level.get(FAILED_GENERATION):
        yield FAILED_GENERATION
    metadata = level.get("metadata")
    if isinstance(metadata, Mapping) and FLAGGED_INPUT in metadata:
        yield FLAGGED_INPUT
    yield from _list_details(level, "reason")


def _list_details(level: Mapping[str, Any], name: str) -> Iterator[str]:
    """What Google's details say under a name."""
    details = level.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(detail.get(name), str):
            yield detail[name]


def _list_words(level: Mapping[str, Any]) -> Iterator[str]:
    """What one level says itself.

    `failed_generation` is what the model wrote and Groq refused: without it nobody knows why.
    """
    for key in ("message", "detail", "msg", "status_msg", FAILED_GENERATION):
        said = level.get(key)
        if isinstance(said, str) and _decode_wrapped(said) is None:
            yield said
        elif isinstance(said, list):
            yield "; ".join(_format_fault(one) for one in said[:_FAULTS_MAX])


def _format_fault(fault: Any) -> str:
    """One of FastAPI's faults: what is wrong, and where."""
    if not isinstance(fault, Mapping):
        return fault if isinstance(fault, str) else ""
    said, place = fault.get("msg"), fault.get("loc")
    text = said if isinstance(said, str) else ""
    if isinstance(place, list) and place:
        text += f" ({'.'.join(str(part) for part in place)})"
    return text


def _join_words(words: list[str]) -> str:
    """All words once: a wrapping often repeats what it wraps."""
    kept: list[str] = []
    for one in words:
        if one.strip() and not any(one in other for other in kept):
            kept.append(one)
    return ": ".join(kept)
