"""Makes what was written to many files durable with one system call, where that holds and pays.

Linux's `syncfs` saves all of a file system. For some hundred files it costs what two calls of
`fdatasync` do: ext4 commits its journal once and not once for each file. It holds under conditions,
each checked here:

- Only Linux 5.17 and newer tell every error of it (before, those of the journal were lost).
- It tells errors since its own handle was opened. So that handle is opened before what it vouches
  for is written, and stays open.
- Only file systems count whose code was read, and that lost nothing when their power was cut.

It saves what other programs have written too, and waits for that. So both ways are timed, and where
it took longer than a sync of each file would have, it rests for a while.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from treadle.platform.file_sync import sync_file
from treadle.platform.file_systems import MOUNT_INFO_FILE, parse_mount_devices

FILES_MIN: Final = 8
"""Fewer files are synced one by one. On an idle disk both ways cost the same at three or four."""
RESTS_MAX: Final = 64
"""So many groups at most are synced file by file before the file system is tried again."""
KNOWN_TYPES: Final = frozenset({"ext4"})
_KERNEL_MIN: Final = (5, 17)
_WEIGHT: Final = 0.1


class SharedSync:
    """The choice between one sync for all files and one for each.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._handles: dict[int, int] = {}  # by device; -1 where it may not be used
        self._single_s = 0.0  # what a sync of one file takes, the newest of them weighed most
        self._rests = self._rests_next = 0

    def find(self, files: Sequence[int]) -> Callable[[], None] | None:
        """What makes the contents of these files durable; `None` if each is to be synced alone.

        What is found may be called in another thread, also when files are closed by then. It raises
        `OSError`; after that nothing is known of any of them.

        Args:
            files: open ones, whose last contents were written after they were here before.
        """
        if len(files) < FILES_MIN or not _can_sync_all():
            return None
        devices = {os.fstat(file).st_dev for file in files}
        device = devices.pop()
        if devices:
            return None
        handle = self._handles.get(device)
        if handle is None:
            # Their contents were written before it was opened: it does not vouch for them.
            self._handles[device] = self._open(device, files[0])
            return None
        if handle < 0:
            return None
        if self._rests:
            self._rests -= 1
            return None
        return partial(self._sync_all, handle, len(files))

    def sync_one(self, file: int) -> None:
        """Sync one alone, and learn what that costs. Raises `OSError`."""
        began_s = self._clock()
        sync_file(file)
        took_s = self._clock() - began_s
        self._single_s += (took_s - self._single_s) * (_WEIGHT if self._single_s else 1)

    def _sync_all(self, handle: int, count: int) -> None:
        began_s = self._clock()
        _sync_file_system(handle)
        if self._clock() - began_s <= count * self._single_s:
            self._rests_next = 0
        else:
            self._rests = self._rests_next = min(RESTS_MAX, max(2, 2 * self._rests_next))

    def _open(self, device: int, file: int) -> int:
        if _find_type_of(device) not in KNOWN_TYPES:
            return -1
        try:
            folder = Path(f"/proc/self/fd/{file}").readlink().parent
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return -1
        weakref.finalize(self, os.close, handle)
        return handle if os.fstat(handle).st_dev == device else -1


@cache
def _can_sync_all() -> bool:
    """Whether this kernel has the call, and tells all errors of it."""
    system = os.uname()
    found = re.match(r"(\d+)\.(\d+)", system.release)
    return (
        system.sysname == "Linux"
        and found is not None
        and (int(found[1]), int(found[2])) >= _KERNEL_MIN
    )


def _find_type_of(device: int) -> str:
    try:
        text = MOUNT_INFO_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    return next((kind for number, kind in parse_mount_devices(text) if number == wanted), "")


def _sync_file_system(handle: int) -> None:
    # Imported at the first group: it takes as long as a start of the command may.
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(handle):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
