"""Which programs print the picture on a clipboard, and how what they print is read."""

from __future__ import annotations

from media_samples import png
from treadle.platform.clipboard import decode_clipboard, list_clipboard_commands


def test_each_system_has_its_programs() -> None:
    both = {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}
    for system, environ, programs in (
        ("linux", both, ["wl-paste", "xclip"]),
        ("linux", {"DISPLAY": ":0"}, ["xclip"]),
        ("linux", {}, []),
        ("darwin", {}, ["osascript"]),
    ):
        found = list_clipboard_commands(system, environ)
        assert [command.program for command in found] == programs, (system, environ)


def test_what_is_printed_is_read_as_bytes_or_as_the_digits_of_applescript() -> None:
    (plain,) = list_clipboard_commands("linux", {"DISPLAY": ":0"})
    (script,) = list_clipboard_commands("darwin", {})
    assert decode_clipboard(plain, png()) == png()
    for printed, data in (
        (f"«data PNGf{png().hex().upper()}»\n", png()),
        ("«data PNGf»\n", b""),
        ("«data PNGfxyz»", b""),
        ("«data TIFF00»", b""),
        ("", b""),
    ):
        assert decode_clipboard(script, printed.encode()) == data, printed
