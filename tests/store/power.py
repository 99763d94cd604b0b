"""A store on a disk of the weakest kind, and every state in which a crash can leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count

from lab.model_disk import ModelDisk
from lab.script import places
from store.shelf import Clock
from treadle.store.local_store import LocalStore

DATA = "/home/data"
STATE_COUNT_MAX = 40
"""States looked at after each step; the oldest, the newest and all near them are among them."""


class Bench:
    """A store on a model disk, or on what was left of one."""

    def __init__(self, disk: ModelDisk | None = None, first_id: int = 1) -> None:
        self.disk = disk or ModelDisk()
        if disk is None:
            self.disk.make_folder(DATA)
        self.clock = Clock()
        ids = count(first_id)
        self.store = LocalStore(
            places("/home"),
            disk=self.disk,
            now=self.clock,
            new_id=lambda: f"T-01900000-0000-7000-8000-{next(ids):012x}",
        )

    def set_files_to_now(self) -> None:
        """What is written or touched from here on is young."""
        self.disk.clock_ns = int(datetime.fromisoformat(self.clock()).timestamp() * 1e9)

    def names(self, folder: str) -> list[str]:
        """The files in a folder of the store, without locks."""
        return [name for name in self.disk.list(f"{DATA}/{folder}") if not name.endswith(".lock")]


def crashes(bench: Bench, act: Callable[[], object]) -> Iterator[tuple[str, Bench]]:
    """Each state after each step of `act`, with words: after a kill, and after a power cut."""
    found: list[tuple[str, ModelDisk]] = []

    def cut(operation: str, path: str) -> None:
        where = f"after {operation} of {path} ({len(found)})"
        found.append((f"killed {where}", bench.disk.after_kill()))
        found.extend(
            (f"power cut {where}", state) for state in bench.disk.crash_states(STATE_COUNT_MAX)
        )

    bench.disk.on_change = cut
    try:
        act()
    finally:
        bench.disk.on_change = None
    assert found, "nothing was changed"
    for where, disk in found:
        yield where, Bench(disk, first_id=1000)
