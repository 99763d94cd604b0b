"""Each way to make a file durable, on real files; what macOS alone can do, as it answers there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from treadle.platform.file_sync import (
    FULL_SYNC,
    FileControl,
    SyncFile,
    choose_forget,
    choose_sync,
    drop_pages,
    forget_pages,
    full_sync,
    keep_pages,
)
from treadle.platform.file_sync import sync_file as sync_here


def answering(code: int, asked: list[int] | None = None) -> FileControl:
    """`fcntl` of a system that refuses with this error, or does it (0)."""

    def control(_: int, what: int) -> int:
        if asked is not None:
            asked.append(what)
        if code:
            raise OSError(code, os.strerror(code))
        return 0

    return control


WAYS = {
    "fdatasync": os.fdatasync,
    "fsync": os.fsync,
    "F_FULLFSYNC": partial(full_sync, control=answering(0)),
    "F_FULLFSYNC, which the file system has not": partial(
        full_sync, control=answering(errno.ENOTSUP)
    ),
}


@pytest.mark.parametrize("sync", WAYS.values(), ids=WAYS)
def test_what_was_written_is_there_and_can_be_added_to(tmp_path: Path, sync: SyncFile) -> None:
    path = tmp_path / "journal"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for count in range(1, 4):
            os.write(file, b"record\n")
            sync(file)
            assert path.read_bytes() == b"record\n" * count
    finally:
        os.close(file)


@pytest.mark.parametrize("sync", [os.fdatasync, os.fsync, full_sync])
def test_a_file_that_is_not_open_is_an_error(tmp_path: Path, sync: SyncFile) -> None:
    file = os.open(tmp_path / "journal", os.O_WRONLY | os.O_CREAT)
    os.close(file)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync(file)


def test_a_drive_that_fails_is_not_taken_for_one_that_cannot(tmp_path: Path) -> None:
    asked: list[int] = []
    file = os.open(tmp_path / "journal", os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            full_sync(file, answering(errno.EIO, asked))
    finally:
        os.close(file)
    assert asked == [FULL_SYNC]


def test_each_system_has_the_strongest_that_it_offers() -> None:
    assert choose_sync("linux", has_data_sync=True) is os.fdatasync
    assert choose_sync("freebsd14", has_data_sync=False) is os.fsync
    assert choose_sync("darwin", has_data_sync=False) is full_sync
    # Some builds of Python for macOS have it, and it reaches no further there than `fsync`.
    assert choose_sync("darwin", has_data_sync=True) is full_sync
    assert sync_here is os.fdatasync


@pytest.mark.parametrize("forget", [drop_pages, keep_pages])
def test_what_is_forgotten_is_read_again(tmp_path: Path, forget: SyncFile) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"record\n")
    file = os.open(path, os.O_RDWR)
    forget(file)
    assert os.read(file, 100) == b"record\n"
    os.close(file)


def test_pages_are_forgotten_where_that_can_be_asked_for() -> None:
    assert choose_forget(has_advice=False) is keep_pages
    assert choose_forget(has_advice=True) is drop_pages is forget_pages


MAC = """
import fcntl, os, sys
sys.platform = "darwin"
del os.fdatasync
del os.posix_fadvise
asked = []
real = fcntl.fcntl
def control(file, what, *more):
    if what == 51:
        asked.append(file)
        return 0
    assert what != getattr(fcntl, "F_OFD_SETLK", None)
    return real(file, what, *more)
fcntl.fcntl = control
from treadle import LocalStore, Places
from pathlib import Path
store = LocalStore(Places(*[Path(sys.argv[1], name) for name in ("data", "state", "config")]))
writer = store.create("a Mac", workspace="/w")
thread = writer.thread_id
writer.close()
assert store.load(thread).fold.header.thread == thread
print(len(asked) > 0)
"""


def test_a_thread_is_written_where_fdatasync_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAC, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
