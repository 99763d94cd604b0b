"""A data folder as any store has it: what its port calls durable, a power cut leaves."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from lab.faulty_disk import Fault, FaultyDisk
from lab.model_disk import ModelDisk
from lab.script import places
from store.power import Bench, crashes
from thread.journals import ID, OTHER_ID
from treadle.errors import DiskError, StaleWriterError, UnknownThreadError
from treadle.store.local_store import LocalStore

DATA = b'{"first":1}\n{"second":2}\n'


def read(store: LocalStore, thread_id: str = ID) -> bytes:
    return b"".join(store.read(thread_id))


def survivors(bench: Bench) -> Iterator[LocalStore]:
    """The store after a power cut now, in every state in which it may be left."""
    yield from (Bench(disk).store for disk in bench.disk.crash_states())


def test_what_has_returned_survives_a_power_cut() -> None:
    bench = Bench()
    held = bench.store.begin(ID, b"one\n", "a key")
    assert held is not None
    for store in survivors(bench):
        assert (read(store), store.find_key("a key")) == (b"one\n", ID)
    held.append(b"two\n", 4)
    assert {read(store) for store in survivors(bench)} == {b"one\ntwo\n"}
    held.append(b'{"torn', 8)
    held.cut(8)
    assert {read(store) for store in survivors(bench)} == {b"one\ntwo\n"}
    held.append(b"three\n", 8)
    assert {read(store) for store in survivors(bench)} == {b"one\ntwo\nthree\n"}


def test_who_holds_a_journal_builds_on_what_is_durable() -> None:
    bench = Bench()
    held = bench.store.begin(ID, b"one\n")
    assert held is not None
    handle = bench.disk.open_append(bench.store.folders.path(ID, ".jsonl"))
    bench.disk.write(handle, b"two\n")  # as a process that died before its sync
    assert {read(store) for store in survivors(bench)} > {b"one\ntwo\n"}
    after = Bench(bench.disk.after_kill())
    after.store.hold(ID)
    assert {read(store) for store in survivors(after)} == {b"one\ntwo\n"}


def test_a_begin_that_is_cut_leaves_a_whole_thread_with_its_key_or_no_key() -> None:
    bench = Bench()
    found = set()
    for where, after in crashes(bench, lambda: bench.store.begin(ID, DATA, "a key")):
        thread_id = after.store.find_key("a key")
        found.add(thread_id)
        if thread_id is None:
            held = after.store.begin(OTHER_ID, DATA, "a key")
            assert held is not None, where
            held.close()
            thread_id = after.store.find_key("a key")
            assert thread_id == OTHER_ID, where
        assert read(after.store, thread_id) == DATA, where
        after.store.hold(thread_id).close()
    assert found == {None, ID}


def test_a_begin_that_the_disk_refuses_leaves_nothing_and_holds_nothing() -> None:
    failed = 0
    for at in count(1):
        disk = FaultyDisk(ModelDisk(), Fault(at, errno.ENOSPC))
        store = LocalStore(places("/home"), disk=disk)
        disk.disk.make_folder("/home/data")
        try:
            store.begin(ID, DATA, "a key")
        except DiskError:
            failed += 1
        else:
            if at > len(disk.operations):
                break
            continue
        disk.lift()
        assert store.find_key("a key") is None, at
        if "sync" in disk.operations[at - 1]:
            continue  # whether it is there after that, nobody knows
        assert store.ids() == [], at
        held = store.begin(ID, DATA, "a key")
        assert held is not None, at
    assert failed == 12, "each that can fail"


def test_a_lock_that_was_removed_holds_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    held = store.begin(ID, b"one\n")
    assert held is not None
    Path(store.folders.path(ID, ".lock")).unlink()
    other = store.hold(ID)
    with pytest.raises(StaleWriterError, match="was removed"):
        held.append(b"two\n", 4)
    held.close()
    other.append(b"three\n", 4)
    other.close()
    assert read(store) == b"one\nthree\n"


def test_only_ids_of_threads_are_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    (tmp_path / "x.jsonl").write_text("secret")
    for name in ("../../x", "", ID + "x", "T-", f"../{ID}"):
        with pytest.raises(UnknownThreadError):
            read(store, name)
        with pytest.raises(UnknownThreadError):
            store.hold(name)
