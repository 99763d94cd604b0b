"""What is held open can be found, entered and given access to, each system's way."""

from __future__ import annotations

import os
import stat
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from treadle.platform.held_files import (
    BY_QUESTION,
    GET_PATH,
    HOLD_FOLDER,
    HOLD_NAME,
    IN_PROC,
    PATH_SIZE_MAX,
    HeldFiles,
    ask_for_path,
    choose_held_files,
    held_files,
)


def answer_as_macos(file: int, what: int, room: bytes) -> bytes:
    """`fcntl` of macOS for `F_GETPATH`: the path, with zeros behind it."""
    assert (what, len(room)) == (GET_PATH, PATH_SIZE_MAX)
    return bytes(Path(f"/proc/self/fd/{file}").readlink()).ljust(len(room), b"\0")


ask: Final = partial(ask_for_path, control=answer_as_macos)
WAYS: Final = {"Linux": IN_PROC, "macOS": HeldFiles(ask, ask, BY_QUESTION.add_access)}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request: pytest.FixtureRequest) -> HeldFiles:
    assert isinstance(request.param, HeldFiles)
    return request.param


def test_a_folder_that_is_renamed_is_found_and_entered(tmp_path: Path, way: HeldFiles) -> None:
    (tmp_path / "ä \n").mkdir()
    folder = os.open(tmp_path / "ä \n", HOLD_FOLDER)
    assert way.find_path(folder) == str(tmp_path / "ä \n")
    moved = (tmp_path / "ä \n").rename(tmp_path / "moved")
    (tmp_path / "ä \n").mkdir()
    assert way.find_path(folder) == str(moved)
    subprocess.run(["touch", "here"], cwd=way.find_entry(folder), check=True)
    assert (moved / "here").exists()
    os.close(folder)


@pytest.mark.parametrize(("kind", "mode"), [("file", 0o640), ("folder", 0o750)])
def test_the_owner_gets_access_and_nobody_else(
    tmp_path: Path, way: HeldFiles, kind: str, mode: int
) -> None:
    path = tmp_path / "shut"
    path.mkdir() if kind == "folder" else path.touch()
    # A file of macOS is readable when it is held; Linux holds it without.
    is_linux = way is IN_PROC
    path.chmod(mode & 0o077 if is_linux else mode & 0o477)
    file = os.open(path, HOLD_NAME if is_linux else os.O_RDONLY)
    way.add_access(file)
    os.close(file)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_no_access_is_given_through_a_link_or_to_a_pipe(tmp_path: Path, way: HeldFiles) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe", 0o000)
    for name in ("link", "pipe"):
        file = os.open(tmp_path / name, HOLD_NAME)
        with pytest.raises(OSError, match="neither a file nor a folder"):
            way.add_access(file)
        os.close(file)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0
    assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0


def test_what_is_held_has_an_inode_that_no_other_gets(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    file = os.open(path, HOLD_NAME)
    path.unlink()
    path.touch()
    assert not os.path.samestat(os.fstat(file), path.stat())
    os.close(file)


def test_each_system_has_its_own_way() -> None:
    assert choose_held_files("linux") is IN_PROC is held_files
    assert choose_held_files("darwin") is BY_QUESTION
