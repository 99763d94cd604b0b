"""Many threads synced at once on a real ext4: its power is cut, its device refuses."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from lab.mounts import (
    NO_LOG_FLUSH,
    SHUTDOWN,
    FragileDisk,
    cut_power,
    make_image,
    mounted,
    why_no_images,
)
from runtime.desk import Model, Toolbox, calls, mutate, open_session
from treadle.errors import StoreError
from treadle.outputs import TurnOutcome
from treadle.platform import shared_sync
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

COUNT = 16
TURNS = 4
REFUSED_AT = 6
"""The sync of many, from 1, before which the device begins to refuse."""

needs_images = pytest.mark.skipif(bool(why_no_images()), reason=why_no_images() or "-")


class Acks:
    """How far each thread was acknowledged, and what was synced."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.sync_count = 0
        self.refused_count = 0


async def work(folder: Path, acks: Acks) -> None:
    """Turns of many threads at once, until all are done or the disk refuses."""
    store = LocalStore(Places(folder, folder, folder))
    replies = [reply for turn in range(TURNS) for reply in (calls("work"), f"done {turn}")]
    sessions = [
        open_session(store.create("lab"), Model(*replies), Toolbox(work=mutate()))
        for _ in range(COUNT)
    ]
    for session in sessions:
        acks.versions[session.thread_id] = 1

    async def use(number: int) -> None:
        session = sessions[number]
        ended = await session.turn("go " + "on " * 200)
        assert ended.outcome is TurnOutcome.DONE
        acks.versions[session.thread_id] = session.version

    for _ in range(TURNS):
        ended = await asyncio.gather(*(use(n) for n in range(COUNT)), return_exceptions=True)
        acks.refused_count += sum(isinstance(one, (StoreError, OSError)) for one in ended)
        if acks.refused_count:
            break
    for session in sessions:
        with suppress(StoreError, OSError):
            await session.close()


def find_losses(folder: Path, acks: Acks) -> list[str]:
    """What was acknowledged and is not there."""
    store = LocalStore(Places(folder, folder, folder))
    lost = []
    for thread_id, version in acks.versions.items():
        found = store.scan(thread_id)
        if len(found.records) < version:
            lost.append(f"{thread_id} has {len(found.records)} of {version} records")
    return lost


def cut_while_working(tmp_path: Path, cut_at: int, *, syncs: bool = True) -> tuple[Acks, list[str]]:
    """The power goes as soon as the `cut_at`th sync of many has ended."""
    image, folder, acks = tmp_path / "image", tmp_path / "disk", Acks()
    make_image(image)
    real = shared_sync._sync_file_system

    def sync_then_cut(handle: int) -> None:
        if syncs:
            real(handle)
        acks.sync_count += 1
        if acks.sync_count == cut_at:
            fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))

    with mounted("ext4", str(image), folder, "loop"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_sync, "_sync_file_system", sync_then_cut)
        asyncio.run(work(folder / "store", acks))
        gc.collect()  # the store had the disk's folder open
        cut_power(folder)
        return acks, find_losses(folder / "store", acks)


@needs_images
def test_what_was_acknowledged_survives_a_power_cut(tmp_path: Path) -> None:
    for cut_at in (1, 4, 9):
        place = tmp_path / str(cut_at)
        place.mkdir()
        acks, lost = cut_while_working(place, cut_at)
        assert lost == []
        assert acks.sync_count >= cut_at, "the power was never cut"
        assert acks.refused_count


@needs_images
def test_a_sync_that_does_nothing_is_seen(tmp_path: Path) -> None:
    _, lost = cut_while_working(tmp_path, 9, syncs=False)
    assert lost


@needs_images
def test_a_device_that_refuses_is_told_to_all_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    fragile, acks = FragileDisk(tmp_path), Acks()
    failed: list[int | None] = []
    real = shared_sync._sync_file_system

    def exhaust_then_sync(handle: int) -> None:
        acks.sync_count += 1
        if acks.sync_count == REFUSED_AT:
            fragile.exhaust()
            # That has saved all before: without more a sync of one file would hear of it first.
            (fragile.disk / "more").write_bytes(bytes(64 * 4096))
        try:
            real(handle)
        except OSError as error:
            failed.append(error.errno)
            raise

    with fragile.mounted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_sync, "_sync_file_system", exhaust_then_sync)
        patch.setattr(shared_sync, "RESTS_MAX", 0)  # as on an idle machine
        asyncio.run(work(fragile.disk / "store", acks))
        gc.collect()
        assert acks.refused_count
        assert failed, "the kernel has not told of it in a sync of many"
        fragile.relieve()
        cut_power(fragile.disk)
        assert find_losses(fragile.disk / "store", acks) == []
