"""A disk in memory is a disk, and a store on it a store."""

from __future__ import annotations

import pytest

from core.samples import answer, said
from store.disk_suite import DiskSuite
from store.shelf import CREATOR, fill
from treadle.errors import ThreadBusyError
from treadle.store.disk import Disk
from treadle.store.local_store import LocalStore
from treadle.store.memory_disk import MemoryDisk


class TestMemoryDisk(DiskSuite):
    """The suite."""

    @pytest.fixture
    def disk(self) -> Disk:
        return MemoryDisk()

    @pytest.fixture
    def folder(self, disk: Disk) -> str:
        disk.make_folder("/a/folder")
        return "/a/folder"


def test_a_store_in_memory_is_a_store_of_its_own() -> None:
    store, other = LocalStore.in_memory(), LocalStore.in_memory()
    writer = store.create(CREATOR)
    fill(writer, (said("hello"),), (answer("yes"),))
    with pytest.raises(ThreadBusyError):
        store.open(writer.thread_id)
    writer.close()
    again = store.open(writer.thread_id)
    assert [one.content for one in again.fold.conversation] == ["hello", "yes"]
    again.close()
    fork = store.fork(writer.thread_id, creator=CREATOR)
    fork.close()
    assert sorted(store.ids()) == sorted([writer.thread_id, fork.thread_id])
    assert {line.id for line in store.list()} == set(store.ids())
    assert other.ids() == []
