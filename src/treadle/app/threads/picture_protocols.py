"""Pictures in terminals that draw them: which protocol one speaks, and what is written for it.

The environment tells of those that speak kitty or iTerm2. All others are asked for sixel when there
is a picture to draw, and not before: to ask means to wait for an answer that may not come. Within
tmux and screen nothing is drawn, as they let none of it through by themselves.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final, Literal, NamedTuple, TypeAlias

from treadle.app.stores import open_store
from treadle.app.threads.picture_pixels import (
    NO_PILLOW,
    PictureError,
    convert_to_png,
    index_picture,
)
from treadle.app.threads.sixel import encode_sixel
from treadle.core.messages import Attachment
from treadle.errors import TreadleError

Protocol: TypeAlias = Literal["kitty", "iterm2", "sixel", ""]


class DrawnPicture(NamedTuple):
    """What a terminal is written for a picture; or `why` it is not drawn, where that helps."""

    escapes: str = ""
    why: str = ""


PictureDrawer: TypeAlias = Callable[[Attachment], DrawnPicture]
"""Draws a picture in one terminal."""

COLUMNS_MAX: Final = 60
"""How wide a picture is drawn at most; one of few pixels is not made larger."""
PIXELS_OF_COLUMN: Final = 8
SIDE_MAX: Final = COLUMNS_MAX * PIXELS_OF_COLUMN
"""Pixels of a side of a picture that is unpacked for a terminal."""
_CHUNK_SIZE: Final = 4096
"""Letters of one escape of kitty's protocol, which is its limit."""

_KITTY: Final = frozenset({"ghostty", "kitty"})
_ITERM2: Final = frozenset({"iTerm.app", "WezTerm", "mintty", "rio"})


def find_picture_protocol(
    environ: Mapping[str, str], announces_sixel: Callable[[], bool]
) -> Protocol:
    """The protocol of a terminal; empty if it draws no pictures.

    Args:
        environ: the variables that tell of it.
        announces_sixel: asks it; called if they leave it open.
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux", "dumb")):
        return ""
    if program in _KITTY or "kitty" in term or "ghostty" in term or environ.get("KITTY_WINDOW_ID"):
        return "kitty"
    if program in _ITERM2 or environ.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return "sixel" if term and announces_sixel() else ""


def draw_nothing(_: Attachment) -> DrawnPicture:
    """A `PictureDrawer` where none is drawn."""
    return DrawnPicture()


def make_picture_drawer(
    environ: Mapping[str, str], announces_sixel: Callable[[], bool], *, is_terminal: bool
) -> PictureDrawer:
    """Draws the pictures whose bytes are on this machine; nothing in a pipe.

    What to install is said once. The other arguments are those of `find_picture_protocol`.
    """
    if not is_terminal:
        return draw_nothing
    store, find = open_store(), cache(partial(find_picture_protocol, environ, announces_sixel))
    told = set[str]()

    def draw(attachment: Attachment) -> DrawnPicture:
        if not _is_picture(attachment) or not find():
            return DrawnPicture()
        try:
            drawn = draw_picture(find(), attachment, store.read_blob(attachment.blob))
        except TreadleError:
            return DrawnPicture()
        if drawn.why in told:
            return DrawnPicture()
        if NO_PILLOW in drawn.why:
            told.add(drawn.why)
        return drawn

    return draw


def _is_picture(attachment: Attachment) -> bool:
    return attachment.kind == "image" and bool(attachment.width)


def draw_picture(protocol: Protocol, attachment: Attachment, data: bytes) -> DrawnPicture:
    """What a terminal is written for a picture, if it draws this one.

    Nothing of it is anybody's text: bytes are in base64 or pixels, the name is left out.
    """
    if not _is_picture(attachment):
        return DrawnPicture()
    try:
        return DrawnPicture(_make_escapes(protocol, attachment, data))
    except PictureError as error:
        return DrawnPicture(why=f"not drawn: {error}")


def _make_escapes(protocol: Protocol, attachment: Attachment, data: bytes) -> str:
    """Raises `PictureError` if the picture has to be unpacked and cannot be."""
    if protocol == "sixel":
        return encode_sixel(index_picture(data, SIDE_MAX)) + "\n"
    columns = min(COLUMNS_MAX, attachment.width // PIXELS_OF_COLUMN + 1)
    if protocol == "kitty" and attachment.media_type != "image/png":
        data = convert_to_png(data, SIDE_MAX)  # it takes no other kind
    encoded = b64encode(data).decode()
    if protocol == "iterm2":
        head = f"inline=1;size={len(data)};width={columns};preserveAspectRatio=1"
        return f"\033]1337;File={head}:{encoded}\a\n"
    if protocol == "kitty":
        return "".join(_list_kitty_escapes(encoded, columns)) + "\n"
    return ""


def _list_kitty_escapes(encoded: str, columns: int) -> list[str]:
    pieces = [encoded[at : at + _CHUNK_SIZE] for at in range(0, len(encoded), _CHUNK_SIZE)]
    escapes: list[str] = []
    for number, piece in enumerate(pieces):
        head = f"a=T,f=100,q=2,c={columns}," if not number else ""
        escapes.append(f"\033_G{head}m={int(number < len(pieces) - 1)};{piece}\033\\")
    return escapes
