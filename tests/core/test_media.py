"""What bytes are is told by their own marks, and what no provider would take is refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media_samples import ANIMATED_GIF, GIF, JPEG, PDF, WEBP, chunk, png, webp
from treadle.core.media import (
    IMAGE_SIZE_MAX,
    PDF_SIZE_MAX,
    SIDE_MAX,
    Media,
    MediaError,
    identify_media,
    is_media,
)

KNOWN: Final = {
    "PNG": (png(), Media("image", "image/png", 3, 2)),
    "the largest PNG": (png(SIDE_MAX, SIDE_MAX), Media("image", "image/png", SIDE_MAX, SIDE_MAX)),
    "JPEG": (JPEG, Media("image", "image/jpeg", 5, 7)),
    "JPEG with more behind it": (JPEG + b"xmp", Media("image", "image/jpeg", 5, 7)),
    "GIF": (GIF, Media("image", "image/gif", 4, 3)),
    "WebP": (WEBP, Media("image", "image/webp", 10, 20)),
    "lossy WebP": (
        webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 8, 6) + b"\0\0"),
        Media("image", "image/webp", 8, 6),
    ),
    "extended WebP": (
        webp(b"VP8X", b"\0\0\0\0\7\0\0\5\0\0"),
        Media("image", "image/webp", 8, 6),
    ),
    "PDF": (PDF, Media("pdf", "application/pdf")),
}

REFUSED: Final = {
    "a billion pixels by its header": (png(100_000, 10_000), "100000x10000 pixels"),
    "no pixels": (png(0, 5), "0x5 pixels"),
    "a PNG that is cut": (png()[:-6], "damaged or cut"),
    "a PNG that is only its mark": (png()[:8], "damaged or cut"),
    "a PNG with a chunk beyond its end": (
        png()[:8] + struct.pack(">I", 2**31) + b"IDAT",
        "damaged or cut",
    ),
    "a PNG with a wrong sum": (png().replace(b"IDAT", b"IDAt"), "damaged or cut"),
    "a PNG without a picture": (png()[:33] + chunk(b"IEND", b""), "damaged or cut"),
    "an animated PNG": (png(3, 2, chunk(b"acTL", bytes(8))), "animated"),
    "a JPEG that is cut": (JPEG[:-2], "damaged or cut"),
    "a JPEG without a size": (JPEG[:20] + JPEG[-14:], "damaged or cut"),
    "a GIF that is cut": (GIF[:-3], "damaged or cut"),
    "a GIF without a picture": (GIF[:19] + b";", "damaged or cut"),
    "a GIF with a frame beyond its size": (
        GIF.replace(b",\0\0\0\0\1\0\1\0", b",\1\0\0\0\xff\xff\1\0"),
        "65536x3 pixels",
    ),
    "an animated GIF": (ANIMATED_GIF, "animated"),
    "a WebP that is cut": (WEBP[:-3], "damaged or cut"),
    "an animated WebP": (webp(b"VP8X", b"\2\0\0\0\7\0\0\5\0\0"), "animated"),
    "a PDF that is cut": (PDF[:9] + b"%\xe2\xe3\n" + PDF[9:-8], "damaged or cut"),
    "an encrypted PDF": (PDF.replace(b"/Root", b"/Encrypt 2 0 R/Root"), "encrypted"),
    "too large a picture": (png(3, 2, chunk(b"tEXt", bytes(IMAGE_SIZE_MAX))), "at most"),
    "too large a document": (PDF[:9] + bytes(PDF_SIZE_MAX) + PDF[9:], "at most"),
    "HEIC": (b"\0\0\0\x18ftypheic" + bytes(20), "no model reads HEIC"),
    "AVIF": (b"\0\0\0\x18ftypavif" + bytes(20), "no model reads AVIF"),
    "TIFF": (b"II*\0" + bytes(20), "no model reads TIFF"),
    "BMP": (b"BM" + bytes(12) + b"\x28\0\0\0" + bytes(20), "no model reads BMP"),
}

NONE: Final = (
    b"",
    b"BMW is a car that is made in Munich",
    b"RIFF....WAVEfmt ",
    b"II and III",
    b"{}",
)


def test_what_models_read_is_known_by_its_bytes() -> None:
    misses = [name for name, (data, media) in KNOWN.items() if identify_media(data) != media]
    assert misses == []
    assert [name for name, (data, _) in KNOWN.items() if not is_media(data[:32])] == []


def test_what_no_provider_takes_is_refused_with_a_way_out() -> None:
    for name, (data, why) in REFUSED.items():
        with pytest.raises(MediaError) as refused:
            identify_media(data)
        assert why in str(refused.value), name
        assert is_media(data[:32]), name


def test_of_what_is_too_large_the_beginning_will_do() -> None:
    for data, size_max in ((png(), IMAGE_SIZE_MAX), (GIF, IMAGE_SIZE_MAX), (PDF, PDF_SIZE_MAX)):
        assert identify_media(data, size_max) == identify_media(data)
        with pytest.raises(MediaError, match=f"has {size_max + 1} bytes, and at most {size_max}"):
            identify_media(data[:32], size_max + 1)


def test_what_is_something_else_is_none() -> None:
    for data in NONE:
        assert identify_media(data) is None, data
        assert not is_media(data), data


def test_a_text_that_only_begins_like_one_is_none() -> None:
    for text in (b"GIF89a is how a GIF begins", b"%PDF- begins a PDF", "GIF87a, é".encode()):
        assert identify_media(text) is None, text
        with pytest.raises(MediaError, match="damaged or cut"):
            identify_media(text + b"\0")


@given(st.sampled_from([data for data, _ in KNOWN.values() if len(data) < 1000]), st.data())
def test_damaged_bytes_are_refused_or_read_and_never_a_fault(
    data: bytes, drawn: st.DataObject
) -> None:
    changed = bytearray(data)
    for at in drawn.draw(st.lists(st.integers(0, len(data) - 1), max_size=5)):
        changed[at] = drawn.draw(st.integers(0, 255))
    with suppress(MediaError):
        identify_media(bytes(changed[: drawn.draw(st.integers(0, len(data)))]))
