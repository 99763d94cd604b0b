"""What stands in messages besides text: pictures and documents become a mark, or their bytes."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any, Final

from treadle.core.media import MediaError, identify_media
from treadle.exchange.json_lines import as_list, as_object, as_string, dump_json

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "summary_text"})
_PICTURE_TYPES: Final = frozenset({"image", "input_image", "image_url", "input_audio"})
_DOCUMENT_TYPES: Final = frozenset({"document", "input_file", "file"})


def format_content(content: Any) -> str:
    """The text of a message or a result: a string, one block, or a list of them.

    Args:
        content: as the program has it; what is no text is marked or told as JSON.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_format_block, content)))
    return _format_block(content)


def _format_block(block: Any) -> str:
    if isinstance(block, str):
        return block
    fields = as_object(block)
    kind = as_string(fields.get("type"))
    if kind in _TEXT_TYPES or (not kind and "text" in fields):
        return as_string(fields.get("text"))
    if kind in _PICTURE_TYPES:
        return make_placeholder("image", _find_media_type(fields))
    if kind in _DOCUMENT_TYPES:
        return make_placeholder("document", _find_media_type(fields))
    data = as_object(fields.get("inlineData") or fields.get("fileData"))
    if data:
        return make_placeholder("image", as_string(data.get("mimeType")))
    if kind == "tool_reference":
        return make_placeholder("tool", as_string(fields.get("tool_name")))
    return dump_json(block)


def list_pictures(content: Any) -> tuple[bytes, ...]:
    """The bytes of the pictures and documents in a message, of those that a model takes.

    Args:
        content: as the program has it: with bytes in base64, as the APIs of models want them.
    """
    found: list[bytes] = []
    for block in content if isinstance(content, list) else (content,):
        fields = as_object(block)
        holders = (as_object(fields.get("source")), as_object(fields.get("inlineData")), fields)
        encoded = next(filter(None, (as_string(one.get("data")) for one in holders)), "")
        address = _find_address(fields)
        if address.startswith("data:"):
            encoded = address.partition(";base64,")[2]
        try:
            data = b64decode(encoded, validate=True)
            if data and identify_media(data) is not None:
                found.append(data)
        except (Base64Error, ValueError, MediaError):
            continue  # its mark in the text says that something was there
    return tuple(found)


def make_placeholder(what: str, detail: str = "") -> str:
    """What stands in the place of a thing that is no text: `[image: image/png]`."""
    return f"[{what}: {detail}]" if detail else f"[{what}]"


def _find_media_type(fields: Any) -> str:
    named = as_string(as_object(fields.get("source")).get("media_type"))
    named = named or as_string(fields.get("mimeType")) or as_string(fields.get("mime"))
    url = _find_address(fields)
    return named or (url[5:].partition(";")[0] if url.startswith("data:") else "")


def _find_address(fields: Any) -> str:
    """The URL of a picture or a document, wherever a block has it."""
    url = fields.get("image_url") or fields.get("file_data") or fields.get("url")
    return as_string(as_object(url).get("url")) or as_string(url)


def list_blocks(content: Any) -> list[Any]:
    """The blocks of a message: those of a list, or the one that a string is."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return as_list(content)
