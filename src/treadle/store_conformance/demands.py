"""What all checks of a store are made of: what they demand, and records to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from treadle.store.id_beginnings import make_thread_id
from treadle.store.port import HeldJournal, Store
from treadle.thread.record import Head, encode_batch

OpenStore: TypeAlias = Callable[[], Store]
"""Opens the store that is tried: the same one each time."""

Check: TypeAlias = Callable[[OpenStore], None]
"""Tries one promise; raises `ConformanceError` if it is not kept."""

AT = "2026-01-01T00:00:00.000000Z"


class ConformanceError(AssertionError):
    """A store does not keep what it promises."""


def demand(is_kept: object, promise: str) -> None:
    """Raise `ConformanceError` unless a promise is kept."""
    if not is_kept:
        raise ConformanceError(promise)


def demand_equal(found: object, wanted: object, promise: str) -> None:
    """Raise `ConformanceError` unless both are equal; it says what was found."""
    demand(found == wanted, f"{promise}: found {found!r:.80}, not {wanted!r:.80}")


@contextmanager
def demand_raised(kind: type[Exception], promise: str) -> Iterator[None]:
    """Raise `ConformanceError` unless this is raised."""
    try:
        yield
    except kind:
        return
    raise ConformanceError(f"{promise}: {kind.__name__} should have been raised")


def demand_begun(held: HeldJournal | None) -> HeldJournal:
    """The journal that was begun; a `ConformanceError` if there is none."""
    if held is None:
        raise ConformanceError("begin gives a journal where nobody has its key")
    return held


def make_id() -> str:
    """An id for a new thread."""
    return make_thread_id()


class Chain:
    """Batches of records, each chained to those before it, as Treadle appends them."""

    def __init__(self) -> None:
        self.head = Head()

    def make_batch(self, *texts: str) -> bytes:
        """The lines of the next batch, a record for each text."""
        import msgspec

        events = [msgspec.json.encode({"type": "tried", "text": text}) for text in texts]
        data, self.head = encode_batch(self.head, AT, events)
        return data


def read_all(store: Store, thread_id: str, start: int = 0) -> bytes:
    """What a journal holds."""
    return b"".join(store.read(thread_id, start))


def begin(store: Store, data: bytes = b"{}\n", key: str = "") -> str:
    """A thread that is begun and given free again."""
    thread_id = make_id()
    demand_begun(store.begin(thread_id, data, key)).close()
    return thread_id
