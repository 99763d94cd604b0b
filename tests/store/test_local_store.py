"""A thread is created, written, given back and opened again, and is each time what it was."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from core.samples import said
from store.shelf import CREATOR, TURN, Shelf, fill
from thread.journals import at
from treadle.core.chat.states import CallingLlm, PostToolsHook, WaitingForUserInput
from treadle.core.messages import Message
from treadle.errors import StaleWriterError, UnknownThreadError
from treadle.store.local_store import LocalStore, utc_now
from treadle.store.paths import Places
from treadle.thread.codec import decode_entry
from treadle.thread.facts import Configured, ThreadCreated
from treadle.thread.ids import is_thread_id
from treadle.thread.record import JournalCondition


def test_a_new_thread_is_on_disk_when_it_is_there(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR, workspace="/w", cwd="/w/src", is_private=True)
    [record] = shelf.store.scan(writer.thread_id).records
    assert decode_entry(record.event) == ThreadCreated(
        1, writer.thread_id, "chat", CREATOR, "/w", "/w/src", is_private=True
    )
    assert (record.seq, record.at) == (1, at(1))
    assert writer.head.size == shelf.journal(writer.thread_id).stat().st_size
    assert isinstance(writer.fold.state, WaitingForUserInput)
    assert writer.fold.version == 1
    assert shelf.disk.calls[-3:] == ["write", "sync", "sync_folder"]
    writer.close()


def test_nothing_of_a_batch_is_on_disk_before_its_commit_and_all_of_it_after(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    before = shelf.journal(writer.thread_id).read_bytes()
    for entry in TURN[0]:
        writer.stage(entry)
    assert writer.has_staged
    assert shelf.journal(writer.thread_id).read_bytes() == before
    writer.commit()
    assert not writer.has_staged
    assert len(shelf.store.scan(writer.thread_id).records) == 4
    writer.close()


def test_a_batch_costs_one_write_and_one_sync(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    for batch in TURN:
        shelf.disk.calls.clear()
        fill(writer, batch)
        assert shelf.disk.calls == ["write", "sync"]
    shelf.disk.calls.clear()
    writer.commit()
    assert shelf.disk.calls == []
    writer.close()


def test_a_snapshot_is_drafted_synced_renamed_and_its_name_synced(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    writer.write_snapshot()
    shelf.disk.calls.clear()
    fill(writer, TURN[0])
    shelf.disk.calls.clear()
    assert writer.close() is None
    calls = [call for call in shelf.disk.calls if call != "sync_folder"]
    assert calls == ["write", "sync", "rename"]
    assert shelf.disk.calls[-1] == "sync_folder"
    assert list((shelf.threads / "tmp").iterdir()) == []


def test_what_was_staged_is_folded_at_once_as_it_will_be_read(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    writer.stage(said("half a pair: \ud83d"))
    assert isinstance(writer.fold.state, CallingLlm)
    assert list(writer.fold.conversation) == [Message.user("half a pair: \ufffd")]
    writer.commit()
    live = writer.fold.document()
    writer.close()
    assert shelf.store.load(writer.thread_id).fold.document() == live


@pytest.mark.parametrize("count", range(len(TURN) + 1))
def test_a_thread_opened_again_is_where_it_was(shelf: Shelf, count: int) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, *TURN[:count])
    state, document, head = writer.fold.state, writer.fold.document(), writer.head
    writer.close()
    again = shelf.store.open(writer.thread_id)
    assert (again.fold.state, again.fold.document(), again.head) == (state, document, head)
    assert again.note == ""
    fill(again, *TURN[count:])
    assert isinstance(again.fold.state, PostToolsHook)
    again.close()
    assert shelf.store.scan(writer.thread_id).condition is JournalCondition.CLEAN


@pytest.mark.parametrize("count", range(len(TURN) + 1))
def test_a_thread_whose_process_died_without_a_snapshot_is_where_it_was(
    shelf: Shelf, count: int
) -> None:
    thread_id = shelf.create(*TURN[:count])
    whole = shelf.store.load(thread_id).fold.document()
    shelf.snapshot(thread_id).unlink()
    loaded = shelf.store.load(thread_id)
    assert loaded.fold.document() == whole
    assert loaded.snapshot_head.seq == 0


def test_a_thread_can_be_seen_as_it_stood_at_each_version(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    last = shelf.store.load(thread_id).fold.version
    assert last == 1 + sum(map(len, TURN))
    states = [type(shelf.store.load(thread_id, n).fold.state).__name__ for n in range(1, last + 1)]
    assert states == [
        "WaitingForUserInput",
        "WaitingForUserInput",
        "WaitingForUserInput",
        "CallingLlm",
        "ExecutingTools",
        "ExecutingTools",
        "PostToolsHook",
    ]
    for version in (0, -1, last + 1):
        with pytest.raises(UnknownThreadError, match=f"versions 1 to {last}, not {version}"):
            shelf.store.load(thread_id, version)


def test_opening_makes_durable_what_a_dead_process_may_have_left_in_memory(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    shelf.disk.calls.clear()
    shelf.store.open(thread_id).close()
    assert shelf.disk.calls == ["sync", "sync_folder"]


def test_loading_changes_nothing_and_needs_no_lock(shelf: Shelf) -> None:
    thread_id = shelf.create(TURN[0])
    writer = shelf.store.open(thread_id)
    before, calls = shelf.files(), list(shelf.disk.calls)
    assert shelf.store.load(thread_id).fold.version == 4
    shelf.store.list()
    shelf.store.scan(thread_id)
    shelf.store.resolve(thread_id)
    assert (shelf.files(), shelf.disk.calls) == (before, calls)
    writer.close()


def test_opening_what_is_not_there_makes_nothing(shelf: Shelf) -> None:
    shelf.busy()
    before = sorted(shelf.threads.iterdir())
    with pytest.raises(UnknownThreadError):
        shelf.store.open(shelf.next_id())
    with pytest.raises(UnknownThreadError):
        shelf.store.load(shelf.next_id())
    assert sorted(shelf.threads.iterdir()) == before


def test_a_store_that_was_never_used_is_empty_and_stays_unmade(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "none")
    assert (shelf.store.ids(), shelf.store.list()) == ([], [])
    assert not (tmp_path / "none").exists()


def test_a_closed_writer_writes_no_more(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    writer.close()
    assert not writer.is_usable
    writer.stage(said())
    with pytest.raises(StaleWriterError):
        writer.commit()
    assert writer.close() is None


def test_closing_a_thread_that_did_not_change_leaves_its_snapshot_alone(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    before = shelf.snapshot(thread_id).stat().st_ino
    shelf.store.open(thread_id).close()
    assert shelf.snapshot(thread_id).stat().st_ino == before


def test_what_was_staged_and_never_committed_is_in_no_file(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    writer.stage(said("never acknowledged"))
    writer.close()
    assert shelf.store.load(writer.thread_id).fold.version == 1
    assert not any(b"never" in path.read_bytes() for path in shelf.threads.glob("T-*"))


def test_secrets_are_out_of_journal_and_snapshot(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    writer.stage(said("the key is hunter2"), lambda text: text.replace("hunter2", "[REDACTED]"))
    writer.commit()
    writer.close()
    assert not any(b"hunter2" in path.read_bytes() for path in shelf.threads.glob("T-*"))
    assert shelf.store.load(writer.thread_id).fold.title() == "the key is [REDACTED]"


def test_everything_is_private_to_the_user(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    with shelf.journal(thread_id).open("ab") as file:
        file.write(b"torn")
    shelf.store.open(thread_id).close()
    for path in (shelf.places.data, *shelf.places.data.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_the_snapshot_is_json_for_people(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    told = json.loads(shelf.snapshot(thread_id).read_bytes())
    assert told["thread"]["id"] == thread_id
    assert told["thread"]["conversation"]["messages"][0]["content"] == "mend it"


def test_a_configuration_is_kept_with_the_thread(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    fold = shelf.store.load(thread_id).fold
    assert (Configured(fold.machine.config, fold.provider),) == TURN[0][:1]


def test_new_ids_are_thread_ids_and_the_clock_gives_six_digits_of_utc(tmp_path: Path) -> None:
    store = LocalStore(Places(tmp_path, tmp_path, tmp_path))
    before = utc_now()
    writers = [store.create(CREATOR) for _ in range(3)]
    after = utc_now()
    ids = [writer.thread_id for writer in writers]
    assert all(map(is_thread_id, ids))
    assert ids == sorted(set(ids))
    for writer in writers:
        assert before <= writer.head.at <= after
        assert len(writer.head.at) == len("2026-11-21T08:15:30.123456Z")
        writer.close()
