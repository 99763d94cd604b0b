"""Attachments: recorded beside their bytes, kept as long as a thread names them, lost by nobody."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from core.samples import CONFIG, answer, call, ended, success
from media_samples import PDF, attachment, png
from store.shelf import CREATOR, Shelf, fill
from store.upkeep.test_garbage import age
from thread.journals import at, branch_record
from treadle.core.compaction import find_mask_end
from treadle.core.conversation import Conversation, Masking
from treadle.core.events import Steered, ToolStarted, UserInput
from treadle.core.messages import Attachment, Message
from treadle.core.task.events import TaskGiven
from treadle.store.replay import verify_thread
from treadle.store.upkeep.garbage import GarbageCollector
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.trash import Trash
from treadle.sync.thread_comparison import _PRIVACY_WORDS
from treadle.thread.branches import collect_merged_branch, collect_record_ids, flatten_records
from treadle.thread.codec import Entry, decode_entry, encode_entry
from treadle.thread.facts import Configured, InputQueued, Merged
from treadle.thread.fold import TASK
from treadle.thread.output_references import list_output_references
from treadle.thread.record import Record
from treadle.thread.search_texts import list_texts
from treadle.thread.snapshot import decode_snapshot

SHOT = attachment(png())
PAPER = attachment(PDF, "paper.pdf")


def talk(shelf: Shelf, *batches: tuple[Entry, ...]) -> str:
    """A conversation in which a person has shown a picture, and a tool a document."""
    writer = shelf.store.create(CREATOR)
    assert (writer.keep(png()), writer.keep(PDF)) == (SHOT.blob, PAPER.blob)
    fill(
        writer,
        (Configured(CONFIG, "scripted"), UserInput(Message.user("see", (SHOT,)))),
        (answer("", call("a")), ToolStarted("a", at(2))),
        (ended("a", replace(success("a"), attachments=(PAPER,))),),
        (answer("I see."),),
        *batches,
    )
    writer.close()
    return writer.thread_id


def places(shelf: Shelf) -> tuple[Path, Path, Path]:
    return shelf.places.data, shelf.places.state, shelf.places.config


def shown(messages: Conversation) -> list[tuple[Attachment, ...]]:
    return [one.attachments for one in messages]


def test_they_come_back_from_journal_and_snapshot_and_in_a_fork(shelf: Shelf) -> None:
    thread = talk(shelf)
    expected = [(SHOT,), (), (PAPER,), ()]
    loaded = shelf.store.load(thread).fold
    assert shown(loaded.conversation) == expected
    snapshot = shelf.snapshot(thread)
    found = decode_snapshot(snapshot.read_bytes())
    assert found is not None
    assert found.format == 2, "a program that knows of none must not go on from it"
    snapshot.unlink()
    again = shelf.store.load(thread).fold
    assert again.document() == loaded.document()
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    assert shown(shelf.store.load(fork.thread_id).fold.conversation) == expected


def test_an_entry_that_carries_some_has_a_type_that_older_programs_do_not_know() -> None:
    carriers: tuple[Entry, ...] = (
        UserInput(Message.user("see", (SHOT,))),
        Steered(Message.user("see", (SHOT,))),
        InputQueued(Message.user("see", (SHOT,))),
        ended("a", replace(success("a"), attachments=(SHOT,))),
        TaskGiven("see", attachments=(SHOT,)),
    )
    for entry in carriers:
        fed, data = encode_entry(entry, lambda text: text.replace("shot", "[REDACTED]"))
        assert json.loads(data)["type"].endswith("+attachments"), entry
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(data, type=Entry)
        assert decode_entry(data) == fed != entry, "names are texts like all others"
        assert (9, "PLACE") in {(9, kind.name) for kind, _ in list_texts(data)}
    words = UserInput(Message.user('"attachments":[{"kind":"image"'))
    assert b"+attachments" not in encode_entry(words)[1]


def test_their_bytes_go_when_nobody_names_them_and_no_sooner(shelf: Shelf) -> None:
    thread = talk(shelf)
    refs = {ref for _, ref in list_output_references(shelf.store.scan(thread).records)}
    assert refs == {SHOT.blob, PAPER.blob}
    report = verify_thread(shelf.store, thread)
    assert report.is_good, report
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    age(shelf)
    assert GarbageCollector(shelf.store).plan().blobs == ()
    Trash(shelf.store).put([fork.thread_id, thread])
    age(shelf)
    collector = GarbageCollector(shelf.store)
    assert len(collector.plan().blobs) == 2


def test_a_process_killed_between_bytes_and_record_leaves_bytes_that_gc_removes(
    shelf: Shelf,
) -> None:
    writer = shelf.store.create(CREATOR)
    writer.close()
    program = (
        "import os; from pathlib import Path\n"
        "from treadle.store.local_store import LocalStore\n"
        "from treadle.store.paths import Places\n"
        f"store = LocalStore(Places(*map(Path, {[*map(str, places(shelf))]})))\n"
        f"store.open({writer.thread_id!r}).keep({png()!r})\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert verify_thread(shelf.store, writer.thread_id).is_good
    assert GarbageCollector(shelf.store).plan().blobs == (), "it may be about to be named"
    age(shelf)
    assert [one.size for one in GarbageCollector(shelf.store).plan().blobs] == [SHOT.blob.size]


def test_a_document_that_is_scrubbed_gets_another_name_where_it_is_named(shelf: Shelf) -> None:
    thread = talk(shelf)
    scrub(shelf.store, [thread], lambda text: text.replace("Catalog", "Scrubbed"))
    (paper,) = shown(shelf.store.load(thread).fold.conversation)[2]
    assert paper.blob.sha256 != PAPER.blob.sha256
    data = shelf.store.read_blob(paper.blob)
    assert (data, paper.blob.size) == (PDF.replace(b"Catalog", b"Scrubbed"), len(data))
    assert shown(shelf.store.load(thread).fold.conversation)[0] == (SHOT,)


def test_a_task_shows_what_it_was_given(shelf: Shelf) -> None:
    writer = shelf.store.create(
        CREATOR, machine=TASK, first=[TaskGiven("see", attachments=(SHOT,))]
    )
    writer.close()
    assert shown(shelf.store.load(writer.thread_id).fold.conversation) == [(SHOT,)]


def test_old_ones_make_room_before_words_do() -> None:
    look = call("a")
    seen = Conversation(
        [
            Message.user("look at these", (SHOT, PAPER)),
            Message.assistant("", (look,)),
            Message.tool(look, "fine", (PAPER,)),
            Message.assistant("I see."),
            Message.user("and?"),
        ]
    )
    assert find_mask_end(seen) == 3
    said, _, result, *_ = seen.mask(Masking(3, 100)).in_view
    assert said.content == (
        "look at these\n[Not shown, left out to make room: shot.png, image/png, 3x2, "
        f"{SHOT.blob.size} bytes; paper.pdf, application/pdf, {PAPER.blob.size} bytes]"
    )
    assert result.content.startswith("fine\n[Not shown, left out to make room: paper.pdf")
    assert (said.attachments, result.attachments) == ((), ())
    assert shown(seen) == [(SHOT, PAPER), (), (PAPER,), (), ()]


def test_a_merge_that_brings_some_is_a_merge_to_whoever_reads_json_alone() -> None:
    shown = UserInput(Message.user("see", (SHOT,)))
    inner = branch_record(4, shown)
    merge = Merged(3, "0" * 32, (inner,), (shown.message,), host="loom")
    event = encode_entry(merge)[1]
    assert json.loads(event)["type"] == "merged+attachments"
    record = Record(5, at(5), msgspec.Raw(event), "f" * 32)
    assert [*flatten_records([record])] == [inner]
    assert collect_record_ids([record]) == {"f" * 32, inner.hash}
    assert {ref for _, ref in list_output_references([record])} == {SHOT.blob}
    known = [Record(seq, at(seq), msgspec.Raw(b"{}"), "0" * 32) for seq in (1, 2, 3)]
    assert collect_merged_branch([*known, record], 4, inner.hash) is not None
    assert any(word in event for word in _PRIVACY_WORDS), "it may have become private there"
