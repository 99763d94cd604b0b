"""Kept branches: named after what they are, found by forks, seen by those who clean and count."""

from __future__ import annotations

import pytest

from core.samples import said
from store.shelf import CREATOR, Shelf, fill
from store.test_forks import TALK
from treadle.errors import DamagedJournalError
from treadle.store.branch_archive import archive_branch, list_archived_branches
from treadle.store.record_adoption import (
    LockedThread,
    append_records,
    open_locked,
    replace_journal,
    split_journal_lines,
    split_writes,
)
from treadle.store.upkeep.disk_usage import measure_disk_usage
from treadle.store.upkeep.foreign_files import list_foreign_files
from treadle.store.upkeep.text_scan import TextScanner
from treadle.thread.facts import Annotated
from treadle.thread.record import scan_journal
from treadle.thread.scrub import RecordChange


def held(shelf: Shelf, thread: str) -> LockedThread:
    with open_locked(shelf.store, thread) as found:
        return found


def test_a_fork_of_a_branch_that_gave_way_is_read_and_gone_on_with(shelf: Shelf) -> None:
    thread = shelf.create(*TALK)
    short = b"".join(split_journal_lines(shelf.journal(thread).read_bytes())[:3])
    fork = shelf.store.fork(thread, creator=CREATOR)
    fill(fork, (said("on"),))
    fork.close()
    whole = held(shelf, thread)
    path = archive_branch(shelf.store.folders, thread, whole.head, whole.data)
    assert path == archive_branch(shelf.store.folders, thread, whole.head, whole.data)
    with open_locked(shelf.store, thread) as found:
        replace_journal(shelf.store, found, short)
    assert shelf.journal(thread).read_bytes() == short
    shelf.snapshot(fork.thread_id).unlink()
    texts = [message.content for message in shelf.store.load(fork.thread_id).fold.conversation]
    assert texts == ["one", "first", "two", "second", "on"]
    shelf.store.open(fork.thread_id).close()
    [branch] = list_archived_branches(shelf.store.folders, thread)
    assert (branch.path, branch.version, branch.hash) == (path, 5, whole.head.hash)
    assert list(list_foreign_files(shelf.store.folders)) == []
    shares = {share.name: share for share in measure_disk_usage(shelf.store, 3).shares}
    assert (shares["kept branches"].count, shares["kept branches"].size) == (1, len(whole.data))
    remains = TextScanner(shelf.store.folders, lambda text: text.replace("second", ""))
    assert path in remains.find_files()
    assert [where for where, _ in remains.redact_quarantine(thread, RecordChange(str))] == [path]


def test_a_fork_whose_base_nobody_kept_is_damaged(shelf: Shelf) -> None:
    thread = shelf.create(*TALK)
    whole = shelf.journal(thread).read_bytes()
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    with open_locked(shelf.store, thread) as found:
        replace_journal(shelf.store, found, b"".join(split_journal_lines(whole)[:3]))
    with pytest.raises(DamagedJournalError):
        shelf.store.open(fork.thread_id)


def test_what_follows_is_appended_write_by_write_or_at_once_when_it_is_much(shelf: Shelf) -> None:
    for count in (2, 40):
        thread = shelf.create(*TALK)
        before = shelf.journal(thread).read_bytes()
        batches = [(Annotated(f"{n}"), Annotated("with it")) for n in range(count)]
        writer = shelf.store.open(thread)
        fill(writer, *batches)
        writer.close()
        whole = shelf.journal(thread).read_bytes()
        assert b"".join(split_writes(whole)) == whole
        assert len(list(split_writes(whole))) == 5 + count
        shelf.journal(thread).write_bytes(before)
        shelf.disk.calls.clear()
        with open_locked(shelf.store, thread) as found:
            append_records(shelf.store, found, whole[len(before) :])
        assert shelf.journal(thread).read_bytes() == whole
        mark_and_settle = 2
        written = count if count == 2 else 1
        assert shelf.disk.calls.count("sync") == written + mark_and_settle
        assert shelf.store.adopted.is_foreign(thread)


def test_nothing_is_changed_by_what_does_not_follow(shelf: Shelf) -> None:
    thread, other = shelf.create(*TALK), shelf.create(*TALK)
    data = shelf.journal(thread).read_bytes()
    for bad in (b"x", data, split_journal_lines(shelf.journal(other).read_bytes())[-1]):
        with open_locked(shelf.store, thread) as found, pytest.raises(Exception, match="journal"):
            append_records(shelf.store, found, bad)
        assert shelf.journal(thread).read_bytes() == data
    with (
        open_locked(shelf.store, thread) as found,
        pytest.raises(Exception, match="another thread"),
    ):
        replace_journal(shelf.store, found, shelf.journal(other).read_bytes())
    assert scan_journal(shelf.journal(thread).read_bytes()).head.seq == 5
    assert not shelf.store.adopted.is_foreign(thread)
