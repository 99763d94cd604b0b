"""Giving a file a second name, so that it can lose the first one without ever having none.

A rename moves a name too, but is not enough between two folders: a power cut may keep what it took
away and lose what it gave.
"""

from __future__ import annotations

import errno
from typing import Final

from treadle.store.disk import Disk

_NO_LINK_ERRORS: Final = frozenset(
    (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
)
"""What file systems say on which a file has one name."""


def add_hard_link(disk: Disk, source: str, target: str) -> bool:
    """Give the file `source` the name `target` too; it may have it already.

    Returns:
        False where a file can have only one name: nothing was changed then.

    Raises:
        OSError: the disk refused.
    """
    try:
        disk.link(source, target)
    except FileExistsError:  # what was cut short before is done again
        return True
    except OSError as error:
        if error.errno in _NO_LINK_ERRORS:
            return False
        raise
    return True
