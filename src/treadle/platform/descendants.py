"""Finds the processes that a program has started, as each system tells of processes.

A process belongs to a program by its parents, by its group or session, or by a mark in its
environment, which a daemon inherits too. Linux tells all that in /proc. Elsewhere `ps` tells it,
in the words that POSIX and the manuals of macOS and procps have in common, but for the option that
shows environments; macOS shows those of a person's own processes alone, and not of programs that
come with the system.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

PROC: Final = Path("/proc")
_PS: Final = ("/bin/ps", "/usr/bin/ps")
"""Where systems have it; one found elsewhere may be anybody's."""
_ENVIRONMENTS: Final = {"darwin": "-AEww", "linux": "axeww"}
_FIELDS: Final = (
    "-A",
    # To POSIX, what follows a `=` in one word is a heading, commas too.
    *(word for name in ("pid", "ppid", "pgid", "stat", "lstart") for word in ("-o", f"{name}=")),
)
_FIELD_COUNT: Final = 4
"""Those before the last one, which has blanks in it."""


class LiveProcess(NamedTuple):
    """A process that has not exited.

    `begun` is when, which with `pid` makes it unique; `groups` are the numbers of its group and of
    its session, as far as they are known.
    """

    pid: int
    parent: int
    groups: tuple[int, ...]
    begun: bytes
    is_marked: bool


ListsProcesses: TypeAlias = Callable[[bytes], Iterable[LiveProcess]]
"""All processes of the system; marked are those that have these bytes in their environment."""
ReadsProgram: TypeAlias = Callable[[Sequence[str]], bytes]
"""What a program prints. Raises `OSError`; nothing if it fails."""


class Descendants:
    """The processes that belong to a program; none is forgotten that was seen once.

    Args:
        leader: the number of the program's own process, which leads a session.
        mark: stands in the environment of its descendants.
        list_processes: how this system tells of processes.
    """

    def __init__(self, leader: int, mark: bytes, list_processes: ListsProcesses) -> None:
        self._leader = leader
        self._mark = mark
        self._list_processes = list_processes
        self._known: set[tuple[int, bytes]] = set()

    def find(self) -> set[int]:
        """Those that live, by number, the leader too."""
        found: set[int] = set()
        begun: dict[int, bytes] = {}
        children: dict[int, list[int]] = {}
        for one in self._list_processes(self._mark):
            begun[one.pid] = one.begun
            children.setdefault(one.parent, []).append(one.pid)
            is_known = (one.pid, one.begun) in self._known
            if one.is_marked or is_known or self._leader in one.groups:
                found.add(one.pid)
        todo = [self._leader, *found]
        while todo:
            fresh = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
            found.update(fresh)
            todo += fresh
        self._known.update((pid, begun[pid]) for pid in found)
        return found


def list_by_proc(mark: bytes) -> Iterator[LiveProcess]:
    """As Linux tells it."""
    with suppress(OSError):
        for folder in PROC.iterdir():
            if folder.name.isdecimal() and (one := _read_process(folder, mark)) is not None:
                yield one


def _read_process(folder: Path, mark: bytes) -> LiveProcess | None:
    try:
        # The name, in brackets, may hold anything. After it stand the state, the parent, the group,
        # the session, and later the number of threads and the time it began.
        fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        # The first thread may have ended, and look like a dead process, while others run.
        if fields[0] in b"ZX" and int(fields[17]) <= 1:
            return None
        parent, *groups = (int(field) for field in fields[1:4])
        begun = fields[19]
    except (OSError, ValueError, IndexError):  # it has just gone
        return None
    is_marked = mark in _read_environment(folder, fields[0])
    return LiveProcess(int(folder.name), parent, tuple(groups), begun, is_marked)


def _read_environment(folder: Path, state: bytes) -> bytes:
    with suppress(OSError):  # it has just gone, or is somebody else's
        if state not in b"ZX":
            return (folder / "environ").read_bytes()
        for thread in (folder / "task").iterdir():
            with suppress(OSError):  # of a thread that has ended nothing is told
                return (thread / "environ").read_bytes()
    return b""


class PsLister(Struct, frozen=True):
    """As `ps` tells it, which is asked twice: for environments, and for what is read by field."""

    environments: str
    """The option that shows environments, and all of them."""
    read: ReadsProgram

    def __call__(self, mark: bytes) -> Iterator[LiveProcess]:
        """The processes; none where there is no `ps`."""
        program = next((path for path in _PS if os.access(path, os.X_OK)), None)
        if program is None:
            return
        with suppress(OSError):
            marked = set(self._find_marked(program, mark))
            for line in self.read((program, *_FIELDS)).splitlines():
                fields = line.split(maxsplit=_FIELD_COUNT)
                if len(fields) <= _FIELD_COUNT or _is_dead(fields[3]):
                    continue
                pid, parent, group = (int(field) for field in fields[:3])
                groups = (group, *_session_of(pid))
                yield LiveProcess(pid, parent, groups, fields[4], pid in marked)

    def _find_marked(self, program: str, mark: bytes) -> Iterator[int]:
        # Whatever an environment holds, it is one line: `ps` writes no control character as it is.
        for line in self.read(
            (program, self.environments, "-o", "pid=", "-o", "command=")
        ).splitlines():
            if mark in line:
                yield int(line.split(maxsplit=1)[0])


def _is_dead(state: bytes) -> bool:
    # On Linux `l` says that it has more threads than the first one, which may have ended.
    return state[:1] in b"ZX" and b"l" not in state


def _session_of(pid: int) -> tuple[int, ...]:
    """The `sess` of `ps` is an address on macOS; the system call tells the number everywhere."""
    try:
        return (os.getsid(pid),)
    except OSError:  # it has just gone, or is nobody's business
        return ()


def choose_lister(system: str, read: ReadsProgram, *, has_proc: bool) -> ListsProcesses:
    """How this system tells of processes.

    Args:
        system: `sys.platform`.
        read: runs `ps`.
        has_proc: whether there is a /proc as Linux has it.
    """
    if has_proc:
        return list_by_proc
    return PsLister(_ENVIRONMENTS.get(system, "axeww"), read)


def make_lister(read: ReadsProgram) -> ListsProcesses:
    """How the system that this runs on tells of processes; `read` runs `ps`."""
    return choose_lister(sys.platform, read, has_proc=(PROC / "self/stat").exists())
