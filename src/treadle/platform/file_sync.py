"""Makes the contents of a file durable, as each system does it.

Linux has `fdatasync`: the contents and the size, without the times, which costs half. macOS has
neither that nor an `fsync` that reaches the disk: its `fsync` leaves the data in the drive's cache,
where a power cut takes it, and `F_FULLFSYNC` is what empties that cache. Elsewhere `fsync` is all
that POSIX promises.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable
from typing import Final, TypeAlias

SyncFile: TypeAlias = Callable[[int], None]
"""Takes an open file. Raises `OSError`; after one nothing is known of the contents: no second try
makes them durable."""
FileControl: TypeAlias = Callable[[int, int], object]
"""`fcntl.fcntl`: the file, and what is asked for."""

FULL_SYNC: Final = 51
"""`F_FULLFSYNC` of macOS, in its <fcntl.h>; Python names it there alone."""
_UNSUPPORTED: Final = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})
"""What file systems say that know no `F_FULLFSYNC`: network shares, some external drives."""


def full_sync(file: int, control: FileControl = fcntl.fcntl) -> None:
    """Empty the drive's cache as well; where the file system cannot, `fsync`.

    Raises:
        OSError: the disk refused.
    """
    try:
        control(file, FULL_SYNC)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        os.fsync(file)


def choose_sync(system: str, *, has_data_sync: bool) -> SyncFile:
    """How this system makes the contents of a file durable.

    Args:
        system: `sys.platform`.
        has_data_sync: whether `os.fdatasync` is there.
    """
    if system == "darwin":
        return full_sync
    return os.fdatasync if has_data_sync else os.fsync


sync_file: Final = choose_sync(sys.platform, has_data_sync=hasattr(os, "fdatasync"))
"""Make the contents of an open file durable. Raises `OSError`."""


def drop_pages(file: int) -> None:
    """See `forget_pages`, for Linux and other systems that take such advice."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def keep_pages(_: int) -> None:
    """See `forget_pages`, for macOS, which takes none for what it already holds."""


def choose_forget(*, has_advice: bool) -> SyncFile:
    """How this system forgets what it holds of a file.

    Args:
        has_advice: whether `os.posix_fadvise` is there.
    """
    return drop_pages if has_advice else keep_pages


forget_pages: Final = choose_forget(has_advice=hasattr(os, "posix_fadvise"))
"""Drop what memory holds of an open file, where that can be asked for: after a failed sync Linux
shows it as if it were saved. Raises `OSError`."""
