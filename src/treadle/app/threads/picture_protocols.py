"""Pictures in terminals that draw them: which protocol one speaks, and what is written for it.

Decided by the environment alone: to ask a terminal means to wait for an answer that may not come.
Within tmux and screen nothing is drawn, as they let none of it through by themselves.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from treadle.app.stores import open_store
from treadle.core.messages import Attachment
from treadle.errors import TreadleError

Protocol: TypeAlias = Literal["kitty", "iterm2", ""]

PictureDrawer: TypeAlias = Callable[[Attachment], str]
"""What a terminal is written for a picture; empty where none is drawn."""

COLUMNS_MAX: Final = 60
"""How wide a picture is drawn at most; one of few pixels is not made larger."""
PIXELS_OF_COLUMN: Final = 8
_CHUNK_SIZE: Final = 4096
"""Letters of one escape of kitty's protocol, which is its limit."""

_KITTY: Final = frozenset({"ghostty", "kitty"})
_ITERM2: Final = frozenset({"iTerm.app", "WezTerm", "mintty", "rio"})


def find_picture_protocol(environ: Mapping[str, str]) -> Protocol:
    """The protocol of the terminal that these variables tell of; empty if it draws no pictures."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux", "dumb")):
        return ""
    if program in _KITTY or "kitty" in term or "ghostty" in term or environ.get("KITTY_WINDOW_ID"):
        return "kitty"
    if program in _ITERM2 or environ.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return ""


def draw_nothing(_: Attachment) -> str:
    """A `PictureDrawer` where none is drawn."""
    return ""


def make_picture_drawer(environ: Mapping[str, str], *, is_terminal: bool) -> PictureDrawer:
    """Draws the pictures whose bytes are on this machine; nothing in a pipe."""
    protocol = find_picture_protocol(environ) if is_terminal else ""
    if not protocol:
        return draw_nothing
    store = open_store()

    def draw(attachment: Attachment) -> str:
        try:
            return draw_picture(protocol, attachment, store.read_blob(attachment.blob))
        except TreadleError:
            return ""

    return draw


def draw_picture(protocol: Protocol, attachment: Attachment, data: bytes) -> str:
    """What a terminal is written for a picture; empty if it does not draw this one.

    Nothing of it is anybody's text: the bytes are in base64, the name is left out.
    """
    if attachment.kind != "image" or not attachment.width:
        return ""
    columns = min(COLUMNS_MAX, attachment.width // PIXELS_OF_COLUMN + 1)
    encoded = b64encode(data).decode()
    if protocol == "iterm2":
        head = f"inline=1;size={len(data)};width={columns};preserveAspectRatio=1"
        return f"\033]1337;File={head}:{encoded}\a\n"
    if protocol == "kitty" and attachment.media_type == "image/png":
        return "".join(_list_kitty_escapes(encoded, columns)) + "\n"
    return ""


def _list_kitty_escapes(encoded: str, columns: int) -> list[str]:
    pieces = [encoded[at : at + _CHUNK_SIZE] for at in range(0, len(encoded), _CHUNK_SIZE)]
    escapes: list[str] = []
    for number, piece in enumerate(pieces):
        head = f"a=T,f=100,q=2,c={columns}," if not number else ""
        escapes.append(f"\033_G{head}m={int(number < len(pieces) - 1)};{piece}\033\\")
    return escapes
