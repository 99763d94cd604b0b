"""What a released format wrote is read for ever; the files were made once and are never remade."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from case_tables import for_every_row
from core.samples import said
from store.shelf import Shelf, fill
from thread.journals import ENTRY_KINDS
from treadle.core.approval import Approved
from treadle.core.events import ApprovalDecided, CancelRequested
from treadle.core.task.events import TaskResumed
from treadle.core.task.machine import TaskState
from treadle.errors import DamagedJournalError, ReadOnlyThreadError
from treadle.store.replay import verify_thread
from treadle.thread.chat_state import KIND_OF_STATE
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import FORMAT_VERSION, ThreadCreated
from treadle.thread.fold import CHAT, TASK, ThreadFold
from treadle.thread.record import Head, JournalCondition, Record, encode_batch, scan_journal
from treadle.thread.snapshot import decode_snapshot, restore_fold

FORMAT_1 = Path(__file__).parent.parent / "golden" / "format-1"
EXPECTED: dict[str, Any] = json.loads((FORMAT_1 / "expected.json").read_bytes())


def journal(thread_id: str) -> bytes:
    return (FORMAT_1 / f"{thread_id}.jsonl").read_bytes()


def kind_of_state(fold: ThreadFold) -> str:
    if isinstance(fold.state, TaskState):
        return fold.state_kind
    return KIND_OF_STATE[type(fold.state)]


def more_for(fold: ThreadFold) -> tuple[Entry, ...]:
    """What can be said in any state of a conversation, or of a task, and what it waits for."""
    if fold.header.machine != TASK:
        return CancelRequested(), said("go on")
    answers = (ApprovalDecided(one.call.id, Approved()) for one in fold.machine.questions)
    return TaskResumed("2027-01-01T00:00:00.000000Z"), *answers


@pytest.fixture
def old_shelf(shelf: Shelf) -> Shelf:
    """A store that holds copies of the golden threads."""
    shelf.threads.mkdir(parents=True)
    for path in FORMAT_1.glob("T-*"):
        shutil.copy(path, shelf.threads)
    shutil.copytree(FORMAT_1 / "blobs", shelf.places.data / "blobs")
    shelf.clock.fixed = "2027-01-01T00:00:00.000000Z"
    return shelf


NOT_RELEASED: Final = frozenset(
    {
        *("results_masked", "background_ended", "task_informed", "server_asked", "server_answered"),
        "request_taken",
    }
)
"""Types of records whose form may still change; at a release a golden thread holds each of them."""

HOW_TO_ADD: Final = """\
One more thread at the end of THREADS in tests/store/make_golden.py holds them; run that file, and
take over only the new thread, its snapshot and its entry in expected.json into tests/golden. Until
the release that writes them first, their types stand in NOT_RELEASED of this file."""


def test_the_golden_threads_hold_every_event_every_fact_and_every_state_of_their_format() -> None:
    held = {
        json.loads(line)["event"]["type"]
        for thread_id in EXPECTED
        for line in journal(thread_id).splitlines()
    }
    known = {str(kind.__struct_config__.tag) for kind in ENTRY_KINDS}
    missing = sorted(known - held - NOT_RELEASED)
    assert missing == [], f"no golden thread holds {missing}. {HOW_TO_ADD}"
    assert sorted(held - known) == [], "these are on people's disks: no type of a record ever goes"
    assert sorted(NOT_RELEASED & held) == [], "golden, so released: take them out of NOT_RELEASED"
    assert {told["state"] for told in EXPECTED.values()} == {
        *("waiting_for_user_input", "calling_llm", "executing_tools", "post_tools_hook", "error"),
        *("waiting_for_approval", "compacting", "waiting_for_human", "parked"),
    }


@pytest.mark.parametrize("thread_id", EXPECTED)
@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_golden_thread_folds_to_what_it_folded_to_then(
    old_shelf: Shelf, thread_id: str, with_snapshot: bool
) -> None:
    if not with_snapshot:
        old_shelf.snapshot(thread_id).unlink()
    loaded = old_shelf.store.load(thread_id)
    told = EXPECTED[thread_id]
    assert (loaded.condition, loaded.problem) == (JournalCondition.CLEAN, "")
    is_complete = "turn_usage" in json.loads((FORMAT_1 / f"{thread_id}.json").read_bytes())
    is_usable = is_complete or told["state"] == "waiting_for_user_input"
    assert (loaded.snapshot_head.seq > 0) == (with_snapshot and is_usable)
    assert loaded.head.hash == told["hash"]
    assert kind_of_state(loaded.fold) == told["state"]
    document = json.loads(msgspec.json.encode(loaded.fold.document()))
    assert document == told["document"]


@pytest.mark.parametrize("thread_id", EXPECTED)
def test_a_golden_thread_is_verified(old_shelf: Shelf, thread_id: str) -> None:
    report = verify_thread(old_shelf.store, thread_id)
    assert (report.condition, report.is_good) == ("clean", True), report.text


@for_every_row("thread_id", EXPECTED)
def test_a_golden_snapshot_is_read(thread_id: str) -> None:
    snapshot = decode_snapshot((FORMAT_1 / f"{thread_id}.json").read_bytes())
    assert snapshot is not None
    fold = restore_fold(snapshot)
    assert fold is not None
    assert fold.document() == snapshot.thread


@pytest.mark.parametrize("thread_id", EXPECTED)
def test_a_golden_thread_can_be_gone_on_with(old_shelf: Shelf, thread_id: str) -> None:
    before = journal(thread_id)
    writer = old_shelf.store.open(thread_id)
    old_state = writer.fold.state
    fill(writer, more_for(writer.fold))
    assert writer.fold.state != old_state
    document = writer.fold.document()
    writer.close()
    after = old_shelf.journal(thread_id).read_bytes()
    assert after.startswith(before)
    assert scan_journal(after).condition is JournalCondition.CLEAN
    old_shelf.snapshot(thread_id).unlink()
    assert old_shelf.store.load(thread_id).fold.document() == document


@for_every_row("thread_id", EXPECTED)
def test_the_same_entries_written_today_are_the_same_bytes(thread_id: str) -> None:
    """If this fails, the format has changed: undo that, or make it a new format version."""
    batches: list[list[Record]] = []
    records = scan_journal(journal(thread_id)).records
    for line, record in zip(journal(thread_id).splitlines(), records, strict=True):
        if "batch" in json.loads(line):
            batches[-1].append(record)
        else:
            batches.append([record])
    data, head = b"", Head()
    for batch in batches:
        events = [encode_entry(decode_entry(record.event))[1] for record in batch]
        lines, head = encode_batch(head, batch[0].at, events)
        data += lines
    assert data == journal(thread_id)


def test_a_golden_fork_has_the_history_of_its_base_by_reference(old_shelf: Shelf) -> None:
    [(fork_id, told)] = [one for one in EXPECTED.items() if one[1]["document"].get("forked_from")]
    base = told["document"]["forked_from"]
    fork = old_shelf.store.load(fork_id).fold
    before = old_shelf.store.load(base["thread"], base["version"]).fold
    assert scan_journal(journal(base["thread"])).records[base["version"] - 1].hash == base["hash"]
    assert list(fork.conversation[: len(before.conversation)]) == list(before.conversation)
    assert len(fork.conversation) == len(before.conversation) + 1
    assert fork.conversation.compaction is not None


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_fork_of_a_golden_thread_that_is_not_what_it_was_is_told(
    old_shelf: Shelf, with_snapshot: bool
) -> None:
    [(fork_id, told)] = [one for one in EXPECTED.items() if one[1]["document"].get("forked_from")]
    old_shelf.journal(told["document"]["forked_from"]["thread"]).unlink()
    if not with_snapshot:
        old_shelf.snapshot(fork_id).unlink()
        with pytest.raises(DamagedJournalError, match=r"forked from is gone|which is not there"):
            old_shelf.store.load(fork_id)
    else:
        assert old_shelf.store.load(fork_id).problem == ""


NEWER: Final = {
    "a newer format": b'{"type":"thread_created","format":2,"thread":"%b","machine":"chat",'
    b'"creator":"treadle/9.0.0"}',
    "a machine of the future": b'{"type":"thread_created","format":1,"thread":"%b",'
    b'"machine":"loom","creator":"treadle/9.0.0"}',
    "an event of the future": b'{"type":"woven","thread":"%b"}',
}


@pytest.mark.parametrize("newer", NEWER)
def test_what_a_newer_version_wrote_is_refused_without_any_write(
    old_shelf: Shelf, newer: str
) -> None:
    thread_id = "T-01900000-0000-7000-8000-0000000000ff"
    header = encode_entry(ThreadCreated(FORMAT_VERSION, thread_id, CHAT, "treadle/9.0.0"))[1]
    first = NEWER[newer].replace(b"%b", thread_id.encode())
    events = [header, first] if "event" in newer else [first]
    data, _ = encode_batch(Head(), "2030-01-01T00:00:00.000000Z", events)
    old_shelf.journal(thread_id).write_bytes(data)
    before = old_shelf.files()
    with pytest.raises((ReadOnlyThreadError, UnknownEntryError)) as caught:
        old_shelf.store.open(thread_id)
    assert "\n" not in caught.value.message
    assert old_shelf.files() == before
    assert {line.id for line in old_shelf.store.list()} == {thread_id, *EXPECTED}
    assert old_shelf.files() == before


@pytest.mark.parametrize("thread_id", EXPECTED)
def test_a_golden_thread_that_is_opened_for_nothing_is_not_rewritten(
    old_shelf: Shelf, thread_id: str
) -> None:
    """No upgrade: the bytes of the journal stay, whatever the snapshot becomes."""
    old_shelf.store.open(thread_id).close()
    assert old_shelf.journal(thread_id).read_bytes() == journal(thread_id)
