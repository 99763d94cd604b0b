"""Large outputs are kept once, whole, and before anything names them."""

from __future__ import annotations

import errno
import os
import re
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.samples import ended, success
from lab.faulty_disk import Fault, FaultyDisk
from lab.model_disk import ModelDisk
from store.power import DATA, Bench, crashes
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.core.messages import BlobRef
from treadle.core.tools import ToolError, ToolErrorKind, ToolExecutionOutcome
from treadle.errors import DiskError, MissingBlobError
from treadle.store.blobs import Blobs
from treadle.store.folders import StoreFolders
from treadle.thread.codec import decode_entry, encode_entry

DATA_OF = [b"", b"x", bytes(range(256)) * 300]


def blob_path(shelf: Shelf, ref: BlobRef) -> Path:
    return shelf.places.data / "blobs" / ref.sha256


@pytest.mark.parametrize("data", DATA_OF)
def test_what_is_kept_is_read_again_whole(shelf: Shelf, data: bytes) -> None:
    writer = shelf.store.create(CREATOR)
    ref = writer.keep(data)
    assert ref == BlobRef(sha256(data).hexdigest(), len(data))
    assert shelf.store.read_blob(ref) == data
    assert blob_path(shelf, ref).stat().st_mode & 0o777 == 0o600
    assert blob_path(shelf, ref).parent.stat().st_mode & 0o777 == 0o700
    writer.close()


def test_the_same_bytes_are_kept_once_and_count_as_new(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    ref = writer.keep(b"again")
    path = blob_path(shelf, ref)
    inode = path.stat().st_ino
    os.utime(path, (1, 1))
    shelf.disk.calls.clear()
    assert writer.keep(b"again") == ref
    assert shelf.disk.calls == ["sync_folder"]
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1_000_000
    assert [one.name for one in path.parent.iterdir() if one.is_file()] == [ref.sha256]
    writer.close()


@pytest.mark.parametrize("damaged", [b"", b"agaim", b"again and more"])
def test_a_damaged_blob_is_told_and_mended_when_the_same_bytes_come_again(
    shelf: Shelf, damaged: bytes
) -> None:
    writer = shelf.store.create(CREATOR)
    ref = writer.keep(b"again")
    blob_path(shelf, ref).write_bytes(damaged)
    with pytest.raises(MissingBlobError, match="damaged"):
        shelf.store.read_blob(ref)
    assert writer.keep(b"again") == ref
    assert shelf.store.read_blob(ref) == b"again"
    writer.close()


def test_a_blob_that_is_gone_is_told_and_so_is_a_name_that_is_none(shelf: Shelf) -> None:
    for name in (sha256(b"never").hexdigest(), "../threads/x", "", "A" * 64):
        with pytest.raises(MissingBlobError):
            shelf.store.read_blob(BlobRef(name, 5))
        assert Blobs(shelf.store.folders).is_missing(BlobRef(name, 5))


def test_a_blob_is_on_disk_before_the_record_that_names_it() -> None:
    bench = Bench()
    writer = bench.store.create(CREATOR)
    fill(writer, *TURN[:2])
    data = b"a long output\n" * 40
    acknowledged: list[int] = []

    def act() -> None:
        ref = writer.keep(data)
        fill(writer, (ended("a", replace(success("a", "head and tail"), blob=ref)),))
        acknowledged.append(bench.disk.change_count)

    named = 0
    for where, left in crashes(bench, act):
        journal = left.disk.read(f"{DATA}/threads/{writer.thread_id}.jsonl")
        for name in re.findall(rb'"sha256":"([0-9a-f]{64})","size":(\d+)', journal):
            named += 1
            assert left.store.read_blob(BlobRef(name[0].decode(), int(name[1]))) == data, where
    assert acknowledged
    assert named > 3


def test_bytes_that_are_there_but_not_yet_safe_are_made_so_before_they_count() -> None:
    bench = Bench()
    writer = bench.store.create(CREATOR)
    data = b"by another process"
    killed: list[ModelDisk] = []
    bench.disk.on_change = lambda operation, path: killed.append(bench.disk.after_kill())
    writer.keep(data)
    assert len(killed) > 3
    for disk in killed:  # the process has died there; the next one keeps the same bytes
        left = Bench(disk, first_id=100)
        ref = left.store.create(CREATOR).keep(data)
        for state in left.disk.crash_states(100):
            assert Bench(state).store.read_blob(ref) == data


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_at_any_step_keeps_nothing_and_leaves_nothing_half(number: int) -> None:
    for step in range(1, 30):
        disk = ModelDisk()
        disk.make_folder(DATA)
        faulty = FaultyDisk(disk, Fault(step, number, lasting=True, part=0.5))
        blobs = Blobs(StoreFolders(faulty, Bench().store.places))
        try:
            ref = blobs.keep(b"data" * 100)
        except DiskError:
            faulty.lift()
            ref = blobs.keep(b"data" * 100)
            assert blobs.read(ref) == b"data" * 100
            continue
        assert faulty.failure_count == 0
        assert step > 3
        faulty.lift()
        assert blobs.read(ref) == b"data" * 100
        return
    pytest.fail("it never ended")


@given(st.text("0123456789abcdef", min_size=64, max_size=64), st.integers(0, 2**40))
def test_a_reference_is_recorded_and_read_and_older_records_have_none(sha: str, size: int) -> None:
    ref = BlobRef(sha, size)
    good = ended("a", replace(success("a", "text"), blob=ref))
    error = ToolError(ToolErrorKind.FAILED, "no")
    bad = ended("a", ToolExecutionOutcome.Error("a", error, ref))
    for entry in (good, bad):
        _, data = encode_entry(entry)
        assert decode_entry(data) == entry
        plain = replace(entry, outcome=replace(entry.outcome, blob=None))
        _, old = encode_entry(plain)
        assert b"blob" not in old
        assert decode_entry(old) == plain
