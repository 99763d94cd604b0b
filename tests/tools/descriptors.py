"""What this process has open."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path


def opened() -> set[tuple[str, str]]:
    """The descriptors of this process, and what each is of; others may close theirs meanwhile."""
    gc.collect()
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the list itself
            found.add((fd.name, str(fd.readlink())))
    return found
