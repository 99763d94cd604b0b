"""From what a server answers to what a model reads and sees."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from treadle.core.media import MediaError, identify_media
from treadle.thread.safe_text import sanitize_text
from treadle.tools.tool_return import ShownFile, ToolReturn

SHOWN_COUNT_MAX: Final = 8
"""Pictures of an answer that a model is shown."""
ADDRESS_LENGTH_MAX: Final = 500


def read_result(result: CallToolResult) -> ToolReturn:
    """What a model reads and is shown of an answer.

    Texts as they stand, but for what steers a terminal; pictures and documents as attachments, if
    a model takes them; of everything else what it is. Structured content is given as JSON, unless
    a text says the same already, as servers do for clients that do not know it.
    """
    structured = result.structured_content
    read = [_read_block(block) for block in result.content]
    if structured is not None and not any(_is_same(text, structured) for text, _ in read):
        read.append((json.dumps(structured, ensure_ascii=False, indent=1), b""))
    return _join(read)


def read_resource(result: ReadResourceResult) -> ToolReturn:
    """What a model reads and is shown of something that a server keeps."""
    return _join([_read_content(one) for one in result.contents])


def read_prompt(result: GetPromptResult) -> ToolReturn:
    """What is said for a prompt: its messages, with who says each if it is a talk."""
    is_talk = any(one.role != "user" for one in result.messages)
    read: list[tuple[str, bytes]] = []
    for one in result.messages:
        read += [(f"[{one.role}]", b"")] if is_talk else []
        read.append(_read_block(one.content))
    return _join(read)


def list_resources(kept: Iterable[Resource], templates: Iterable[ResourceTemplate]) -> ToolReturn:
    """What a model reads of what a server keeps."""
    lines = [_describe(str(one.uri), one.name, one.description) for one in kept]
    lines += [_describe(one.uri_template, one.name, one.description) for one in templates]
    return ToolReturn(sanitize_text("\n".join(lines) or "it keeps nothing now"))


def _describe(address: str, name: str, description: str | None) -> str:
    words = f": {description[:ADDRESS_LENGTH_MAX]}" if description else ""
    return f"{_cut(address)} ({name[:ADDRESS_LENGTH_MAX]}){words}"


def _join(read: Iterable[tuple[str, bytes]]) -> ToolReturn:
    texts: list[str] = []
    shown: list[ShownFile] = []
    for text, data in read:
        if data:
            name = f"{len(shown) + 1}"
            why = "more are not shown" if len(shown) >= SHOWN_COUNT_MAX else _find_fault(data)
            if why:
                text = f"{text} ({why})"
            else:
                shown.append(ShownFile(name, data))
        if text:
            texts.append(text)
    return ToolReturn(sanitize_text("\n".join(texts)), shown=tuple(shown))


def _read_block(block: object) -> tuple[str, bytes]:
    """What is said of a part of an answer, and the bytes that may be shown."""
    for kind, read in _READERS:
        if isinstance(block, kind):
            return read(block)
    return f"[{type(block).__name__}]", b""


def _read_text(block: TextContent) -> tuple[str, bytes]:
    return block.text, b""


def _read_image(block: ImageContent) -> tuple[str, bytes]:
    data = _decode(block.data)
    return f"[a picture, {block.mime_type}, {len(data)} bytes]", data


def _read_audio(block: AudioContent) -> tuple[str, bytes]:
    return f"[a sound, {block.mime_type}, {len(_decode(block.data))} bytes]", b""


def _read_link(block: ResourceLink) -> tuple[str, bytes]:
    words = f": {block.description}" if block.description else ""
    return f"[{block.name}, at {_cut(str(block.uri))}{words}]", b""


def _read_resource(block: EmbeddedResource) -> tuple[str, bytes]:
    return _read_content(block.resource)


def _read_content(content: TextResourceContents | BlobResourceContents) -> tuple[str, bytes]:
    where = f"[{_cut(str(content.uri))}, {content.mime_type or 'of no type'}"
    if not isinstance(content, BlobResourceContents):
        return f"{where}]\n{content.text}", b""
    data = _decode(content.blob)
    return f"{where}, {len(data)} bytes]", data if _is_shown(data) else b""


_READERS: Final[Sequence[tuple[type, Callable[[Any], tuple[str, bytes]]]]] = (
    (TextContent, _read_text),
    (ImageContent, _read_image),
    (AudioContent, _read_audio),
    (ResourceLink, _read_link),
    (EmbeddedResource, _read_resource),
)


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return b""


def _cut(address: str) -> str:
    return address if len(address) <= ADDRESS_LENGTH_MAX else f"{address[:ADDRESS_LENGTH_MAX]}..."


def _is_shown(data: bytes) -> bool:
    try:
        return identify_media(data) is not None
    except MediaError:
        return False


def _find_fault(data: bytes) -> str:
    """Why no model can be shown this; empty if one can."""
    try:
        return "" if identify_media(data) else "of a kind that no model is shown"
    except MediaError as error:
        return str(error)


def _is_same(text: str, structured: Any) -> bool:
    # Servers wrap what is no object, such as a number or words.
    is_wrapped = isinstance(structured, dict) and len(structured) == 1
    value = next(iter(structured.values())) if is_wrapped else structured
    if text == value:
        return True
    try:
        return json.loads(text) in (value, structured)
    except (ValueError, RecursionError):
        return False
