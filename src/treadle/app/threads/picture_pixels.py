"""Pictures as pixels, made small: what terminals are drawn that do not unpack a picture themselves.

Pillow unpacks them, where it is installed: the extra `pictures`. A picture is anybody's bytes, so
only the kinds that messages carry are tried, and none of more pixels than Pillow takes for a bomb.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from treadle.core.media import IMAGE_SIZE_MAX

if TYPE_CHECKING:
    from PIL.Image import Image

NO_PILLOW: Final = "this terminal draws it where Pillow is installed: pip install pillow"
COLOR_COUNT_MAX: Final = 128
"""Colours of a palette: all terminals have that many, and a picture of noise is about 1 MB."""

_KINDS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_SCALED: Final = ("RGB", "RGBA", "L")
_OPAQUE: Final = 128


class PictureError(Exception):
    """A picture cannot be drawn here; the text says why, in a line."""


class IndexedPicture(Struct, frozen=True):
    """Pixels row by row, each an index of the palette; `palette` has three bytes a colour.

    `shown` has a byte for each pixel, 0 where there is nothing; empty if there is something
    everywhere.
    """

    width: int
    height: int
    palette: bytes
    pixels: bytes
    shown: bytes = b""


def index_picture(data: bytes, side: int) -> IndexedPicture:
    """The picture with a palette, at most `side` pixels wide and high. Takes up to some seconds.

    Raises:
        PictureError: Pillow is not there, or it does not take these bytes.
    """
    image = _unpack(data, side)
    alpha = image.getchannel("A").tobytes()
    indexed = image.convert("RGB").quantize(COLOR_COUNT_MAX)
    return IndexedPicture(
        image.width,
        image.height,
        bytes(indexed.getpalette("RGB") or ()),
        indexed.tobytes(),
        bytes(one >= _OPAQUE for one in alpha) if min(alpha) < _OPAQUE else b"",
    )


def convert_to_png(data: bytes, side: int) -> bytes:
    """The picture as a PNG, at most `side` pixels wide and high. Raises as `index_picture`."""
    written = BytesIO()
    _unpack(data, side).save(written, "PNG")
    return written.getvalue()


def _unpack(data: bytes, side: int) -> Image:
    try:
        import PIL.Image
    except ImportError as error:
        raise PictureError(NO_PILLOW) from error
    if len(data) > IMAGE_SIZE_MAX:
        raise PictureError(f"it has more than {IMAGE_SIZE_MAX} bytes")
    bombs = PIL.Image.DecompressionBombWarning, PIL.Image.DecompressionBombError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is odd in a picture and yet can be drawn
            warnings.simplefilter("error", bombs[0])
            with PIL.Image.open(BytesIO(data), formats=_KINDS) as image:
                # Small first, where that can be, as all of it takes four bytes a pixel.
                picture = image if image.mode in _SCALED else image.convert("RGBA")
                picture.thumbnail((side, side))
                return picture.convert("RGBA")
    except bombs as error:
        raise PictureError("it has too many pixels") from error
    except Exception as error:  # what a reader of hostile bytes raises has no end
        raise PictureError("it is damaged, or of a kind that Pillow does not read") from error
