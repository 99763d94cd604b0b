"""A control group of Linux per command, where this user may make one.

That is root, whom no limit binds.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_ABOVE: Final = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")
"""Where groups are that bound the number of processes: of the first kind, of the second."""
_NAME: Final = re.compile(r"treadle-(\d+)-[0-9a-f]{8}\Z")
_FRESH_S: Final = 60.0
"""A younger group may be of a program in another container, whose numbers mean others here."""
_ROUND_COUNT_MAX: Final = 20
_AT_ONCE: Final = 100
_END_S_MAX: Final = 0.2
_JOINING: Final = """
if [ -e "$0/tasks" ]; then echo 0 >"$0/tasks"; else echo $$ >"$0/cgroup.procs"; fi && exec "$@"
"""
JOIN: Final = ("/bin/sh", "-c", _JOINING)
"""Before the group and the rest of a command: runs it as a member of the group.

To move a whole process, all forks of the machine are held up until each processor has been through
the kernel, 10 to 20 ms. Where groups are of the first kind, the one thread of a shell can move
itself without that.
"""


def make_group(process_count_max: int) -> str | None:
    """A new group of at most so many processes and threads; `None` if there can be none."""
    for above in _ABOVE:
        _sweep_once(above)
        group = Path(above, f"treadle-{os.getpid()}-{secrets.token_hex(4)}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            # Only the kernel makes this file: in a folder that is none of its own, as in the tmpfs
            # above the groups of the first kind, to create it would bound nothing.
            with (group / "pids.max").open("r+") as bound:
                bound.write(str(process_count_max))
        except OSError:
            group.rmdir()
            continue
        return str(group)
    return None


def remove_group(group: str) -> None:
    """Kill what is left in a group, and take it away. Takes milliseconds.

    One whose members do not go in time is left, empty later on, to the sweep of another process.
    """
    with suppress(OSError):
        Path(group, "pids.max").write_text("0")
    until = time.monotonic() + _END_S_MAX
    for _ in range(_ROUND_COUNT_MAX):
        try:
            Path(group).rmdir()
        except FileNotFoundError:
            return
        except OSError:
            _end(_members(group)[:_AT_ONCE], until)
        else:
            return


@cache
def _sweep_once(above: str) -> None:
    sweep(above)


def sweep(above: str, *, fresh_s: float = _FRESH_S) -> None:
    """Take away the empty groups of programs that are gone, but not those younger than this."""
    with suppress(OSError):
        for group in Path(above).glob("treadle-*"):
            name = _NAME.match(group.name)
            if name is not None and not Path("/proc", name[1]).exists():
                with suppress(OSError):
                    if group.stat().st_ctime < time.time() - fresh_s:
                        group.rmdir()


def _members(group: str) -> list[int]:
    try:
        return [int(line) for line in Path(group, "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _end(pids: list[int], until: float) -> None:
    """Kill processes and wait until each has ended, but no longer than `until`."""
    fds: list[int] = []
    try:
        for pid in pids:
            with suppress(OSError):
                fds.append(os.pidfd_open(pid))
                os.kill(pid, signal.SIGKILL)
        for fd in fds:
            ending = select.poll()
            ending.register(fd, select.POLLIN)
            ending.poll(max(0.0, until - time.monotonic()) * 1000)
    finally:
        for fd in fds:
            os.close(fd)
