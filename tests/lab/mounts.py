"""Real file systems, mounted for a test: small ones in memory, and ext4 images that lose power."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

SHUTDOWN: Final = 0x8004587D
"""`FS_IOC_SHUTDOWN`: the file system stops at once and writes nothing back any more."""
NO_LOG_FLUSH: Final = 2
NEW_MOUNTS: Final = 0x00020000
"""`CLONE_NEWNS`: mount namespaces are copied, and only their own processes see what is new."""


def why_no_mounts() -> str:
    """Why nothing can be mounted here; empty if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if shutil.which("mount") else "there is no mount command"


def why_no_images() -> str:
    """Why no ext4 image can be mounted here; empty if it can."""
    for program in ("mkfs.ext4", "dumpe2fs", "fallocate"):
        if not shutil.which(program):
            return f"there is no {program}"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return why_no_mounts()


@contextmanager
def mounted(kind: str, source: str, folder: Path, options: str) -> Iterator[None]:
    """With this mounted on the folder."""
    _leave_the_mounts_of_others()
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", kind, "-o", options, source, str(folder))
    try:
        yield
    finally:
        _unmount(folder)


@cache
def _leave_the_mounts_of_others() -> None:
    """From now on this process has mounts of its own.

    Whoever makes a mount namespace meanwhile, as the sandbox does, would copy a mount of ours and
    hold it: `umount` would free nothing, and a disk whose power was cut would come back as cut.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "no mount namespace of our own")
    _run("mount", "--make-rprivate", "/")


def _unmount(folder: Path) -> None:
    """A test that failed may still have files open there: nothing is to stay mounted."""
    try:
        _run("umount", str(folder))
    except subprocess.CalledProcessError:
        _run("umount", "--lazy", str(folder))
        raise


def remount(folder: Path, options: str) -> None:
    """Change what is mounted there."""
    _run("mount", "-o", f"remount,{options}", str(folder))


def make_image(path: Path) -> None:
    """An empty ext4 file system in a file."""
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    _run("mkfs.ext4", "-q", "-F", str(path))


def cut_power(folder: Path) -> None:
    """What is mounted there loses all that was not synced, and is mounted anew."""
    entry = next(
        fields
        for line in Path("/proc/mounts").read_text().splitlines()
        if (fields := line.split())[1] == str(folder)
    )
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(handle)
    image = _image_of(entry[0])
    _run("umount", str(folder))
    _run("mount", "-o", ",".join(["loop", *_kept(entry[3])]), image, str(folder))


class FragileDisk:
    """An ext4 file system that has room, on a device that has not, so that syncs fail.

    The kernel then keeps in memory what it could not write, and calls it saved.
    """

    def __init__(self, folder: Path) -> None:
        self._device = folder / "device"
        self._image = self._device / "image"
        self._filler = self._device / "filler"
        self.disk = folder / "disk"

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """With all of it mounted."""
        with mounted("tmpfs", "tmpfs", self._device, "size=24m"):
            self._image.write_bytes(bytes(16 * 1024 * 1024))
            _run("mkfs.ext4", "-q", "-F", "-b", "1024", "-E", "nodiscard", str(self._image))
            with mounted("ext4", str(self._image), self.disk, "loop,nodiscard"):
                yield

    def exhaust(self) -> None:
        """From now on blocks that are not in use yet cannot be written."""
        os.sync()
        listed = subprocess.run(
            ["dumpe2fs", str(self._image)], capture_output=True, text=True, check=True
        )
        for found in re.findall(r"^ +Free blocks: (\d.*)$", listed.stdout, re.MULTILINE):
            for piece in found.split(", "):
                first, _, last = piece.partition("-")
                start, size = int(first) * 1024, (int(last or first) - int(first) + 1) * 1024
                _run("fallocate", "-p", "-o", str(start), "-l", str(size), str(self._image))
        with suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def relieve(self) -> None:
        """The cause ends."""
        self._filler.unlink()


def _image_of(device: str) -> str:
    name = Path(device).name
    return Path(f"/sys/block/{name}/loop/backing_file").read_text().strip()


def _kept(options: str) -> list[str]:
    wanted = ("data=", "noauto_da_alloc")
    return [option for option in options.split(",") if option.startswith(wanted)]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=100)
