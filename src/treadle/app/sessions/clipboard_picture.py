"""The picture on the clipboard, as a file that a prompt can name."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

from treadle import helper_programs
from treadle.core.media import IMAGE_SIZE_MAX, MediaError, identify_media
from treadle.errors import UsageError
from treadle.platform.clipboard import decode_clipboard, list_clipboard_commands
from treadle.process.program import run_bounded
from treadle.process.result import Bounds
from treadle.store.paths import Places

PROGRAM_S_MAX: Final = 5.0
KEPT_S: Final = 24 * 3600.0
"""A picture lies there for so long, for whoever sends its prompt later or once more."""
_SIZE_MAX: Final = 4 * IMAGE_SIZE_MAX
"""Bytes that are read; more than a picture may have, so that it is told how large it is."""


async def save_clipboard_picture(places: Places | None = None) -> str:
    """Keep the picture on the clipboard in a file of the user's alone; its path, quoted.

    Args:
        places: the folders of the user; by default those of this process.

    Raises:
        UsageError: there is no picture, no model takes it, or no program can be asked.
    """
    data = await _read_clipboard()
    try:
        media = identify_media(data)
    except MediaError as error:
        raise UsageError(f"the picture on the clipboard is not taken: {error}") from error
    if media is None:
        raise UsageError("there is no picture on the clipboard")
    return await asyncio.to_thread(_store_picture, data, places or Places.find(os.environ))


def _store_picture(data: bytes, places: Places) -> str:
    """The quoted path of a new file with these bytes; what lies there for long goes."""
    cache = places.cache
    folder = Path(tempfile.gettempdir()) / f"treadle-{os.getuid()}" if cache is None else cache
    folder = folder / "pasted"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="picture-", suffix=".png", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        _remove_old(folder, Path(name).stat().st_mtime)
    except OSError as error:
        raise UsageError(f"the picture cannot be kept in {folder}: {error.strerror}") from error
    return shlex.quote(name)


async def _read_clipboard() -> bytes:
    missing: list[str] = []
    for command in list_clipboard_commands(sys.platform, os.environ):
        program = helper_programs.find_program(command.program)
        if program is None:
            missing.append(command.program)
            continue
        argv, bounds = (program, *command.arguments), Bounds(PROGRAM_S_MAX, _SIZE_MAX)
        try:
            ran = await run_bounded(argv, "/", helper_programs.environment(), bounds)
        except OSError:
            missing.append(command.program)
            continue
        if ran.is_cut:
            raise UsageError(f"the picture on the clipboard has more than {_SIZE_MAX} bytes")
        if ran.status == 0:
            return decode_clipboard(command, ran.out)
        return b""
    if missing:
        raise UsageError(
            f"the clipboard is read by {' or '.join(missing)}, which is not here",
            hint="install it, or name a file: @shot.png",
        )
    raise UsageError("there is no clipboard here: no display", hint="name a file: @shot.png")


def _remove_old(folder: Path, now: float) -> None:
    for path in folder.glob("picture-*.png"):
        if now - path.lstat().st_mtime > KEPT_S:
            path.unlink(missing_ok=True)
