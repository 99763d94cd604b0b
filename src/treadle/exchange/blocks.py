"""What stands in messages besides text: pictures and documents become a mark."""

from __future__ import annotations

from typing import Any, Final

from treadle.exchange.lines import dump, fields_of, items_of, word

_TEXT: Final = frozenset({"text", "input_text", "output_text", "summary_text"})
_PICTURE: Final = frozenset({"image", "input_image", "image_url", "input_audio"})
_DOCUMENT: Final = frozenset({"document", "input_file", "file"})


def shown(content: Any) -> str:
    """The text of a message or a result: a string, one block, or a list of them.

    Args:
        content: as the program has it; what is no text is marked or told as JSON.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_of_block, content)))
    return _of_block(content)


def _of_block(block: Any) -> str:
    if isinstance(block, str):
        return block
    fields = fields_of(block)
    kind = word(fields.get("type"))
    if kind in _TEXT or (not kind and "text" in fields):
        return word(fields.get("text"))
    if kind in _PICTURE:
        return mark("image", _media_type(fields))
    if kind in _DOCUMENT:
        return mark("document", _media_type(fields))
    data = fields_of(fields.get("inlineData") or fields.get("fileData"))
    if data:
        return mark("image", word(data.get("mimeType")))
    if kind == "tool_reference":
        return mark("tool", word(fields.get("tool_name")))
    return dump(block)


def mark(what: str, detail: str = "") -> str:
    """What stands in the place of a thing that is no text: `[image: image/png]`."""
    return f"[{what}: {detail}]" if detail else f"[{what}]"


def _media_type(fields: Any) -> str:
    named = word(fields_of(fields.get("source")).get("media_type"))
    url = word(fields.get("image_url"))
    return named or (url[5:].partition(";")[0] if url.startswith("data:") else "")


def texts(content: Any) -> list[Any]:
    """The blocks of a message: those of a list, or the one that a string is."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return items_of(content)
