"""What a model has thought before it answered, read off its opaque blocks. Pure.

The blocks stay as they came, because the provider wants them back; people read the text in them.
What a provider keeps to itself (encrypted, or never sent) is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from treadle.core.messages import Message, OpaquePart

_MARKS: Final = ("thinking", "reasoning")
"""One of them stands in each block of thoughts."""


def list_thoughts(message: Message) -> list[str]:
    """The thoughts of an answer, in order; a block of another form is passed over."""
    return [
        text
        for part in (message.native.parts if message.native is not None else ())
        if isinstance(part, OpaquePart) and any(mark in part.block_json for mark in _MARKS)
        if (text := "\n\n".join(_list_texts(msgspec.json.decode(part.block_json))).strip())
    ]


def _list_texts(block: Any) -> Iterator[str]:
    """The paragraphs of a block: of the Messages API, of Responses, of Chat Completions."""
    if not isinstance(block, dict):
        return
    kind = block.get("type")
    if kind == "thinking":
        yield from _keep_texts(block.get("thinking"))
        yield from _list_fields(block.get("thinking"), "text")
    elif kind == "reasoning":
        yield from _list_fields(block.get("summary"), "text")
        yield from _list_fields(block.get("content"), "text")
    elif kind is None:
        yield from _keep_texts(block.get("reasoning_content"), block.get("reasoning"))
        yield from _list_fields(block.get("reasoning_details"), "summary", "text")
        yield from _list_texts(block.get("content_part"))


def _list_fields(parts: Any, *names: str) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield from _keep_texts(*map(part.get, names))


def _keep_texts(*values: Any) -> Iterator[str]:
    yield from (value for value in values if isinstance(value, str) and value)
