"""Replacing a file as a whole: written beside it under a random name, synced, then renamed."""

from __future__ import annotations

import os
import secrets

from treadle.store.disk import Disk
from treadle.store.journal import convert_os_errors


def drafts_folder(path: str) -> str:
    """The folder for what is to become `path`: on the same file system, out of the way of lists."""
    return os.path.join(os.path.dirname(path), "tmp")


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Make `data` the contents of `path`, durably: the old ones stand until the new ones do.

    The draft is named after the file, so that who cleans up knows whose it is.

    Raises:
        DiskError: the old contents stand.
    """
    folder, name = os.path.split(path)
    drafts = drafts_folder(path)
    draft = os.path.join(drafts, f"{name.partition('.')[0]}.{secrets.token_hex(8)}")
    with convert_os_errors("write", path, len(data)):
        try:
            handle = disk.create(draft)
        except FileNotFoundError:
            disk.make_folder(drafts)
            handle = disk.create(draft)
        try:
            try:
                disk.write(handle, data)
                disk.sync(handle)
            finally:
                disk.close(handle)
            disk.rename(draft, path)
        except BaseException:
            _remove_draft(disk, draft)
            raise
        disk.sync_folder(folder)


def _remove_draft(disk: Disk, draft: str) -> None:
    try:
        disk.unlink(draft)
    except OSError:
        return  # it is cleaned up when the thread is opened next


def remove_drafts(disk: Disk, folder: str, owner: str) -> None:
    """Remove the drafts of `owner` that were being written when a process died."""
    with convert_os_errors("clean", folder):
        for name in disk.list(folder):
            if name.startswith(owner):
                disk.unlink(os.path.join(folder, name))
