"""Lock files that are removed while they are taken or held, and disks that know no locks."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from core.samples import said
from store.shelf import CREATOR, Shelf
from store.test_posix_disk import open_handles
from treadle.errors import DiskError, StaleWriterError
from treadle.store.disk import LOCK_TRIES_MAX, PosixDisk
from treadle.store.local_store import LocalStore

# ---- lock files that go --------------------------------------------------------------------------


class LosingDisk(PosixDisk):
    """Somebody removes the lock file between the moment it is opened and the moment it is held."""

    def __init__(self, path: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        real = fcntl.flock

        def flock(handle: int, how: int) -> None:
            nonlocal times
            if times > 0:
                times -= 1
                Path(path).unlink()
            real(handle, how)

        monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("times", [1, 2, LOCK_TRIES_MAX - 1])
def test_a_lock_on_a_file_that_has_lost_its_name_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path = str(tmp_path / "a.lock")
    disk = LosingDisk(path, times, monkeypatch)
    lock = disk.lock(path, b"mine")
    assert lock is not None
    assert os.path.samestat(os.fstat(lock), Path(path).stat())
    assert disk.lock(path) is None
    disk.close(lock)


def test_a_lock_file_that_goes_again_and_again_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.lock")
    disk = LosingDisk(path, LOCK_TRIES_MAX, monkeypatch)
    handles = open_handles(str(tmp_path))
    with pytest.raises(OSError, match="again and again"):
        disk.lock(path)
    assert open_handles(str(tmp_path)) == handles


def test_a_writer_whose_lock_file_was_removed_writes_nothing_even_if_nobody_else_has(
    shelf: Shelf,
) -> None:
    writer = shelf.store.create(CREATOR)
    shelf.lock(writer.thread_id).unlink()
    before = shelf.journal(writer.thread_id).read_bytes()
    writer.stage(said())
    with pytest.raises(StaleWriterError, match=r"lock file .* was removed"):
        writer.commit()
    assert not writer.is_usable
    assert shelf.journal(writer.thread_id).read_bytes() == before
    assert writer.close() is None
    shelf.store.open(writer.thread_id).close()


# ---- no locks at all -----------------------------------------------------------------------------


class LocklessDisk(PosixDisk):
    """A file system that knows no locks, as some of networks do not."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        raise OSError(self.number, os.strerror(self.number), path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_there_are_no_locks_nothing_is_opened_and_the_way_out_is_told(
    shelf: Shelf, number: int
) -> None:
    thread_id = shelf.busy()
    before = shelf.files()
    store = LocalStore(shelf.places, disk=LocklessDisk(number))
    for use in (lambda: store.open(thread_id), lambda: store.create(CREATOR)):
        with pytest.raises(DiskError, match="has no locks") as caught:
            use()
        assert str(shelf.threads) in caught.value.message
        assert "TREADLE_HOME" in caught.value.hint
        assert caught.value.errno == number
    assert shelf.files() == before
    assert store.load(thread_id).fold.version == 7


def test_another_error_of_a_lock_is_told_as_it_is(shelf: Shelf) -> None:
    store = LocalStore(shelf.places, disk=LocklessDisk(errno.EIO))
    with pytest.raises(DiskError, match="Input/output error") as caught:
        store.open(shelf.busy())
    assert "TREADLE_HOME" not in caught.value.hint
