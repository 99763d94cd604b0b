"""What bytes are, by their own marks and never by a name: pictures and documents that models read.

A picture is read up to its size and through its structure; nothing is unpacked, so that a bomb is
only bytes here. One that is cut or damaged is refused: a provider would refuse the whole request
for it, and with it every later one of the thread.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from treadle.core.messages import Attachment, BlobRef

IMAGE_SIZE_MAX: Final = 3_932_160
"""Bytes of a picture: 5 MiB as base64, which is what Anthropic takes of one; others take more."""
PDF_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a document: as base64, with all else that is said, it stays below 32 MB of a request."""
SIDE_MAX: Final = 8000
"""Pixels of a side: the most that Anthropic takes."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The markers of a JPEG that say how large it is."""


class Media(Struct, frozen=True):
    """What bytes are. `width` and `height` are in pixels; 0 for a document."""

    kind: Literal["image", "pdf"]
    media_type: str
    width: int = 0
    height: int = 0


class MediaError(Exception):
    """The bytes are a picture or a document that no model takes as it is; the text says why."""


class _DamagedError(MediaError):
    """Its structure is not that of what it begins like."""


def identify_media(data: bytes, size: int = 0) -> Media | None:
    """What the bytes are; `None` if they are no picture and no document.

    A text that only begins like one (`%PDF-`, `GIF89a`) is a text.

    Args:
        data: all of them; of what is too large, the first 32 will do.
        size: how many there are in all; 0 if `data` has them.

    Raises:
        MediaError: they are one that is damaged, too large, or of a kind that models do not read.
    """
    if (read := _find_reader(data)) is not None:
        # Before its structure: that of a hostile one takes long, and of a large one a part is here.
        _check_size(is_document=read is _read_pdf, size=size or len(data))
        try:
            media = read(data)
        except _DamagedError:
            if _is_text(data):
                return None
            raise
        _check_pixels(media)
        return media
    if name := _find_odd_kind(data):
        raise MediaError(f"no model reads {name}; make a PNG or a JPEG of it")
    return None


def make_attachment(media: Media, name: str, data: bytes) -> Attachment:
    """What a message carries for bytes of which it is known what they are."""
    ref = BlobRef(sha256(data).hexdigest(), len(data))
    return Attachment(media.kind, media.media_type, name, ref, media.width, media.height)


def is_media(beginning: bytes) -> bool:
    """Whether these are the first bytes (32 are enough) of a picture or a document, of any kind."""
    return _find_reader(beginning) is not None or bool(_find_odd_kind(beginning))


def _is_text(data: bytes) -> bool:
    try:
        return b"\0" not in data and bool(data.decode())
    except UnicodeDecodeError:
        return False


def _find_reader(data: bytes) -> Callable[[bytes], Media] | None:
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _read_webp
    return next((read for mark, read in _READERS.items() if data.startswith(mark)), None)


def _check_size(*, is_document: bool, size: int) -> None:
    if is_document and size > PDF_SIZE_MAX:
        raise MediaError(
            f"the document has {size} bytes, and at most {PDF_SIZE_MAX} can be sent; take some "
            "of its pages"
        )
    if not is_document and size > IMAGE_SIZE_MAX:
        raise MediaError(
            f"the picture has {size} bytes, and at most {IMAGE_SIZE_MAX} can be sent; make it "
            "smaller, or a JPEG of it"
        )


def _check_pixels(media: Media) -> None:
    if media.kind == "image" and not (0 < media.width <= SIDE_MAX and 0 < media.height <= SIDE_MAX):
        raise MediaError(
            f"the picture has {media.width}x{media.height} pixels, and at most "
            f"{SIDE_MAX}x{SIDE_MAX} can be sent; make it smaller"
        )


def _find_odd_kind(data: bytes) -> str:
    """The name of a kind of picture that models do not read; empty if it is none."""
    brand = data[8:12] if data[4:8] == b"ftyp" else b""
    if brand in (b"heic", b"heix", b"hevc", b"mif1", b"msf1", b"heim", b"heis"):
        return "HEIC"
    if brand in (b"avif", b"avis"):
        return "AVIF"
    if data.startswith((b"II*\0", b"MM\0*")):
        return "TIFF"
    if data.startswith(b"BM") and data[6:10] == bytes(4) and data[14:18] in _BMP_HEADERS:
        return "BMP"
    if data.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n")):
        return "JPEG XL"
    return "ICO" if data.startswith(b"\0\0\1\0") and data[5:6] == b"\0" else ""


_BMP_HEADERS: Final = tuple(size.to_bytes(4, "little") for size in (12, 40, 52, 56, 108, 124))


def _damaged(name: str) -> _DamagedError:
    return _DamagedError(f"the {name} is damaged or cut; save it again")


def _animated(name: str) -> MediaError:
    return MediaError(f"the {name} is animated, and models see one picture; save one frame as PNG")


def _read_png(data: bytes) -> Media:
    at, size, has_pixels = len(_PNG), (0, 0), False
    while True:
        length = int.from_bytes(data[at : at + 4])
        kind, end = data[at + 4 : at + 8], at + 8 + length
        sum_at_end = data[end : end + 4]
        if len(sum_at_end) < 4 or zlib.crc32(memoryview(data)[at + 4 : end]) != int.from_bytes(
            sum_at_end
        ):
            raise _damaged("PNG")
        if at == len(_PNG):
            if kind != b"IHDR" or length != 13:
                raise _damaged("PNG")
            size = int.from_bytes(data[at + 8 : at + 12]), int.from_bytes(data[at + 12 : at + 16])
        if kind == b"acTL":
            raise _animated("PNG")
        if kind == b"IDAT" and length:
            has_pixels = True
        if kind == b"IEND":
            if not has_pixels:
                raise _damaged("PNG")
            return Media("image", "image/png", *size)
        at = end + 4


def _read_jpeg(data: bytes) -> Media:
    at, size = 2, (0, 0)
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        length = int.from_bytes(data[at + 2 : at + 4])
        if marker in _JPEG_SIZES and length >= 8:
            size = int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        if marker == 0xDA or length < 2:
            break
        at += 2 + length
    if data[at + 1 : at + 2] != b"\xda" or not all(size) or data.rfind(b"\xff\xd9", at) < 0:
        raise _damaged("JPEG")
    return Media("image", "image/jpeg", *size)


def _read_gif(data: bytes) -> Media:
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if len(data) < 13:
        raise _damaged("GIF")
    at, frames = 13 + _size_of_colours(data[10]), 0
    while True:
        block = data[at : at + 1]
        if block == b";":
            break
        if block == b",":
            if len(data) < at + 11:
                raise _damaged("GIF")
            frames += 1
            # Who draws it makes room for a frame that reaches beyond the whole.
            left, top, wide, high = struct.unpack_from("<4H", data, at + 1)
            width, height = max(width, left + wide), max(height, top + high)
            at = _skip_gif_pieces(data, at + 11 + _size_of_colours(data[at + 9]))
        elif block == b"!":
            at = _skip_gif_pieces(data, at + 2)
        else:
            raise _damaged("GIF")
    if frames > 1:
        raise _animated("GIF")
    if not frames:
        raise _damaged("GIF")
    return Media("image", "image/gif", width, height)


def _size_of_colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _skip_gif_pieces(data: bytes, at: int) -> int:
    while at < len(data):
        length = data[at]
        at += 1 + length
        if not length:
            return at
    raise _damaged("GIF")


def _read_webp(data: bytes) -> Media:
    if int.from_bytes(data[4:8], "little") + 8 > len(data):
        raise _damaged("WebP")
    kind, body = data[12:16], data[20:30]
    if len(body) < 10:
        raise _damaged("WebP")
    if kind == b"VP8X":
        if body[0] & 2:
            raise _animated("WebP")
        width, height = (int.from_bytes(body[i : i + 3], "little") + 1 for i in (4, 7))
    elif kind == b"VP8L" and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(body[i : i + 2], "little") & 0x3FFF for i in (6, 8))
    else:
        raise _damaged("WebP")
    return Media("image", "image/webp", width, height)


def _read_pdf(data: bytes) -> Media:
    if not re.search(rb"%%EOF\s*\Z", data[-1024:].rstrip(b"\0")):
        raise _damaged("PDF")
    if b"/Encrypt" in data:
        raise MediaError("the PDF is encrypted, and nobody could read it; save it without that")
    return Media("pdf", "application/pdf")


_READERS: Final[Mapping[bytes, Callable[[bytes], Media]]] = {
    _PNG: _read_png,
    b"\xff\xd8\xff": _read_jpeg,
    b"GIF87a": _read_gif,
    b"GIF89a": _read_gif,
    b"%PDF-": _read_pdf,
}
"""How each kind begins, and who reads it."""
