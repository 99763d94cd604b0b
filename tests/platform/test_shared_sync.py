"""When one sync of a file system stands for those of many files, and when it does not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from treadle.platform import shared_sync
from treadle.platform.shared_sync import FILES_MIN, RESTS_MAX, SharedSync


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    with ExitStack() as stack:
        opened = [stack.enter_context((tmp_path / f"f{n}").open("wb")) for n in range(FILES_MIN)]
        yield [file.fileno() for file in opened]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the folder of the test were on a file system that is known."""
    monkeypatch.setattr(shared_sync, "_find_type_of", lambda _: "ext4")
    monkeypatch.setattr(shared_sync, "_can_sync_all", lambda: True)


def seen(files: list[int]) -> SharedSync:
    """One that was asked before, so that it vouches for what is written from now on."""
    sync = SharedSync(clock=iter(range(10**6)).__next__)
    sync.sync_one(files[0])
    assert sync.find(files) is None
    return sync


def test_what_was_written_before_it_began_to_watch_is_not_among_it(files: list[int]) -> None:
    sync = SharedSync()
    assert sync.find(files) is None
    assert sync.find(files) is not None


def test_few_files_and_those_of_two_file_systems_are_synced_alone(files: list[int]) -> None:
    sync = seen(files)
    assert sync.find(files[:-1]) is None
    elsewhere = os.open("/proc/self/status", os.O_RDONLY)
    try:
        assert sync.find([*files, elsewhere]) is None
    finally:
        os.close(elsewhere)


@pytest.mark.parametrize(
    ("release", "is_good"),
    [("5.16.20", False), ("4.18.0-553.el8", False), ("5.17.0", True), ("6.1", True), ("x", False)],
)
def test_old_kernels_do_not_tell_all_errors(
    monkeypatch: pytest.MonkeyPatch, release: str, is_good: bool
) -> None:
    monkeypatch.undo()
    for name, expected in (("Linux", is_good), ("Darwin", False)):
        system = os.uname_result((name, "host", release, "v", "x86_64"))
        monkeypatch.setattr(os, "uname", lambda system=system: system)
        assert shared_sync._can_sync_all.__wrapped__() is expected


def test_other_file_systems_are_synced_alone(
    files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("tmpfs", "overlay", "nfs4", "fuse.sshfs", "btrfs", ""):
        monkeypatch.setattr(shared_sync, "_find_type_of", lambda _, kind=kind: kind)
        sync = SharedSync()
        assert [sync.find(files) for _ in range(3)] == [None] * 3, kind


def test_what_takes_longer_than_each_alone_rests_twice_as_long_each_time(
    files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    sync = SharedSync(clock=lambda: now)

    def take(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(shared_sync, "sync_file", lambda _: take(0.001))
    monkeypatch.setattr(shared_sync, "_sync_file_system", lambda _: take(cost_s))
    sync.sync_one(files[0])
    sync.find(files)
    cost_s = 0.001 * FILES_MIN * 2
    rests = []
    for _ in range(8):
        found = sync.find(files)
        assert found is not None
        found()
        count = 0
        while sync.find(files) is None:
            count += 1
            if count == sync._rests_next:
                break
        rests.append(count)
    assert rests == [2, 4, 8, 16, 32, 64, RESTS_MAX, RESTS_MAX]
    cost_s = 0.001
    found = sync.find(files)
    assert found is not None
    found()
    assert sync.find(files) is not None


def test_an_error_is_raised_as_the_kernel_tells_it() -> None:
    with pytest.raises(OSError, match="Bad file descriptor") as told:
        shared_sync._sync_file_system(-1)
    assert told.value.errno == errno.EBADF


def test_the_type_of_a_device_is_read_from_the_list_of_mounts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    lines = (
        "36 35 98:0 /r /a\\040b rw,noatime master:1 - ext4 /dev/x rw\n1 2 0:5 / /p rw - proc p rw\n"
    )
    (tmp_path / "mounts").write_text(lines)
    monkeypatch.setattr(shared_sync, "MOUNT_INFO_FILE", tmp_path / "mounts")
    for major, minor, kind in ((98, 0, "ext4"), (0, 5, "proc"), (9, 9, "")):
        assert shared_sync._find_type_of(os.makedev(major, minor)) == kind
    monkeypatch.setattr(shared_sync, "MOUNT_INFO_FILE", tmp_path / "none")
    assert shared_sync._find_type_of(os.makedev(98, 0)) == ""
