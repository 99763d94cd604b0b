"""Which programs print the picture that is on the clipboard, on each system, and in which form."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple

_MAC_BEGIN: Final = "«data PNGf".encode()
_MAC_END: Final = "»".encode()


class ClipboardCommand(NamedTuple):
    """A program by its name, and its arguments; `is_hex` if it prints digits, as AppleScript."""

    program: str
    arguments: tuple[str, ...]
    is_hex: bool = False


_WAYLAND: Final = ClipboardCommand("wl-paste", ("--no-newline", "--type", "image/png"))
_X11: Final = ClipboardCommand("xclip", ("-selection", "clipboard", "-target", "image/png", "-out"))
_MAC: Final = ClipboardCommand("osascript", ("-e", "the clipboard as «class PNGf»"), is_hex=True)


def list_clipboard_commands(
    system: str, environ: Mapping[str, str]
) -> tuple[ClipboardCommand, ...]:
    """The programs to ask for a picture, the likeliest first; none without a clipboard.

    Args:
        system: `sys.platform`.
        environ: of the process, which says to which display it belongs.
    """
    if system == "darwin":
        return (_MAC,)
    shown = (("WAYLAND_DISPLAY", _WAYLAND), ("DISPLAY", _X11))
    return tuple(command for variable, command in shown if environ.get(variable))


def decode_clipboard(command: ClipboardCommand, printed: bytes) -> bytes:
    """The bytes of the picture; empty if what was printed is none."""
    if not command.is_hex:
        return printed
    digits = printed.strip()
    if not (digits.startswith(_MAC_BEGIN) and digits.endswith(_MAC_END)):
        return b""
    try:
        return binascii.unhexlify(digits[len(_MAC_BEGIN) : -len(_MAC_END)])
    except binascii.Error:
        return b""
