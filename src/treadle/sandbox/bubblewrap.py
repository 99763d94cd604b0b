"""What bubblewrap is told, which is of Linux alone, as its namespaces are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.sandbox.path_rules import is_below

SCRATCH_SIZE_MAX: Final = 512 * 2**20
"""Bytes in each folder that is kept in memory."""
_SIZES_SINCE: Final = (0, 8)
"""The version that learned `--size` and `--disable-userns`."""


class Mounts(Struct, frozen=True):
    """What a command sees of the file system, all absolute paths that exist and are no links.

    Everything is there and read-only, but: `scratch` folders are empty and writable, `empty` ones
    are empty. On these lie `readable` and then `writable` paths as they are outside. Of those,
    `kept` folders cannot be renamed and `shut` paths not be changed; `hidden_folders` are empty
    and `hidden_files` cannot be opened; `uncovered` ones in hidden folders are seen all the same.
    `data` are files with the content of a descriptor.
    """

    scratch: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    shut: tuple[str, ...] = ()
    hidden_folders: tuple[str, ...] = ()
    hidden_files: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    data: tuple[tuple[int, str], ...] = ()


def add_folder(mounts: Mounts, path: str, *, is_writable: bool) -> Mounts:
    """The mounts with one more folder from outside."""
    if is_writable:
        return replace(mounts, writable=(*mounts.writable, path))
    # On a folder that is writable, Landlock lets pipes with a name be written too.
    holding = tuple(one for one in mounts.scratch if is_below(path, one))
    return replace(
        mounts,
        scratch=tuple(one for one in mounts.scratch if one not in holding),
        empty=(*mounts.empty, *holding),
        readable=(*mounts.readable, path),
    )


def make_options(
    mounts: Mounts, *, has_network: bool, seccomp_fd: int, version: Sequence[int]
) -> list[str]:
    """The options of one run, without the program and without the command."""
    knows_sizes = tuple(version) >= _SIZES_SINCE
    options = ["--unshare-all", "--unshare-user", "--cap-drop", "ALL"]
    options += ["--disable-userns"] if knows_sizes else []
    options += ["--share-net"] if has_network else []
    options += ["--new-session", "--die-with-parent", "--as-pid-1", "--clearenv"]
    options += ["--hostname", "sandbox"]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    limit = ["--size", str(SCRATCH_SIZE_MAX)] if knows_sizes else []
    folders = {**dict.fromkeys(mounts.empty, False), **dict.fromkeys(mounts.scratch, True)}
    for path in sorted(folders):
        options += [*limit, "--tmpfs", path]
    for path in mounts.readable:
        options += ["--ro-bind", path, path]
    for path in (*mounts.writable, *mounts.kept):
        options += ["--bind", path, path]
    for path in mounts.shut:
        options += ["--ro-bind", path, path]
    for path in mounts.hidden_folders:
        options += ["--tmpfs", path]
        for seen in mounts.uncovered:
            # Before the folder is made read-only, or there would be nowhere to mount it.
            options += ["--ro-bind", seen, seen] if is_below(seen, path) else []
        options += ["--remount-ro", path]
    for path in mounts.hidden_files:
        options += ["--ro-bind", "/dev/null", path]
    for fd, path in mounts.data:
        options += ["--ro-bind-data", str(fd), path]
    for path, is_writable in sorted(folders.items()):
        options += [] if is_writable else ["--remount-ro", path]
    # Of /proc/sys, root owns the files even without any capability.
    options += ["--remount-ro", "/proc", "--remount-ro", "/dev", "--seccomp", str(seccomp_fd)]
    return options
