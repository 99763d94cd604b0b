"""Each way to open a folder beneath another, held by one suite."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from treadle.platform.held_files import HOLD_FOLDER
from treadle.platform.open_beneath import (
    OpenBeneath,
    choose_open,
    has_openat2,
    open_beneath,
    open_by_kernel,
    open_by_walk,
)

pytestmark = pytest.mark.parametrize("opener", dict.fromkeys((open_beneath, open_by_walk)))

FOUND: Final = {
    ".": ".",
    "sub": "sub",
    "sub/": "sub",
    "sub//deep": "sub/deep",
    "sub/./deep": "sub/deep",
    "sub/..": ".",
    "sub/deep/../..": ".",
    "link": "sub",
    "link/deep": "sub/deep",
    "link/..": ".",
    "deep_link": "sub/deep",
    # A link is left behind to where it leads, not to where it stands.
    "deep_link/..": "sub",
    "sub/up": ".",
    "sub/up/sub": "sub",
    "twice/deep": "sub/deep",
    "absolute": "sub",
    "absolute/deep": "sub/deep",
    "absolute/..": ".",
    "alias": "sub/deep",
    "absolute_top": ".",
    "sub/deep/top/sub": "sub",
    "links/39": "sub",
    "ä ö\n": "ä ö\n",
}
REFUSED: Final = {
    "..": errno.EXDEV,
    "../ws": errno.EXDEV,
    "sub/../..": errno.EXDEV,
    "sub/../../outside": errno.EXDEV,
    "out": errno.EXDEV,
    "out/..": errno.EXDEV,
    "out_relative": errno.EXDEV,
    "out_and_back": errno.EXDEV,
    "out_twice": errno.EXDEV,
    "absolute_out": errno.EXDEV,
    "absolute_neighbour": errno.EXDEV,
    "root": errno.EXDEV,
    "sub/out_up": errno.EXDEV,
    "missing": errno.ENOENT,
    "missing/..": errno.ENOENT,
    "dangling": errno.ENOENT,
    "file": errno.ENOTDIR,
    "file/..": errno.ENOTDIR,
    "file/x": errno.ENOTDIR,
    "to_file": errno.ENOTDIR,
    "loop": errno.ELOOP,
    "loop/x": errno.ELOOP,
    "loop_a": errno.ELOOP,
    "links/41": errno.ELOOP,
    "x" * 300: errno.ENAMETOOLONG,
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder with links that lead inside, outside and nowhere."""
    top = tmp_path / "ws"
    for made in ("ws/sub/deep", "ws/links", "ws/ä ö\n", "outside", "ws-evil"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "alias").symlink_to("ws")
    (top / "file").touch()
    links: dict[str, str | Path] = {
        "link": "sub",
        "deep_link": "sub/deep",
        "twice": "link",
        "sub/up": "..",
        "sub/deep/top": "../..",
        "absolute": top / "sub",
        "absolute_top": top,
        "alias": tmp_path / "alias/sub/deep",
        "out": tmp_path / "outside",
        "out_relative": "../outside",
        "out_and_back": "../ws/sub",
        "out_twice": "out_relative",
        "absolute_out": f"{top}/../outside",
        "absolute_neighbour": f"{top}-evil",
        "root": "/",
        "sub/out_up": "../../outside",
        "dangling": "nowhere",
        "to_file": "file",
        "loop": "loop",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
        "links/0": "../sub",
    }
    for name, target in links.items():
        (top / name).symlink_to(target)
    for number in range(1, 42):
        (top / f"links/{number}").symlink_to(str(number - 1))
    return top


@pytest.fixture
def folder(top: Path) -> Iterator[int]:
    folder = os.open(top, HOLD_FOLDER)
    yield folder
    os.close(folder)


def names_of(top: Path) -> tuple[str, ...]:
    return str(top), str(top.parent / "alias")


def open_fds() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  the numbers


def test_what_stays_inside_is_found(opener: OpenBeneath, top: Path, folder: int) -> None:
    before = open_fds()
    for path, expected in FOUND.items():
        fd = opener(folder, path, names_of(top))
        try:
            assert os.path.samestat(os.fstat(fd), (top / expected).stat()), path
            assert not os.get_inheritable(fd), path
            os.stat(".", dir_fd=fd)  # good for names in it
        finally:
            os.close(fd)
    assert open_fds() == before


def test_all_else_is_refused_with_the_error_that_says_why(
    opener: OpenBeneath, top: Path, folder: int
) -> None:
    before = open_fds()
    found = {}
    for path in REFUSED:
        with pytest.raises(OSError) as caught:  # noqa: PT011  the number is looked at
            opener(folder, path, names_of(top))
        found[path] = caught.value.errno
    assert found == REFUSED
    assert open_fds() == before


def test_a_folder_that_was_renamed_is_still_the_folder(
    opener: OpenBeneath, top: Path, folder: int
) -> None:
    moved = top.rename(top.parent / "moved")
    top.symlink_to("outside")
    fd = opener(folder, "link/deep", names_of(top))
    assert os.path.samestat(os.fstat(fd), (moved / "sub/deep").stat())
    os.close(fd)


SWAP = """
import ctypes, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
print("ready", flush=True)
HERE, EXCHANGE = -100, 2
while True:
    assert libc.renameat2(HERE, b"sub", HERE, b"out", EXCHANGE) == 0
"""


def test_a_link_that_is_swapped_in_meanwhile_leads_nowhere(
    opener: OpenBeneath, top: Path, folder: int
) -> None:
    inside, done, refused = (top / "sub").stat(), 0, 0
    (top.parent / "outside/deep").mkdir()
    deep = (top / "sub/deep").stat()
    with subprocess.Popen([sys.executable, "-c", SWAP, top], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            while done < 200 or refused < 200:
                for path, expected in (("sub", inside), ("sub/deep", deep), ("link/deep", deep)):
                    try:
                        fd = opener(folder, path, names_of(top))
                    except OSError:
                        refused += 1
                        continue
                    assert os.path.samestat(os.fstat(fd), expected)
                    os.close(fd)
                    done += 1
        finally:
            swapper.kill()


def test_each_system_has_the_best_that_it_offers(opener: OpenBeneath) -> None:
    assert opener in (open_by_kernel, open_by_walk)
    assert choose_open(has_openat2=True) is open_by_kernel
    assert choose_open(has_openat2=False) is open_by_walk
    assert not has_openat2("darwin")
    assert open_beneath is choose_open(has_openat2=has_openat2(sys.platform))
