"""Small pictures and documents, made byte by byte, and ways to damage them."""

from __future__ import annotations

import struct
import zlib
from hashlib import sha256
from typing import Final

from treadle.core.media import identify_media
from treadle.core.messages import Attachment, BlobRef


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int = 3, height: int = 2, *more: bytes) -> bytes:
    """A grey PNG; of a size that is too large for words, only its header is so."""
    rows = b"".join(b"\0" + bytes(width) for _ in range(height)) if width * height < 10**6 else b""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head), *more, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


JPEG: Final = b"".join(
    (
        b"\xff\xd8",
        _segment(0xE0, b"JFIF\0\1\1" + bytes(7)),
        _segment(0xDB, b"\0" + b"\x08" * 64),
        _segment(0xC0, b"\x08\0\7\0\5\1\1\x11\0"),
        _segment(0xC4, b"\0\1" + bytes(15) + b"\x08"),
        _segment(0xDA, b"\1\1\0\0\x3f\0"),
        b"\x54\xbf\xff\xd9",
    )
)
"""5 pixels wide, 7 high."""
_FRAME: Final = b",\0\0\0\0\1\0\1\0\0\2\2\x44\1\0"
GIF: Final = b"GIF89a\4\0\3\0\x80\0\0" + bytes(6) + _FRAME + b";"
ANIMATED_GIF: Final = GIF[:-1] + _FRAME + b";"


def webp(kind: bytes, body: bytes) -> bytes:
    """A WebP of one piece."""
    rest = b"WEBP" + kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(rest)) + rest


WEBP: Final = webp(b"VP8L", b"\x2f" + struct.pack("<I", 9 | 19 << 14) + bytes(10))
"""10 pixels wide, 20 high."""
PDF: Final = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def attachment(data: bytes, name: str = "shot.png") -> Attachment:
    """The attachment that these bytes are."""
    media = identify_media(data)
    assert media is not None
    ref = BlobRef(sha256(data).hexdigest(), len(data))
    return Attachment(media.kind, media.media_type, name, ref, media.width, media.height)
