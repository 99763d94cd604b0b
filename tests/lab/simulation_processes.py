"""The processes of a simulation: each reaches the one disk through calls at which it may die."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

from lab.model_disk import ModelDisk
from lab.script import places
from treadle.store import file_replacement
from treadle.store.local_store import LocalStore
from treadle.store.thread_writer import ThreadWriter
from treadle.store.upkeep.trash import Trash


class Crash(BaseException):
    """A process is dead; nothing that it tries after this happens."""


class World(Protocol):
    """What is around a process."""

    random: Random
    disk: ModelDisk

    def now(self) -> str:
        """The clock."""
        ...

    def next_id(self) -> str:
        """A new id for a thread."""
        ...

    def before(self, operation: str, path: str) -> None:
        """Called before an operation; raises what happens instead of it."""
        ...


class ProcessDisk:
    """The disk as one process reaches it. Implements `Disk`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._handles: set[int] = set()
        self.is_dead = False

    def die(self) -> None:
        """The kernel takes back what the process had open."""
        self.is_dead = True
        for handle in self._handles:
            self._world.disk.close(handle)
        self._handles.clear()

    def _may(self, operation: str, path: str) -> None:
        if self.is_dead:
            raise Crash
        self._world.before(operation, path)

    def _opened(self, handle: int) -> int:
        self._handles.add(handle)
        return handle

    def create(self, path: str) -> int:
        self._may("create", path)
        return self._opened(self._world.disk.create(path))

    def open_append(self, path: str) -> int:
        self._may("open_append", path)
        return self._opened(self._world.disk.open_append(path))

    def write(self, handle: int, data: bytes) -> None:
        try:
            self._may("write", "")
        except (Crash, OSError):
            if not self.is_dead:
                part = data[: self._world.random.randrange(len(data) + 1)]
                self._world.disk.write(handle, part)
            raise
        self._world.disk.write(handle, data)

    def sync(self, handle: int) -> None:
        try:
            self._may("sync", "")
        except OSError:
            self._world.disk.fail_sync(handle)
            raise
        self._world.disk.sync(handle)

    def close(self, handle: int) -> None:
        if self.is_dead:
            raise Crash
        self._handles.discard(handle)
        self._world.disk.close(handle)

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        self._may("lock", path)
        handle = self._world.disk.lock(path, b"", is_shared=is_shared)
        return None if handle is None else self._opened(handle)

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        self._may("read", path)
        yield from self._world.disk.pieces(path, offset)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._world.disk, name)
        operation = {"make_folder": "mkdir", "read_range": "read", "stats": "list"}.get(name, name)

        def call(*arguments: Any) -> Any:
            self._may(operation, str(arguments[0]))
            return method(*arguments)

        return call


class Process:
    """A program that has threads open."""

    def __init__(self, world: World) -> None:
        self.disk = ProcessDisk(world)
        self.store = LocalStore(places(), disk=self.disk, now=world.now, new_id=world.next_id)
        self.trash = Trash(self.store)
        self.writers: dict[str, ThreadWriter] = {}


@contextmanager
def names_of_drafts(random: Random) -> Iterator[None]:
    """The names of drafts are thrown with the seed, too."""
    with patch.object(file_replacement, "secrets", _Dice(random)):
        yield


class _Dice:
    def __init__(self, random: Random) -> None:
        self._random = random

    def token_hex(self, size: int) -> str:
        return f"{self._random.getrandbits(8 * size):0{2 * size}x}"


@contextmanager
def silence() -> Iterator[None]:
    """Most events come at the wrong moment here; that is not worth a word."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
