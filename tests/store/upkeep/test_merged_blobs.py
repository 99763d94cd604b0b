"""A blob that only a merged record names is needed like any other."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from core.samples import ended, success
from store.shelf import CREATOR, Shelf, fill
from thread.journals import branch_record
from treadle.store.blobs import Blobs
from treadle.store.upkeep.garbage import GarbageCollector, GarbageOptions
from treadle.store.upkeep.trash import TrashedThread
from treadle.thread.facts import Merged

OUTPUT = b"a line of many\n" * 99


def gone(_: TrashedThread) -> str:
    """Nothing else is kept for it."""
    return ""


def test_what_only_a_merged_record_names_is_kept(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR, workspace="/w")
    merged, unnamed = writer.keep(OUTPUT), writer.keep(OUTPUT + b"more")
    record = branch_record(2, ended("a", replace(success("a", "cut"), blob=merged)))
    fill(writer, (Merged(1, "0" * 32, (record,)),))
    writer.close()
    for path in shelf.places.data.rglob("*"):
        os.utime(path, (1, 1))
    garbage = GarbageCollector(shelf.store)
    removed = garbage.remove(garbage.plan(GarbageOptions()), GarbageOptions(), gone)
    assert [Path(one.path).name for one in removed.blobs] == [unnamed.sha256]
    assert Blobs(shelf.store.folders).read(merged) == OUTPUT
