"""Files and folders that are held open: to be found again, entered or given access to, not read.

Linux has a kind of descriptor for that, O_PATH, and shows each under a name in /proc. macOS has
neither: a folder is opened for reading, and the system says on request which path it has by now.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

HOLD_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""What opens a folder to reach names in it: on Linux also where it may not be listed."""
HOLD_NAME: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
"""What opens whatever has a name so that no other gets its inode; on Linux also what may not be
read, and links."""
GET_PATH: Final = 50
PATH_SIZE_MAX: Final = 1024
"""`F_GETPATH` and `MAXPATHLEN` of macOS."""


class HeldFiles(Struct, frozen=True):
    """What a system can do with held files; all raise `OSError`.

    `find_path` gives the path that an open folder has by now, `find_entry` a name under which a new
    process of this one can enter it, whatever stands under that path then. `add_access` gives the
    owner of a held file or folder all access to it again; links and all else are refused.
    """

    find_path: Callable[[int], str]
    find_entry: Callable[[int], str]
    add_access: Callable[[int], None]


def find_path_in_proc(folder: int) -> str:
    """See `HeldFiles`, for Linux."""
    return str(Path(find_entry_in_proc(folder)).readlink())


def find_entry_in_proc(folder: int) -> str:
    """See `HeldFiles`, for Linux."""
    return f"/proc/self/fd/{folder}"


def add_access_in_proc(file: int) -> None:
    """See `HeldFiles`, for Linux, where `fchmod` refuses what is held."""
    Path(find_entry_in_proc(file)).chmod(_add_owner(os.fstat(file).st_mode))


def ask_for_path(folder: int, control: Callable[..., Any] = fcntl.fcntl) -> str:
    """See `HeldFiles`, for macOS: `find_path`, and the best there is for `find_entry`."""
    found: bytes = control(folder, GET_PATH, bytes(PATH_SIZE_MAX))
    return os.fsdecode(found.partition(b"\0")[0])


def add_access(file: int) -> None:
    """See `HeldFiles`, for macOS, where what its owner may not read cannot be held at all."""
    os.fchmod(file, _add_owner(os.fstat(file).st_mode))


def _add_owner(mode: int) -> int:
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise OSError("neither a file nor a folder")
    return stat.S_IMODE(mode) | (0o700 if stat.S_ISDIR(mode) else 0o600)


IN_PROC: Final = HeldFiles(find_path_in_proc, find_entry_in_proc, add_access_in_proc)
BY_QUESTION: Final = HeldFiles(ask_for_path, ask_for_path, add_access)


def choose_held_files(system: str) -> HeldFiles:
    """What this system can do with held files.

    Args:
        system: `sys.platform`.
    """
    return IN_PROC if system == "linux" else BY_QUESTION


held_files: Final = choose_held_files(sys.platform)
"""See `HeldFiles`."""
