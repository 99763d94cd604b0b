"""Tells the event loop that a child of this process has exited, as each system can.

Linux has a descriptor of a process, which becomes readable. Elsewhere a thread waits. Both leave
the dead child to be waited for, so that its number, and that of its group, is nobody else's until
then; only where Python has no `waitid` (macOS before 3.13) must the thread reap it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

Heard: TypeAlias = Callable[[], None]
Stop: TypeAlias = Callable[[], None]
"""Gives back what the watch holds; nothing is told any more."""


def watch_exit(pid: int, heard: Heard, reap: Callable[[], object]) -> Stop:
    """Call `heard` in the running event loop once this child has exited.

    Args:
        pid: its number.
        heard: called once, never before this has returned.
        reap: waits for the child, for where there is nothing better.
    """
    try:
        return watch_by_descriptor(pid, heard)
    except (AttributeError, OSError):  # no Linux, an old one, or too many open files
        return watch_by_thread(pid, heard, reap)


def watch_by_descriptor(pid: int, heard: Heard) -> Stop:
    """As `watch_exit`, by what Linux has.

    Raises:
        AttributeError: the system has no descriptors of processes.
        OSError: it has none to give.
    """
    loop = asyncio.get_running_loop()
    file = os.pidfd_open(pid)

    def hear() -> None:
        loop.remove_reader(file)
        heard()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop may be closed
            loop.remove_reader(file)
        os.close(file)

    loop.add_reader(file, hear)
    return stop


def watch_by_thread(pid: int, heard: Heard, reap: Callable[[], object]) -> Stop:
    """As `watch_exit`, by what all systems have. The thread ends with the child."""
    loop = asyncio.get_running_loop()
    stopped = threading.Event()

    def hear() -> None:
        if not stopped.is_set():
            heard()

    def wait() -> None:
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # it was waited for meanwhile
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            reap()
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(hear)

    threading.Thread(target=wait, daemon=True).start()
    return stopped.set
