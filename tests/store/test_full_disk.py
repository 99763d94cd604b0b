"""A disk that is full or read-only, and a folder without locks: typed, clear, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from core.samples import said
from lab.mounts import mounted, remount, why_no_mounts
from store.shelf import CREATOR, Shelf, fill
from treadle.errors import DiskError, TreadleError
from treadle.store.thread_writer import ThreadWriter

pytestmark = pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts() or "-")

PAGE_SIZE: Final = 4096
SIZES_KIB: Final = (*range(16, 64, 4), 64, 128, 256)
LONG: Final = "so it goes " * 200


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[int], Shelf]]:
    """A shelf on a disk of so many KiB."""
    with mounted("tmpfs", "tmpfs", tmp_path / "m", "size=16k"):

        def make(size_kib: int) -> Shelf:
            remount(tmp_path / "m", f"size={size_kib}k")
            return Shelf(tmp_path / "m" / "home")

        yield make


def disk_of(shelf: Shelf) -> Path:
    return shelf.places.data.parent.parent


def until_refused(work: Callable[[], object], limit: int = 10_000) -> DiskError:
    """Do it again and again; the error that ends it."""
    for _ in range(limit):
        try:
            work()
        except DiskError as error:
            return error
    pytest.fail("it was never refused")


def said_until_full(writer: ThreadWriter) -> DiskError:
    return until_refused(lambda: fill(writer, (said(LONG),)))


@pytest.mark.parametrize("size_kib", SIZES_KIB)
def test_a_full_disk_refuses_a_write_by_name_and_loses_nothing_acknowledged(
    small: Callable[[int], Shelf], size_kib: int
) -> None:
    shelf = small(size_kib)
    writer = shelf.store.create(CREATOR)
    acknowledged = [writer.head]

    def work() -> None:
        fill(writer, (said(LONG),))
        acknowledged.append(writer.head)

    error = until_refused(work)
    path = str(shelf.journal(writer.thread_id))
    assert (error.errno, error.path) == (errno.ENOSPC, path)
    assert error.needed > len(LONG)
    assert error.message == (
        f"cannot write {path}: No space left on device ({error.needed} bytes are needed)"
    )
    assert not writer.is_usable
    writer.close()
    loaded = shelf.store.load(writer.thread_id)
    assert (loaded.head, loaded.problem) == (acknowledged[-1], "")
    remount(disk_of(shelf), "size=1m")
    again = shelf.store.open(writer.thread_id)
    assert again.head == acknowledged[-1]
    fill(again, (said("there is room again"),))
    assert again.close() is None


def test_a_thread_for_which_there_is_no_room_leaves_no_journal(
    small: Callable[[int], Shelf],
) -> None:
    shelf = small(256)
    old = shelf.create((said("one"),))
    use_up(shelf.places.data / "filler")
    for make in (shelf.store.create, partial(shelf.store.fork, old)):
        with pytest.raises(DiskError) as refused:
            make(creator=CREATOR, first=(said(LONG * 10),))
        assert refused.value.errno == errno.ENOSPC
    assert list(shelf.threads.glob("*.jsonl")) == [shelf.journal(old)]


def test_a_disk_without_room_for_names_refuses_a_new_thread_and_keeps_the_old_ones(
    small: Callable[[int], Shelf],
) -> None:
    shelf = small(256)
    old = shelf.create((said("one"),))
    count = len(list(disk_of(shelf).rglob("*")))
    remount(disk_of(shelf), f"nr_inodes={count + 3}")
    error = until_refused(lambda: shelf.store.create(CREATOR).close(), 10)
    assert error.errno == errno.ENOSPC
    assert shelf.store.load(old).problem == ""
    remount(disk_of(shelf), "nr_inodes=1000")
    shelf.store.create(CREATOR).close()
    shelf.store.open(old).close()


def test_a_snapshot_for_which_there_is_no_room_costs_nothing_but_time(
    small: Callable[[int], Shelf],
) -> None:
    shelf = small(256)
    writer = shelf.store.create(CREATOR)
    for _ in range(10):
        fill(writer, (said(LONG),))
    use_up(shelf.places.data / "filler")
    problem = writer.close()
    assert isinstance(problem, DiskError)
    assert problem.needed > len(LONG)
    assert f"({problem.needed} bytes are needed)" in problem.message
    assert not shelf.snapshot(writer.thread_id).exists()
    assert list((shelf.threads / "tmp").iterdir()) == []
    assert shelf.store.load(writer.thread_id).fold.version == 11
    shelf.store.open(writer.thread_id).close()


def use_up(path: Path) -> None:
    """Take all the room there is left."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(PAGE_SIZE)):
            pass


def told(shelf: Shelf, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "treadle", *arguments],
        env={**os.environ, "TREADLE_HOME": str(shelf.places.data.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_threads_can_be_read_on_a_disk_that_takes_nothing(
    small: Callable[[int], Shelf], trouble: str
) -> None:
    shelf = small(128)
    thread_id = shelf.busy()
    if trouble == "full":
        writer = shelf.store.create(CREATOR)
        said_until_full(writer)
        writer.close()
        use_up(shelf.places.data / "filler")
    else:
        remount(disk_of(shelf), "ro")
    listed = told(shelf, "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert thread_id in {line["id"] for line in json.loads(listed.stdout)}
    shown = told(shelf, "show", thread_id)
    assert shown.returncode == 0, shown.stderr
    assert "mend it" in shown.stdout
    verified = told(shelf, "verify", thread_id)
    assert verified.returncode == 0, verified.stderr


def test_a_read_only_home_refuses_writing_by_name_and_in_one_line(
    small: Callable[[int], Shelf],
) -> None:
    shelf = small(128)
    thread_id = shelf.busy()
    remount(disk_of(shelf), "ro")
    for use in (lambda: shelf.store.open(thread_id), lambda: shelf.store.create(CREATOR)):
        with pytest.raises(DiskError, match="Read-only file system") as caught:
            use()
        assert str(shelf.threads) in caught.value.message
        assert "\n" not in caught.value.message
    assert shelf.store.load(thread_id).problem == ""


def test_what_is_no_error_of_room_says_nothing_of_bytes() -> None:
    for number in (errno.EIO, errno.EROFS, errno.EACCES):
        error = DiskError("write", "/x", OSError(number, os.strerror(number)), 5)
        assert "bytes" not in error.message
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        error = DiskError("write", "/x", OSError(number, os.strerror(number)), 5)
        assert isinstance(error, TreadleError)
        assert "(5 bytes are needed)" in error.message
