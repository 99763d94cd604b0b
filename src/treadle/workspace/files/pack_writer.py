"""Many contents taken in at once, as one pack.

Each object that lies by itself has to be made durable by itself, which takes a disk some
milliseconds. A pack takes that once. What is packed cannot be removed by itself, though: so it is
done for crowds only, which programs make and not people.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Final

from treadle.errors import FileStateError

COUNT_MIN: Final = 200
"""Files that are packed; fewer are done in less than a second."""

GROUP_COUNT: Final = 4096
GROUP_SIZE: Final = 64 * 1024 * 1024
"""Files and bytes that are taken in at a time: they are in memory."""

COMMAND: Final = (
    *("-c", "fastimport.unpackLimit=0", "-c", "pack.compression=1"),
    *("fast-import", "--quiet", "--depth=0"),
)
"""Reads what `take` makes, and writes the ids of the blobs, a line for each."""

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_batch(paths: Sequence[str]) -> tuple[int, bytes]:
    """The contents of the first of these files, for git to take in, and how many they are.

    Raises:
        OSError: one cannot be read.
        FileStateError: one is no file any more.
    """
    count, size = 0, 0
    parts: list[bytes] = []
    for path in paths[:GROUP_COUNT]:
        content = read_file(path)
        parts += (b"blob\nmark :1\ndata %d\n" % len(content), content, b"\nget-mark :1\n")
        count += 1
        size += len(content)
        if size >= GROUP_SIZE:
            break
    return count, b"".join(parts)


def read_file(path: str) -> bytes:
    """The bytes of a file; a link is not followed, and nothing waits for a pipe.

    Raises:
        OSError: it cannot be read.
        FileStateError: it is no file any more.
    """
    with os.fdopen(os.open(path, _OPEN), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileStateError(f"{path} is no file any more")
        return file.read()
