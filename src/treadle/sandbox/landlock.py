"""What Landlock of Linux lets a command do, where bubblewrap does not work. Rules can only allow.

So neither what lies in the workspace can be shut, nor be hidden; and nothing is held of times and
modes of files, of their names, and of the place where programs leave what they share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from treadle.sandbox.bubblewrap import Mounts
from treadle.sandbox.folders import is_folder, is_link, is_there
from treadle.sandbox.path_rules import is_below

ABI_MIN: Final = 3
"""The first that keeps files elsewhere from being emptied (Linux 6.2)."""
ABI_OF_SIGNALS: Final = 6
"""The first that keeps signals and abstract sockets in (Linux 6.12)."""

_CREATE_RULESET: Final = 444
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_CHANGE_FOLDER: Final = 0x10 | 0x20 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000
"""Remove a folder or file; make a folder, file, socket, pipe, link; devices never."""
_MAKE_DEVICE: Final = 0x40 | 0x800
_REFER, _TRUNCATE, _IOCTL = 0x2000, 0x4000, 0x8000
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ: Final = _EXECUTE | _READ_FILE | _READ_FOLDER
_WRITE: Final = _READ | _WRITE_FILE | _CHANGE_FOLDER | _REFER | _TRUNCATE

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_OF_PROC: Final = (
    "cpuinfo",
    "meminfo",
    "stat",
    "version",
    "uptime",
    "loadavg",
    "filesystems",
    "sys",
)
"""Nothing of any process: what the kernel says of others would be readable too."""


def abi() -> int:
    """The version of Landlock that the kernel has; 0 for none."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        found = libc.syscall(
            ctypes.c_long(_CREATE_RULESET), None, ctypes.c_long(0), ctypes.c_long(1)
        )
    except (OSError, AttributeError):
        return 0
    return max(0, int(found))


def make_rules(mounts: Mounts, version: int) -> dict[str, Any]:
    """What the launcher takes as `landlock`, for bubblewrap's view as far as it goes."""
    denied = {*mounts.scratch, *mounts.empty, *mounts.hidden_folders, *mounts.hidden_files}
    denied |= {"/proc", "/dev"}
    rules = [(path, _READ) for path in _allowed("/", denied)]
    hidden = (*mounts.hidden_folders, *mounts.hidden_files)
    for path in mounts.readable:
        has_hidden = any(is_below(one, path) for one in hidden)
        rules += [(one, _READ) for one in (_allowed(path, hidden) if has_hidden else [path])]
    rules += [(path, _READ) for path in mounts.uncovered]
    rules += [(f"/proc/{name}", _READ) for name in _OF_PROC]
    rules += [(f"/dev/{name}", _READ | _WRITE_FILE) for name in _DEVICES]
    rules += [(path, _WRITE) for path in mounts.writable]
    handled = 0x1FFF | _REFER | _TRUNCATE | (_IOCTL if version >= 5 else 0)
    return {
        **_scopes(version),
        "files": handled,
        "rules": [
            (path, access & handled & (~0 if is_folder(path) else _OF_FILES))
            for path, access in rules
            if is_there(path)
        ],
    }


def make_write_rules(mounts: Mounts, version: int) -> dict[str, Any]:
    """What the launcher takes as `landlock` in bubblewrap: whatever is seen may be read."""
    handled = (_WRITE & ~_READ) | _MAKE_DEVICE
    rules = [(one, handled) for one in (*mounts.scratch, *mounts.writable)]
    # Not `/dev` as a whole: a workspace may lie in `/dev/shm`, and a pipe in it could be written.
    rules += [(f"/dev/{name}", _WRITE_FILE) for name in (*_DEVICES, "ptmx", "pts")]
    return {**_scopes(version), "files": handled, "rules": rules}


def _scopes(version: int) -> dict[str, int]:
    """All but the files: nobody outside is signalled, nor called by an abstract name."""
    has_scopes = version >= ABI_OF_SIGNALS
    return {
        "network": 0,
        "scoped": 3 if has_scopes else 0,
        "word_count": 3 if has_scopes else 2 if version >= 4 else 1,
    }


def _allowed(folder: str, denied: Iterable[str]) -> list[str]:
    """What is in a folder, without what is denied; a rule for a folder holds for all below it."""
    denied = tuple(denied)
    found: list[str] = []
    try:
        paths = sorted(Path(folder).iterdir())
    except OSError:
        return found
    for place in paths:
        path = str(place)
        if is_link(path) or any(is_below(path, one) for one in denied):
            continue
        if any(is_below(one, path) for one in denied):
            found += _allowed(path, denied)
        else:
            found.append(path)
    return found
