"""Which type of file system holds a path, as each system tells it.

Linux lists all mounts in /proc; macOS has a program that prints them. Each gives lines of text,
which a pure function reads.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from treadle.platform.descendants import ReadsProgram

FindType: TypeAlias = Callable[[Path], str]
"""Takes a path; empty where the type cannot be known."""

MOUNT_INFO_FILE: Final = Path("/proc/self/mountinfo")
MOUNT_PROGRAM: Final = "/sbin/mount"
_MAC_LINE: Final = re.compile(r".* on (?P<point>/.*) \((?P<kind>[^,)]+)[^()]*\)")


def find_type_in_proc(path: Path, mounts: Path = MOUNT_INFO_FILE) -> str:
    """See `FindType`, for Linux."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return _find_type(parse_mount_info(text), path)


def find_type_by_program(path: Path, read: ReadsProgram, program: str = MOUNT_PROGRAM) -> str:
    """See `FindType`, for macOS; `read` runs the program that lists the mounts."""
    try:
        listed = read([program])
    except OSError:
        return ""
    return _find_type(parse_mount_list(listed.decode(errors="replace")), path)


def parse_mount_info(text: str) -> Iterator[tuple[str, str]]:
    """Each mount of Linux's list: where it is, and its type."""
    for line in text.splitlines():
        head, _, rest = line.partition(" - ")
        fields = head.split()
        if len(fields) >= 5 and rest:
            yield fields[4].replace("\\040", " "), rest.split()[0]


def parse_mount_devices(text: str) -> Iterator[tuple[str, str]]:
    """Each mount of Linux's list: its device as `major:minor`, and its type."""
    for line in text.splitlines():
        head, _, rest = line.partition(" - ")
        fields = head.split()
        if len(fields) >= 5 and rest:
            yield fields[2], rest.split()[0]


def parse_mount_list(text: str) -> Iterator[tuple[str, str]]:
    """Each mount that the program of macOS prints: where it is, and its type."""
    for line in text.splitlines():
        if found := _MAC_LINE.fullmatch(line):
            yield found["point"], found["kind"]


def _find_type(mounts: Iterable[tuple[str, str]], path: Path) -> str:
    real = os.path.realpath(path)
    best, kind = "", ""
    for point, its_kind in mounts:
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, kind = point, its_kind
    return kind


def choose_find_type(system: str, read: ReadsProgram) -> FindType:
    """How this system tells the type of a file system.

    Args:
        system: `sys.platform`.
        read: runs the program that lists the mounts, where there is no file of them.
    """
    return partial(find_type_by_program, read=read) if system == "darwin" else find_type_in_proc


def find_type(path: Path, read: ReadsProgram) -> str:
    """See `FindType`, for the system that this runs on; `read` as for `choose_find_type`."""
    return choose_find_type(sys.platform, read)(path)
