"""The error objects of providers, read into codes and words, as deep as they are wrapped.

Every framework in front of a model wraps an error once more: under `error`, as JSON in a text, in
`metadata.raw` (OpenRouter, around what the provider behind it said), in `detail` (FastAPI, around
a text or a list of faults). What matters stands innermost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.models.failure_kinds import FLAGGED_INPUT

DEPTH_MAX: Final = 6
"""Wrappings that are looked through."""

_WRAPPED_LENGTH_MAX: Final = 256 * 1024
_FAULTS_MAX: Final = 3


class ErrorBody(Struct, frozen=True):
    """The codes and types of an error, the innermost first, and its words; both may be empty."""

    codes: tuple[str, ...]
    words: str


def read_error(body: Any) -> ErrorBody:
    """The codes and words of whatever came as an error: an object, a list of them, a text."""
    codes: list[str] = []
    words: list[str] = []
    for level in _levels(body, DEPTH_MAX):
        if isinstance(level, str):
            words.append(level)
            continue
        codes[:0] = _codes_of(level)
        words += _words_of(level)
    return ErrorBody(tuple(codes), _joined(words))


def _levels(body: Any, depth: int) -> Iterator[Mapping[str, Any] | str]:
    """The objects from the outermost to the innermost; a text that holds none is a level itself."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        inner = _decoded(body)
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
        _decoded(body.get("message")),
        metadata.get("raw") if isinstance(metadata, Mapping) else None,
    ):
        if inner is not None:
            yield from _levels(inner, depth - 1)


def _decoded(text: Any) -> Any:
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


def _codes_of(level: Mapping[str, Any]) -> Iterator[str]:
    for key in ("code", "type"):
        if level.get(key):
            yield str(level[key])
    metadata = level.get("metadata")
    if isinstance(metadata, Mapping) and FLAGGED_INPUT in metadata:
        yield FLAGGED_INPUT
    details = level.get("details")
    for detail in details if isinstance(details, list) else ():  # Google's
        if isinstance(detail, Mapping) and isinstance(detail.get("reason"), str):
            yield detail["reason"]


def _words_of(level: Mapping[str, Any]) -> Iterator[str]:
    """What one level says itself.

    `failed_generation` is what the model wrote and Groq refused: without it nobody knows why.
    """
    for key in ("message", "detail", "failed_generation"):
        said = level.get(key)
        if isinstance(said, str) and _decoded(said) is None:
            yield said
        elif isinstance(said, list):
            yield "; ".join(_fault(one) for one in said[:_FAULTS_MAX])


def _fault(fault: Any) -> str:
    """One of FastAPI's faults: what is wrong, and where."""
    if not isinstance(fault, Mapping):
        return fault if isinstance(fault, str) else ""
    said, place = fault.get("msg"), fault.get("loc")
    text = said if isinstance(said, str) else ""
    if isinstance(place, list) and place:
        text += f" ({'.'.join(str(part) for part in place)})"
    return text


def _joined(words: list[str]) -> str:
    """All words once: a wrapping often repeats what it wraps."""
    kept: list[str] = []
    for one in words:
        if one.strip() and not any(one in other for other in kept):
            kept.append(one)
    return ": ".join(kept)
