"""Files in the folders of a store that are not the store's. They are named and never touched."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from treadle.store.folders import StoreFolders
from treadle.store.journal import convert_os_errors
from treadle.thread.ids import is_thread_id

_THREADS: Final = re.compile(r"(?P<id>[^.]+)\.(?:jsonl|json|lock|adopted|sending)|tmp")
_BLOBS: Final = re.compile(r"[0-9a-f]{64}(?:\.aside)?|tmp")
_QUARANTINE: Final = re.compile(r"(?P<id>[^.]+)\..+|tmp")
_BRANCHES: Final = re.compile(r"(?P<id>[^.@]+)@\d+-[0-9a-f]{32}\.jsonl|tmp")
_DATA: Final = re.compile(
    r"threads|trash|blobs|quarantine|branches|tmp|(?:index|trash)\.lock|index\.sqlite(?:-wal|-shm)?"
    # The last is what `doctor` could not remove: the disk turned read-only, or it was killed.
    r"|scrub-[0-9a-f]{32}\.json|\.treadle-doctor-.*"
)


def list_foreign_files(folders: StoreFolders) -> Iterator[str]:
    """The paths of all that has no place where it is.

    Raises:
        DiskError: a folder cannot be read.
    """
    rules = (
        (os.path.dirname(folders.threads), _DATA),
        (folders.threads, _THREADS),
        (folders.trash, _THREADS),
        (folders.blobs, _BLOBS),
        (folders.quarantine, _QUARANTINE),
        (folders.branches, _BRANCHES),
    )
    for folder, rule in rules:
        with convert_os_errors("list", folder):
            names = folders.disk.list(folder)
        for name in names:
            found = rule.fullmatch(name)
            thread_id = found.groupdict().get("id") if found is not None else None
            if found is None or (thread_id is not None and not is_thread_id(thread_id)):
                yield os.path.join(folder, name)
