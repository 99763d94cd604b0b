"""Replacing a file as a whole: written beside it, made durable, then renamed over it.

Who reads the name at any moment, or after a power cut, finds the old content or the new one. The
store has a function of its own (`store/file_replacement.py`), since it writes through a port that
tests put a disk with faults behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import AnyStr, Final

from treadle.platform.file_sync import sync_file

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(
    place: int,
    name: AnyStr,
    content: bytes,
    *,
    draft: AnyStr,
    mode: int = 0o666,
    prepare: Callable[[int], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> os.stat_result:
    """Make `content` that of a file, durably but for its name: the caller syncs the folder.

    Args:
        place: a descriptor of the folder. No link on the way can lead elsewhere.
        name: the file in it, which need not exist.
        content: all of its bytes.
        draft: the name it is written under first; what a dead process left there is removed.
        mode: the permissions of a new file, of which the umask takes some away.
        prepare: gets a descriptor of the draft before it is made durable: for its permissions.
        check: is called right before the rename; what it raises leaves the file as it was.

    Returns:
        The status of the new file.

    Raises:
        OSError: the disk refused. The file is as it was, and no draft is left.
    """
    status = write_draft(place, content, draft=draft, mode=mode, prepare=prepare)
    try:
        check()
        os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=place)
        raise
    return status


def write_draft(
    place: int,
    content: bytes,
    *,
    draft: AnyStr,
    mode: int = 0o666,
    prepare: Callable[[int], None] = lambda _: None,
) -> os.stat_result:
    """Write a content durably beside the file that it is for. As `replace_file`, without the end.

    Who renames it over that file has replaced it.
    """
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=place)
    file = os.open(draft, _NEW_FILE, mode, dir_fd=place)
    try:
        try:
            write_all(file, content)
            prepare(file)
            sync_file(file)
            return os.fstat(file)
        finally:
            os.close(file)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=place)
        raise


def write_all(file: int, content: bytes) -> None:
    """Write all of it: one call may take a part only."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
