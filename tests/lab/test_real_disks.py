"""Real file systems: full ones, read-only ones, and one whose power is cut."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from itertools import count as counter
from pathlib import Path

import pytest

from lab.checks import check_end, check_folder
from lab.kills import Workshop, some_power_cuts
from lab.layers import SEED
from lab.mounts import (
    FragileDisk,
    cut_power,
    make_image,
    mounted,
    remount,
    why_no_images,
    why_no_mounts,
)
from lab.script import lab_store, play, recover, small_snapshots
from lab.suites import Report
from lab.world import Acked, World
from treadle.errors import DiskError, UnknownThreadError
from treadle.store.disk import PosixDisk

Clean = Callable[[str, Report], None]

needs_mounts = pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts() or "-")
needs_images = pytest.mark.skipif(bool(why_no_images()), reason=why_no_images() or "-")

SIZES_KIB = range(4, 84, 4)
COUNTS_OF_FILES = range(2, 14)


def fill(folder: Path, world: World) -> DiskError | None:
    """Work there until it is full; the error, if it came to that."""
    try:
        with small_snapshots():
            asyncio.run(play(lab_store(PosixDisk(), str(folder / "store")), world))
    except DiskError as error:
        return error
    return None


def read_all(folder: Path, world: World) -> None:
    """On a disk that takes nothing any more, everything acknowledged can still be read."""
    store = lab_store(PosixDisk(), str(folder / "store"))
    for thread in {note.thread for note in world.notes if isinstance(note, Acked)}:
        assert store.load(thread).problem == ""
        assert store.scan(thread).records
    assert all(line.problem == "" for line in store.list())


def go_on(folder: Path, world: World) -> list[str]:
    """The same process takes up its work; what that violates."""
    with small_snapshots():
        store = lab_store(PosixDisk(), str(folder / "store"), first_id=2_000)
        asyncio.run(recover(store, world))
    return check_folder(str(folder / "store"), world.notes)


@needs_mounts
def test_a_full_disk_loses_nothing_and_work_goes_on_once_there_is_room(tmp_path: Path) -> None:
    refused = 0
    for size in SIZES_KIB:
        with mounted("tmpfs", "tmpfs", tmp_path / "m", f"size={size}k"):
            world = World()
            error = fill(tmp_path / "m", world)
            if error is not None:
                refused += 1
                assert error.errno == errno.ENOSPC
                assert str(tmp_path) in error.message
            read_all(tmp_path / "m", world)
            remount(tmp_path / "m", "size=4m")
            assert go_on(tmp_path / "m", world) == [], f"{size} KiB"
    assert 8 <= refused < len(SIZES_KIB)


@needs_mounts
def test_a_disk_without_room_for_new_files_loses_nothing(tmp_path: Path) -> None:
    refused = 0
    for count in COUNTS_OF_FILES:
        with mounted("tmpfs", "tmpfs", tmp_path / "m", f"size=1m,nr_inodes={count}"):
            world = World()
            error = fill(tmp_path / "m", world)
            if error is not None:
                refused += 1
                assert error.errno == errno.ENOSPC
            read_all(tmp_path / "m", world)
            remount(tmp_path / "m", "nr_inodes=1000")
            assert go_on(tmp_path / "m", world) == [], f"{count} inodes"
    assert 4 <= refused < len(COUNTS_OF_FILES)


@needs_mounts
def test_a_read_only_disk_is_readable_and_says_why_it_cannot_be_written(tmp_path: Path) -> None:
    with mounted("tmpfs", "tmpfs", tmp_path / "m", "size=4m"):
        world = World()
        assert fill(tmp_path / "m", world) is None
        store = lab_store(PosixDisk(), str(tmp_path / "m" / "store"), first_id=2_000)
        remount(tmp_path / "m", "ro")
        read_all(tmp_path / "m", world)
        for thread in store.ids():
            with pytest.raises(DiskError, match="Read-only"):
                store.open(thread)
        with pytest.raises(DiskError, match="Read-only"):
            store.create("lab 1")
        with pytest.raises(UnknownThreadError):
            store.open("T-00000000-0000-7000-8000-00000000ffff")
        remount(tmp_path / "m", "rw")
        assert go_on(tmp_path / "m", world) == []
        assert check_end(PosixDisk(), store, world.notes, str(tmp_path / "m" / "store")) == []


def failed_sync(folder: Path, effect: int) -> list[str]:
    """The device fails from this effect on, the cause ends, work goes on, the power goes."""
    fragile, world = FragileDisk(folder), World()
    effects = counter(1)
    with fragile.mounted():
        world.on_effect = lambda _: fragile.exhaust() if next(effects) == effect else None
        error = fill(fragile.disk, world)
        assert error is not None
        assert error.operation == "sync"
        fragile.relieve()
        try:
            found = go_on(fragile.disk, world)
        except DiskError as refusal:
            if refusal.errno != errno.EROFS:
                raise
            cut_power(fragile.disk)  # the kernel has given up on it, and wants it mounted anew
            found = go_on(fragile.disk, world)
        cut_power(fragile.disk)
        return found + check_folder(str(fragile.disk / "store"), world.notes)


@needs_images
@pytest.mark.parametrize("effect", [2, 3, 6, 9])
def test_what_memory_keeps_of_a_failed_sync_is_not_believed(tmp_path: Path, effect: int) -> None:
    assert failed_sync(tmp_path, effect) == []


@needs_images
def test_a_file_opened_again_after_a_failed_sync_is_read_from_the_disk(tmp_path: Path) -> None:
    fragile, disk = FragileDisk(tmp_path), PosixDisk()
    path = str(fragile.disk / "file")
    with fragile.mounted():
        handle = disk.create(path)
        disk.write(handle, b"acknowledged")
        disk.sync(handle)
        disk.sync_folder(str(fragile.disk))
        fragile.exhaust()
        disk.write(handle, b"x" * 20_000)
        with pytest.raises(OSError, match=r"No space left|Input/output"):
            disk.sync(handle)
        fragile.relieve()
        disk.sync(handle)  # it succeeds, and means nothing
        remembered = disk.read(path)
        disk.close(handle)
        handle = disk.open_append(path)
        disk.sync(handle)
        believed = disk.read(path)
        disk.close(handle)
        cut_power(fragile.disk)
        assert disk.read(path) == believed != remembered
        assert believed.startswith(b"acknowledged")


@needs_images
def test_a_power_cut_on_a_real_file_system_loses_nothing(clean: Clean, workshop: Workshop) -> None:
    image = workshop.folder / "image"
    make_image(image)
    with mounted("ext4", str(image), workshop.disk, "loop"):
        clean("ext4", workshop.sweep(some_power_cuts(20, SEED)))


@pytest.mark.torture
@needs_images
@pytest.mark.parametrize("options", ["loop", "loop,data=writeback,noauto_da_alloc"])
def test_a_power_cut_at_any_call_on_a_real_file_system_loses_nothing(
    clean: Clean, workshop: Workshop, options: str
) -> None:
    image = workshop.folder / "image"
    make_image(image)
    with mounted("ext4", str(image), workshop.disk, options):
        clean(f"ext4 {options}", workshop.sweep(some_power_cuts(0, SEED)))
