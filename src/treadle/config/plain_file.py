"""Reads a small plain file and what the file system says of it, without ever waiting."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.errors import DiskError

_MACHINE_ERRORS: Final = frozenset(
    {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ESTALE}
    | {errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EREMOTEIO}
)
"""Errors of the machine, not of the file: later it may be read."""

_SAFE_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class PlainFile(Struct, frozen=True):
    """Bytes, with the owner and the mode of the very file they were read from."""

    data: bytes
    owner: int
    mode: int


def read_plain_file(path: Path, size_max: int, *, may_be_link: bool = True) -> PlainFile:
    """The whole file.

    Raises:
        OSError: there is none, it cannot be read, is no plain file, or has more than `size_max`
            bytes. A FIFO or a device is not waited for.
    """
    handle = os.open(path, _SAFE_OPEN_FLAGS if may_be_link else _SAFE_OPEN_FLAGS | os.O_NOFOLLOW)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(size_max + 1)
    finally:
        os.close(handle)
    if len(data) > size_max:
        raise OSError(errno.EFBIG, f"it is larger than {size_max} bytes", str(path))
    return PlainFile(data, status.st_uid, stat.S_IMODE(status.st_mode))


def raise_machine_error(path: Path, error: OSError) -> None:
    """That a file could not be read is for what stands there.

    Raises:
        DiskError: it is not: the machine fails just now, and the file may be well.
    """
    if error.errno in _MACHINE_ERRORS:
        refused = DiskError("read", str(path), error)
        refused.hint = "mend the cause, or try again later"
        raise refused from error
