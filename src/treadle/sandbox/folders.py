"""Which folders of this machine a confined command sees, and which are empty for it.

All that other people and programs keep for themselves is empty: homes, mounts, sockets, mail. Of
the home folder only what programs are made of is there: compilers, interpreters, their packages.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from treadle.sandbox.path_rules import KEY_FOLDERS, is_below

SCRATCH: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  the sandbox's own
"""Empty at the beginning, writable, gone at the end."""
EMPTY: Final = (
    "/home",
    "/root",
    "/run",
    "/var/run",
    "/mnt",
    "/media",
    "/boot",
    "/lost+found",
    "/var/mail",
    "/var/spool",
    "/var/backups",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/cloud",
    "/var/lib/incus",
    "/var/lib/kubelet",
    "/var/lib/lxd",
    "/var/lib/mysql",
    "/var/snap/lxd/common/lxd",
    *KEY_FOLDERS,
)
"""Empty and not writable; homes of this user are scratch besides."""
NEEDED_OF_RUN: Final = ("/run/current-system", "/run/opengl-driver", "/run/systemd/resolve")
"""Programs of NixOS; and where `/etc/resolv.conf` points to."""

_PEOPLE: Final = range(1000, 60_000)
"""Numbers of users that are people."""

TOOLCHAINS: Final = (
    ".asdf",
    ".bun",
    ".cabal/bin",
    ".cargo/bin",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/rtx",
    ".local/share/uv",
    ".linuxbrew",
    ".m2/repository",
    ".nix-profile",
    ".nodenv",
    ".nvm",
    ".opam",
    ".phpenv",
    ".pub-cache",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".volta",
    "go/bin",
    "go/pkg",
    "miniconda3",
    "miniforge3",
    "anaconda3",
)
"""Folders of a home that hold programs and nothing of a person."""


def homes_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The home folders of this user, without links: what `HOME` says, and what the system says."""
    named = [environ.get("HOME", "")]
    with suppress(KeyError):
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    real = [os.path.realpath(one) for one in named if one.startswith("/")]
    return tuple(dict.fromkeys(one for one in real if one != "/" and is_folder(one)))


def homes_of_others() -> tuple[str, ...]:
    """The home folders of all people of this machine; not those that are, or hold, the system."""
    named = [user.pw_dir for user in pwd.getpwall() if user.pw_uid in _PEOPLE]
    deep = [one for one in existing(named) if one.count("/") > 1 and is_folder(one)]
    return tuple(one for one in deep if not one.startswith(("/usr/", "/bin/", "/lib", "/nix/")))


def sockets() -> tuple[str, ...]:
    """The Unix sockets that programs of this machine have bound to a name that can be seen here.

    Only Linux lists them. Also those of other network namespaces: a name in the file system is
    reached from each. Who may not look at the namespace of another user's program reads its list
    all the same.
    """
    found: set[str] = set()
    seen: set[str] = set()
    numbers = os.listdir("/proc") if sys.platform == "linux" else []  # noqa: PTH208  it is long
    for number in filter(str.isdecimal, numbers):
        namespace = number
        with suppress(OSError):
            namespace = os.readlink(f"/proc/{number}/ns/net")  # noqa: PTH115  the words
        if namespace not in seen:
            with suppress(OSError):
                found |= _names_in(Path(f"/proc/{number}/net/unix").read_bytes())
                seen.add(namespace)
    return tuple(sorted(path for path in map(os.path.realpath, found) if _is_socket(path)))


def _names_in(table: bytes) -> set[str]:
    lines = (line.split(None, 7) for line in table.splitlines()[1:])
    return {
        os.fsdecode(fields[7])
        for fields in lines
        if len(fields) == 8 and fields[7].startswith(b"/")
    }


def _is_socket(path: str) -> bool:
    """Whether a socket stands there; what this user may not look at, a command cannot see."""
    try:
        return stat.S_ISSOCK(Path(path).lstat().st_mode)
    except OSError:
        return False


# What this user cannot look at, a command cannot see either. The methods of `Path` raise then.


def is_there(path: str) -> bool:
    """Whether there is anything that this user can look at; a link counts by what it leads to."""
    return os.path.exists(path)  # noqa: PTH110


def is_folder(path: str) -> bool:
    """Whether there is a folder that this user can look at."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: str) -> bool:
    """Whether there is a file that this user can look at."""
    return os.path.isfile(path)  # noqa: PTH113


def is_link(path: str) -> bool:
    """Whether there is a symbolic link that this user can look at."""
    return os.path.islink(path)  # noqa: PTH114


def existing(paths: Iterable[str]) -> tuple[str, ...]:
    """Those that are there, without links, each once, parents first."""
    real = {os.path.realpath(path) for path in paths if is_there(path)}
    return tuple(sorted(real))


def size_of(folder: Path) -> int:
    """The bytes of the files in a folder, links not followed; what cannot be seen is left out."""
    size = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += Path(above, name).lstat().st_size
    return size


def toolchains_of(environ: Mapping[str, str], homes: Iterable[str]) -> tuple[str, ...]:
    """What must be visible for programs to run: of homes, of `PATH`, of this interpreter."""
    homes = tuple(homes)
    found = [f"{home}/{name}" for home in homes for name in TOOLCHAINS]
    for entry in environ.get("PATH", "").split(os.pathsep):
        if entry.startswith("/") and not any(is_below(home, entry) for home in ("/", *homes)):
            # The programs of a virtual environment need the rest of it.
            above = Path(entry).parent
            found.append(str(above) if is_file(f"{above}/pyvenv.cfg") else entry)
    found += [sys.base_prefix, sys.prefix]
    return tuple(sorted({path for path in found if is_there(path)}))
