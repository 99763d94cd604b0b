"""The picture on the clipboard becomes a file of the user's, by the program that is here."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path

import pytest

from media_samples import ANIMATED_GIF, png
from treadle.app.sessions.clipboard_picture import KEPT_S, save_clipboard_picture
from treadle.errors import UsageError
from treadle.store.paths import Places


class Desktop:
    """A display, whose clipboard a program of the test prints."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places = Places.find({"TREADLE_HOME": str(folder / "my home")})
        self.programs = folder / "programs"
        self.programs.mkdir()
        self._printed = folder / "printed"
        monkeypatch.setenv("PATH", f"{self.programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
        monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-9")
        monkeypatch.delenv("DISPLAY", raising=False)

    def copy(self, data: bytes, status: int = 0) -> None:
        self._printed.write_bytes(data)
        program = self.programs / "wl-paste"
        program.write_text(
            '#!/bin/sh\n[ "$*" = "--no-newline --type image/png" ] || exit 9\n'
            f"cat {self._printed}\nexit {status}\n"
        )
        program.chmod(0o755)


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desktop:
    return Desktop(tmp_path, monkeypatch)


def test_it_lies_in_a_file_of_the_user_alone_under_a_path_that_is_quoted(
    desktop: Desktop,
) -> None:
    desktop.copy(png())
    quoted = asyncio.run(save_clipboard_picture(desktop.places))
    (name,) = shlex.split(quoted)
    path = Path(name)
    assert quoted.startswith("'"), "the home of this user has a blank in its name"
    assert path.read_bytes() == png()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    old = path.stat().st_mtime - 2 * KEPT_S
    os.utime(path, (old, old))
    asyncio.run(save_clipboard_picture(desktop.places))
    assert not path.exists()


async def test_what_is_no_picture_and_what_cannot_be_asked_is_told(desktop: Desktop) -> None:
    async def refusal() -> str:
        with pytest.raises(UsageError) as refused:
            await save_clipboard_picture(desktop.places)
        return refused.value.message

    assert await refusal() == "the clipboard is read by wl-paste, which is not here"
    desktop.copy(b"", status=1)
    assert await refusal() == "there is no picture on the clipboard"
    desktop.copy(b"just text")
    assert await refusal() == "there is no picture on the clipboard"
    desktop.copy(ANIMATED_GIF)
    assert (await refusal()).startswith("the picture on the clipboard is not taken: the GIF is")
    desktop.copy(png() + bytes(20_000_000))
    assert (await refusal()).startswith("the picture on the clipboard has more than")
    os.environ.pop("WAYLAND_DISPLAY")
    assert await refusal() == "there is no clipboard here: no display"
