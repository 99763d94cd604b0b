"""A local store for tests: a clock that is set by hand, ids that count, a disk that keeps count."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

from core.samples import CONFIG, answer, call, ended, said, success
from thread.journals import at
from treadle.core.events import ToolStarted
from treadle.store.disk import PosixDisk
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured, GitObserved

CREATOR = "treadle/0.1.0"

TURN: tuple[tuple[Entry, ...], ...] = (
    (Configured(CONFIG, "scripted"), GitObserved("main", "c0ffee"), said("mend it")),
    (answer("", call("a", "edit")), ToolStarted("a", at(2))),
    (ended("a", success("a", "mended", "file.txt")),),
)
"""A turn up to its hook, in three writes."""


class Clock:
    """Says what it was told, in the form of records; goes on by itself one tick at a time."""

    def __init__(self) -> None:
        self.tick = 0
        self.fixed = ""

    def __call__(self) -> str:
        self.tick += 1
        return self.fixed or at(self.tick)


class CountingDisk(PosixDisk):
    """The real disk, counting what it is asked to do and the bytes written."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.written: Counter[str] = Counter()
        self._names: dict[int, str] = {}

    def create(self, path: str) -> int:
        handle = super().create(path)
        self._names[handle] = path
        return handle

    def open_append(self, path: str) -> int:
        handle = super().open_append(path)
        self._names[handle] = path
        return handle

    def write(self, handle: int, data: bytes) -> None:
        self.calls.append("write")
        self.written["journal" if self._names[handle].endswith(".jsonl") else "other"] += len(data)
        super().write(handle, data)

    def sync(self, handle: int) -> None:
        self.calls.append("sync")
        super().sync(handle)

    def rename(self, source: str, target: str) -> None:
        self.calls.append("rename")
        super().rename(source, target)

    def sync_folder(self, path: str) -> None:
        self.calls.append("sync_folder")
        super().sync_folder(path)


class Shelf:
    """A store in a folder, and the files in it."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(folder / "data", folder / "state", folder / "config")
        self.threads = folder / "data" / "threads"
        self.quarantine = folder / "data" / "quarantine"
        self.clock = Clock()
        self.disk = CountingDisk()
        self._count = 0
        self.store = LocalStore(self.places, disk=self.disk, now=self.clock, new_id=self.next_id)

    def next_id(self) -> str:
        self._count += 1
        return f"T-01900000-0000-7000-8000-{self._count:012x}"

    def create(self, *batches: tuple[Entry, ...], is_private: bool = False) -> str:
        """A thread with these writes after its header, given back; its id."""
        writer = self.store.create(CREATOR, workspace="/w", cwd="/w/src", is_private=is_private)
        fill(writer, *batches)
        writer.close()
        return writer.thread_id

    def busy(self) -> str:
        """A thread in the middle of a turn, with a snapshot of all of it."""
        return self.create(*TURN)

    def journal(self, thread_id: str) -> Path:
        return self.threads / f"{thread_id}.jsonl"

    def snapshot(self, thread_id: str) -> Path:
        return self.threads / f"{thread_id}.json"

    def lock(self, thread_id: str) -> Path:
        return self.threads / f"{thread_id}.lock"

    def files(self) -> dict[str, str]:
        """Every file but locks, by its path under the data folder, with a digest."""
        root = self.places.data
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.suffix != ".lock"
        }


def fill(writer: ThreadWriter, *batches: tuple[Entry, ...]) -> None:
    """Stage and commit each batch."""
    for batch in batches:
        for entry in batch:
            writer.stage(entry)
        writer.commit()
