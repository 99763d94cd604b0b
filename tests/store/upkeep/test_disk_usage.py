"""How much room everything takes, and each thread: every file is counted once."""

from __future__ import annotations

from collections.abc import Generator

from core.samples import said
from store.shelf import Shelf, fill
from store.upkeep.test_garbage import naming
from treadle.app.upkeep.disk_usage import measure_garbage
from treadle.store.disk import PosixDisk
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.disk_usage import measure_disk_usage, measure_thread_usage
from treadle.store.upkeep.garbage import GarbageCollector, GarbagePlan
from treadle.store.upkeep.text_scan import TextScanner
from treadle.store.upkeep.trash import Trash


def test_room_counts_every_file_once(shelf: Shelf) -> None:
    big, small = naming(shelf.store, b"x" * 5000), naming(shelf.store)
    trashed = naming(shelf.store, b"y")
    Trash(shelf.store).put([trashed])
    writer = shelf.store.open(big)
    fill(writer, (said("z" * 5000),))
    writer.close()
    torn = shelf.journal(small)
    torn.write_bytes(torn.read_bytes() + b"{")
    shelf.store.open(small).close()
    (shelf.places.data / "blobs" / "tmp" / "draft").write_bytes(b"1234")
    (shelf.places.data / "index.sqlite").write_bytes(b"12345")
    (shelf.places.data / "index.sqlite-wal").write_bytes(b"123")
    room = measure_disk_usage(shelf.store, 1)
    shares = {share.name: (share.count, share.size) for share in room.shares}
    assert shares["large outputs"] == (2, 5001)
    assert shares["search index"] == (2, 8)
    assert shares["drafts"] == (1, 4)
    assert shares["quarantine"] == (1, 1)
    assert shares["journals"][0] == shares["snapshots"][0] == shares["trash"][0] == 2
    files = [path for path in shelf.places.data.rglob("*") if path.is_file()]
    assert room.size == sum(path.stat().st_size for path in files if path.suffix != ".lock")
    assert [thread_id for thread_id, _ in room.biggest] == [big]
    one = measure_thread_usage(shelf.store, big)
    assert (one.blob_count, one.blob_size, one.is_in_trash) == (1, 5000, False)
    assert one.size == room.biggest[0][1] + 5000
    assert measure_thread_usage(shelf.store, trashed).is_in_trash


def test_room_of_nothing_is_nothing(shelf: Shelf) -> None:
    room = measure_disk_usage(shelf.store, 10)
    assert room.size == 0
    assert room.biggest == ()
    assert GarbageCollector(shelf.store).plan() == GarbagePlan()


class ReadDisk(PosixDisk):
    """The real disk, counting the bytes that are read."""

    size = 0

    def read_range(self, path: str, offset: int, size: int) -> bytes:
        data = super().read_range(path, offset, size)
        self.size += len(data)
        return data

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        for piece in super().pieces(path, offset):
            self.size += len(piece)
            yield piece


def test_what_is_large_and_need_not_be_read_is_not_read(shelf: Shelf) -> None:
    thread_id = naming(shelf.store, b"named")
    disk = ReadDisk()
    store = LocalStore(shelf.places, disk=disk)
    large = 3 * 2**30  # sparse: it takes no room, and a minute to read
    for path in (shelf.threads / f"{thread_id}.lock", shelf.places.data / "foreign"):
        with path.open("ab") as file:
            file.truncate(large)
    assert (
        TextScanner(store.folders, lambda text: text.replace("nowhere said", "x")).find_files()
        == []
    )
    assert disk.size < 2**20
    with (shelf.threads / "T-01900000-0000-7000-8000-0000000000ff.jsonl").open("wb") as file:
        file.truncate(large)
    disk.size = 0
    problems: list[str] = []
    assert measure_garbage(store, measure_disk_usage(store, 0), problems.append) is None
    assert ["treadle gc --dry-run" in problem for problem in problems] == [True]
    assert disk.size == 0
