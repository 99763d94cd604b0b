"""The real disk does what every disk must, keeps files private, and waits for nothing."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from store.disk_suite import DiskSuite
from treadle.store.disk import PosixDisk

is_root = os.geteuid() == 0


@pytest.fixture
def disk() -> PosixDisk:
    return PosixDisk()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def open_handles(folder: str) -> list[str]:
    """What is open in a folder; other tests of this process have handles of their own."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one with which they are listed
            found.append(str(one.readlink()))
    return sorted(path for path in found if path.startswith(folder))


class TestPosixDisk(DiskSuite):
    """The suite."""


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_and_folders_are_private_whatever_the_umask(
    umask: int, disk: PosixDisk, folder: str
) -> None:
    before = os.umask(umask)
    try:
        disk.make_folder(f"{folder}/a/b")
        disk.close(disk.create(f"{folder}/a/file"))
        disk.close(disk.lock(f"{folder}/a/lock") or -1)
    finally:
        os.umask(before)
    assert [mode(f"{folder}/{name}") for name in ("a", "a/b")] == [0o700, 0o700]
    assert [mode(f"{folder}/{name}") for name in ("a/file", "a/lock")] == [0o600, 0o600]


def test_no_handle_is_inherited_by_a_child(disk: PosixDisk, folder: str) -> None:
    handles = [disk.create(f"{folder}/a"), disk.open_append(f"{folder}/a")]
    handles.append(disk.lock(f"{folder}/b") or -1)
    assert not any(os.get_inheritable(handle) for handle in handles)
    for handle in handles:
        disk.close(handle)


def test_a_child_does_not_keep_a_lock(disk: PosixDisk, folder: str) -> None:
    lock = disk.lock(f"{folder}/a")
    assert lock is not None
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        disk.close(lock)
        again = disk.lock(f"{folder}/a")
        child.communicate(b"\n")
    assert again is not None
    disk.close(again)


def test_a_short_write_is_gone_on_with(
    disk: PosixDisk, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    handle = disk.create(f"{folder}/a")
    disk.write(handle, bytes(range(100)))
    disk.close(handle)
    assert disk.read(f"{folder}/a") == bytes(range(100))


def test_an_error_after_a_short_write_leaves_a_part_and_is_told(
    disk: PosixDisk, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, [10]

    def full(handle: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = write(handle, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", full)
    handle = disk.create(f"{folder}/a")
    with pytest.raises(OSError, match="No space"):
        disk.write(handle, bytes(100))
    disk.close(handle)
    assert disk.read(f"{folder}/a") == bytes(10)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # as /dev/null


def _symlink(path: Path) -> None:
    target = path.parent / "elsewhere"
    target.write_bytes(b"not ours")
    path.symlink_to(target)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


STRANGERS = [_fifo, _socket, _symlink, _dangling, Path.mkdir]
if is_root:
    STRANGERS.append(_device)


@pytest.mark.parametrize("make", STRANGERS, ids=lambda make: make.__name__.strip("_"))
def test_what_is_no_file_of_ours_is_refused_at_once(make, disk, folder) -> None:  # type: ignore[no-untyped-def]
    path = Path(folder) / "a"
    make(path)
    before, names = open_handles(folder), sorted(os.listdir(folder))  # noqa: PTH208
    with pytest.raises(OSError):  # noqa: PT011
        disk.read(str(path))
    with pytest.raises(OSError):  # noqa: PT011
        disk.read_range(str(path), 0, 1)
    with pytest.raises(OSError):  # noqa: PT011
        disk.open_append(str(path))
    with pytest.raises(FileExistsError):
        disk.create(str(path))
    assert open_handles(folder) == before
    assert sorted(os.listdir(folder)) == names  # noqa: PTH208


@pytest.mark.parametrize("make", STRANGERS, ids=lambda make: make.__name__.strip("_"))
def test_a_lock_is_taken_on_plain_files_only(make, disk, folder) -> None:  # type: ignore[no-untyped-def]
    path = Path(folder) / "a"
    make(path)
    before = open_handles(folder)
    with pytest.raises(OSError):  # noqa: PT011
        disk.lock(str(path))
    assert open_handles(folder) == before
    assert not (Path(folder) / "nowhere").exists()


def test_failures_leave_no_handle_open(disk: PosixDisk, folder: str) -> None:
    disk.close(disk.create(f"{folder}/a"))
    lock = disk.lock(f"{folder}/lock")
    before = open_handles(folder)
    for _ in range(5):
        assert disk.lock(f"{folder}/lock") is None
        with pytest.raises(FileExistsError):
            disk.create(f"{folder}/a")
        with pytest.raises(FileNotFoundError):
            disk.read(f"{folder}/none")
        with pytest.raises(NotADirectoryError):
            disk.sync_folder(f"{folder}/a")
    assert open_handles(folder) == before
    disk.close(lock or -1)


def test_a_lock_is_free_at_once_when_its_holder_is_killed(disk: PosixDisk, folder: str) -> None:
    program = (
        "import sys\n"
        "from treadle.store.disk import PosixDisk\n"
        "assert PosixDisk().lock(sys.argv[1]) is not None\n"
        "print('held', flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, f"{folder}/a"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert disk.lock(f"{folder}/a") is None
        holder.kill()
        holder.wait()
    lock = disk.lock(f"{folder}/a")
    assert lock is not None
    disk.close(lock)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what is synced, in order."""
    found: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        found.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_a_folder_that_appears_meanwhile_is_synced_all_the_same(
    disk: PosixDisk, folder: str, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def raced(path: str, mode: int) -> None:
        mkdir(path, mode)
        mkdir(path, mode)  # somebody else was faster

    monkeypatch.setattr(os, "mkdir", raced)
    disk.make_folder(f"{folder}/a/b")
    assert Path(folder, "a", "b").is_dir()
    assert synced[-2:] == [folder, f"{folder}/a"]


def test_the_names_of_new_folders_and_of_the_one_above_them_are_synced(
    disk: PosixDisk, folder: str, synced: list[str]
) -> None:
    disk.make_folder(f"{folder}/a/b/c")
    assert synced == [str(Path(folder).parent), folder, f"{folder}/a", f"{folder}/a/b"]


def test_a_folder_is_synced_once_as_long_as_it_is_the_same(
    disk: PosixDisk, folder: str, synced: list[str]
) -> None:
    Path(folder, "a").mkdir()
    disk.make_folder(f"{folder}/a")
    assert synced == [folder], "who made it may have died before"
    disk.make_folder(f"{folder}/a")
    assert synced == [folder]
    Path(folder, "a").rename(Path(folder, "b"))
    Path(folder, "a").mkdir()
    disk.make_folder(f"{folder}/a")
    assert synced == [folder, folder], "another one has its name"
    Path(folder, "a").rmdir()
    synced.clear()
    disk.make_folder(f"{folder}/a")
    assert Path(folder, "a").is_dir()
    assert synced == [str(Path(folder).parent), folder]
