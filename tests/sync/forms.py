"""Every form in which a text may stand in what was sent, and the bytes that were sent, unpacked."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_GZIP: Final = b"\x1f\x8b\x08"
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,8})(?:;[^\r\n]*)?\r\n")


def forms_of(text: str) -> set[bytes]:
    """A text as it is, escaped, in hexadecimal, in base64 wherever it begins, and in UTF-16."""
    raw = text.encode()
    escaped = json.dumps(text)[1:-1]
    found = {
        raw,
        escaped.encode(),
        json.dumps(escaped)[1:-1].encode(),
        "".join(f"\\u{ord(one):04x}" for one in text).encode(),
        quote(text, safe="").encode(),
        quote_plus(text).encode(),
        "".join(f"%{one:02x}" for one in raw).encode(),
        "".join(f"%{one:02X}" for one in raw).encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        text.encode("utf-16-le"),
        text.encode("utf-16-be"),
    }
    for offset in range(3):
        for table in (base64.b64encode, base64.urlsafe_b64encode):
            # What stands before and after changes the first and the last digits of it.
            code = table(b"\0" * offset + raw)
            start = (0, 2, 3)[offset]
            found.add(code[start : len(code) - 4])
    return found


def unpacked(data: bytes) -> Iterator[bytes]:
    """What was sent, and what it holds that is compressed or sent in chunks."""
    yield data
    joined = joined_chunks(data)
    if joined != data:
        yield joined
    for packed in (data, joined):
        at = packed.find(_GZIP)
        while at >= 0:
            yield _inflated(packed[at:])
            at = packed.find(_GZIP, at + 1)


def joined_chunks(data: bytes) -> bytes:
    """The bytes without the sizes that stand between the chunks of a body."""
    out, at = bytearray(), 0
    while found := _CHUNK.search(data, at):
        size = int(found[1], 16)
        before = data[found.start() - 2 : found.start()]
        if before != b"\r\n" or found.end() + size > len(data):
            out += data[at : found.end()]
            at = found.end()
            continue
        out += data[at : found.start() - 2]
        out += data[found.end() : found.end() + size]
        at = found.end() + size
    return bytes(out + data[at:])


def _inflated(data: bytes) -> bytes:
    machine = zlib.decompressobj(wbits=31)
    try:
        return machine.decompress(data)
    except zlib.error:
        return b""


def hits(data: bytes, texts: Iterable[str]) -> list[str]:
    """Which of the texts stand in these bytes, in any form."""
    found: list[str] = []
    wanted = [(text, forms_of(text)) for text in texts]
    for piece in unpacked(data):
        found += [text for text, forms in wanted if any(form in piece for form in forms)]
    return sorted(set(found))
