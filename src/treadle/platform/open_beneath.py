"""Opens a folder beneath another one without being led outside, as each system can do it.

Checking a path first and opening it afterwards loses the race against whoever swaps a link in
between. So nothing is checked: every folder on the way is opened relative to a descriptor that is
already held. Linux does that in one call, `openat2(2)` with RESOLVE_BENEATH; elsewhere, and where a
container forbids the call, a walk opens component by component without following links and resolves
the links itself. Links that stay inside are followed, also absolute ones.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from treadle.platform.held_files import HOLD_FOLDER

OpenBeneath: TypeAlias = Callable[[int, str, tuple[str, ...]], int]
"""Takes the open folder, a relative path, and the names that the folder has: an absolute link that
begins with one of these stays inside. Gives a descriptor of a folder, good for names relative to
it. Raises `OSError`, of the kind EXDEV for a path that leads outside."""

LINK_COUNT_MAX: Final = 40
"""Links followed for one path; the kernel's own limit."""
ATTEMPT_COUNT_MAX: Final = 100
"""`openat2` gives up with EAGAIN while somebody renames folders; so often it is asked again."""

# From linux/openat2.h; the number is the same on every architecture, since Linux 5.6.
_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08


def open_by_kernel(folder: int, path: str, names: tuple[str, ...]) -> int:
    """See `OpenBeneath`: `openat2`, for Linux."""
    try:
        return _openat2(folder, path)
    except OSError as error:
        # The kernel takes every absolute link for a way out; the walk knows our names.
        if error.errno != errno.EXDEV:
            raise
    return open_by_walk(folder, path, names)


def open_by_walk(folder: int, path: str, names: tuple[str, ...]) -> int:
    """See `OpenBeneath`: by hand, for every system.

    Holds a descriptor of every folder passed, so `..` goes back to it.
    """
    held = [os.dup(folder)]
    todo = path.split("/")[::-1]
    links = 0
    try:
        while todo:
            part = todo.pop()
            if part == "..":
                if len(held) == 1:
                    raise OSError(errno.EXDEV, "")
                os.close(held.pop())
            elif part not in ("", "."):
                try:
                    held.append(os.open(part, HOLD_FOLDER | os.O_NOFOLLOW, dir_fd=held[-1]))
                except OSError as error:
                    target = read_link(part, held[-1])
                    if target is None:
                        raise
                    links += 1
                    if links > LINK_COUNT_MAX:
                        raise OSError(errno.ELOOP, "") from error
                    if target.startswith("/"):
                        target = make_relative(target, names)
                        while len(held) > 1:
                            os.close(held.pop())
                    todo += target.split("/")[::-1]
        return held.pop()
    finally:
        for fd in held:
            os.close(fd)


def make_relative(path: str, names: tuple[str, ...]) -> str:
    """A path without the folder's name at its beginning, by its words alone; relative ones as is.

    Raises:
        OSError: it is absolute and begins with none of the names (EXDEV).
    """
    if not path.startswith("/"):
        return path
    path = "/" + path.lstrip("/")
    for name in names:
        if path == name or path.startswith(name.rstrip("/") + "/"):
            return path[len(name) :].lstrip("/")
    raise OSError(errno.EXDEV, "")


def read_link(name: str, place: int) -> str | None:
    """Where a link points; `None` for everything else, also for what does not exist."""
    try:
        return os.readlink(name, dir_fd=place)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@cache
def _find_syscall() -> Any:
    found = ctypes.CDLL(None, use_errno=True).syscall
    found.restype = ctypes.c_long
    found.argtypes = (
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(_OpenHow),
        ctypes.c_size_t,
    )
    return found


def _openat2(folder: int, path: str) -> int:
    how = _OpenHow(HOLD_FOLDER, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    call, name = _find_syscall(), os.fsencode(path)
    for _ in range(ATTEMPT_COUNT_MAX):
        found = int(call(_OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how)))
        if found >= 0:
            return found
        code = ctypes.get_errno()
        if code != errno.EAGAIN:
            break
    raise OSError(code, os.strerror(code))


def has_openat2(system: str) -> bool:
    """Whether the call works: not on an older kernel, nor in a container that forbids it."""
    if system != "linux":
        return False
    folder = os.open("/", HOLD_FOLDER)
    try:
        os.close(_openat2(folder, "."))
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def choose_open(*, has_openat2: bool) -> OpenBeneath:
    """How this system opens a folder beneath another one."""
    return open_by_kernel if has_openat2 else open_by_walk


open_beneath: Final = choose_open(has_openat2=has_openat2(sys.platform))
"""See `OpenBeneath`."""
