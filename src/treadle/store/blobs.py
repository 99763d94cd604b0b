"""Large outputs, kept whole beside the threads: each under the SHA-256 of its bytes.

A blob is durable before the record that names it. The same bytes are kept once. What no journal
names any more is removed by `store.upkeep.garbage`, which leaves alone what was kept or asked for
within its last hour: the record that names it may be about to be written.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import Final

from treadle.core.messages import BlobRef
from treadle.errors import MissingBlobError
from treadle.store.file_replacement import replace_file
from treadle.store.folders import StoreFolders
from treadle.store.journal import convert_os_errors

REMOVAL_SUFFIX: Final = ".aside"
"""Ends the name of a blob that is about to be removed: whoever needs it still finds it."""

_NAME: Final = re.compile(r"[0-9a-f]{64}\Z")


def is_blob_name(name: str) -> bool:
    """Whether a file of this name may be a blob."""
    return _NAME.match(name) is not None


def parse_blob_name(file_name: str) -> str:
    """The name of the blob that a file of this name holds; empty if it is none.

    One that is about to be removed is still one.
    """
    name = file_name.removesuffix(REMOVAL_SUFFIX)
    return name if is_blob_name(name) else ""


class Blobs:
    """The blobs of a store.

    Args:
        folders: where they are.
    """

    def __init__(self, folders: StoreFolders) -> None:
        self._folder = folders.blobs
        self._disk = folders.disk

    def path(self, name: str) -> str:
        """The file of a blob."""
        assert is_blob_name(name), name
        return os.path.join(self._folder, name)

    def keep(self, data: bytes) -> BlobRef:
        """Keep bytes, durably when this returns.

        Raises:
            DiskError: they are not kept; nothing else has changed.
        """
        name = sha256(data).hexdigest()
        path = self.path(name)
        if self._touch_existing(path, data):
            with convert_os_errors("sync the folder of", path):
                self._disk.sync_folder(self._folder)
        else:
            replace_file(self._disk, path, data)
        return BlobRef(name, len(data))

    def _touch_existing(self, path: str, data: bytes) -> bool:
        """Whether the bytes are there already; if so, they count as just kept.

        Touched before it is read: who removes blobs takes the name away first and then looks at the
        time, so that either it sees the touch, or the name is missing here.
        """
        with convert_os_errors("read", path):
            try:
                self._disk.touch(path)
                return self._disk.read(path) == data
            except FileNotFoundError:
                return False

    def read(self, ref: BlobRef) -> bytes:
        """The bytes, checked against their name.

        Raises:
            MissingBlobError: they are gone, or not what they were.
            DiskError: the disk refused.
        """
        if not is_blob_name(ref.sha256):
            raise MissingBlobError(f"{ref.sha256!r} names no output")
        path, data = self.path(ref.sha256), self.load(ref.sha256)
        if data is None:
            raise MissingBlobError(
                f"the whole output is gone: there is no {path}",
                hint="the thread has its beginning and its end",
            )
        if sha256(data).hexdigest() != ref.sha256:
            raise MissingBlobError(
                f"the whole output is damaged: {path} is not what it was",
                hint="the thread has its beginning and its end",
            )
        return data

    def load(self, name: str) -> bytes | None:
        """The bytes of a name as they are there; `None` if there are none. Raises `DiskError`."""
        path = self.path(name)
        # The last look is for what was put back between the two others.
        looks = map(self._read_file, (path, path + REMOVAL_SUFFIX, path))
        return next((data for data in looks if data is not None), None)

    def is_missing(self, ref: BlobRef) -> bool:
        """Whether there is no file of this name, not even a damaged one.

        Raises:
            DiskError: the disk refused.
        """
        if not is_blob_name(ref.sha256):
            return True  # a journal of somebody else's may say anything
        path = self.path(ref.sha256)
        with convert_os_errors("read", path):
            return all(self._disk.stat(one) is None for one in (path, path + REMOVAL_SUFFIX))

    def _read_file(self, path: str) -> bytes | None:
        with convert_os_errors("read", path):
            try:
                return self._disk.read(path)
            except FileNotFoundError:
                return None
