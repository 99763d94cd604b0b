"""Scrubbing: a text leaves every file there is, and nothing else does."""

from __future__ import annotations

import base64
import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from core.samples import answer, call, ended, success
from lab.faulty_disk import Fault, FaultyDisk
from lab.model_disk import ModelDisk
from lab.script import lab_store
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.core.events import ToolCompleted, ToolStarted
from treadle.core.messages import BlobRef
from treadle.errors import StoreError, ThreadBusyError, UsageError
from treadle.secrets.redaction import Redactor
from treadle.store.blobs import Blobs
from treadle.store.branch_archive import archive_branch
from treadle.store.file_replacement import replace_file
from treadle.store.local_store import LocalStore
from treadle.store.record_adoption import open_locked, replace_journal, split_journal_lines
from treadle.store.thread_lock import Holder
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.text_scan import TextScanner
from treadle.store.upkeep.trash import Trash
from treadle.thread.codec import Entry, decode_entry
from treadle.thread.facts import Annotated, ChildStarted, ExtraSet, Scrubbed
from treadle.thread.record import JournalCondition

SECRET = 'hunter2/"swörd\\fish'
LABEL = "[REDACTED:password]"
redact = Redactor({"password": SECRET}, length_min=4).redact

FORMS = [
    SECRET,
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    json.dumps(json.dumps(SECRET))[1:-1],
    SECRET.encode().hex(),
    quote(SECRET, safe=""),
    base64.b64encode(SECRET.encode()).decode(),
    base64.b64encode(b"x" + SECRET.encode()).decode(),
    base64.b64encode(b"xx" + SECRET.encode()).decode(),
]
"""As a text may hold it."""


def leaky(text: str) -> tuple[tuple[Entry, ...], ...]:
    """A turn that holds the text in a prompt, an argument and an output, and ends."""
    return (
        *TURN[:1],
        (
            answer(f"I use {text}", call("a", "edit", json.dumps({"key": text}))),
            ToolStarted("a", ""),
        ),
        (ended("a", success("a", f"it said {text}", "file.txt")),),
    )


def traces(folder: Path) -> list[str]:
    """Every file below the folder that holds the secret in any form."""
    inner = [form[2:-4] for form in FORMS[-3:]]
    needles = [
        text.encode()
        for form in (*FORMS, *inner)
        for text in (form, json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1])
    ]
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_text_leaves_every_file_of_the_thread(shelf: Shelf, form: str) -> None:
    thread = shelf.create(*leaky(form), (ExtraSet({form: [form]}), Annotated(form)))
    assert traces(shelf.places.data)
    outcome = scrub(shelf.store, [thread], redact)
    assert traces(shelf.places.data) == []
    assert [(done.thread, done.count) for done in outcome.threads] == [(thread, 4)]
    assert TextScanner(shelf.store.folders, redact).find_files() == []


# ---- what becomes of a thread --------------------------------------------------------------------


def test_order_times_batches_and_all_that_does_not_hold_the_text_stay(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    before = shelf.journal(thread).read_bytes().splitlines()
    head = shelf.store.load(thread).head
    scrub(shelf.store, [thread], redact)
    found = shelf.store.scan(thread)
    assert found.condition is JournalCondition.CLEAN
    after = shelf.journal(thread).read_bytes().splitlines()
    assert len(after) == len(before) + 1
    for old, new in zip(before, after[:-1], strict=True):
        told, kept = json.loads(old), json.loads(new)
        name = told.pop("hash")
        assert kept.pop("hash") == name or kept.pop("id") == name
        assert json.loads(redact(json.dumps(told, ensure_ascii=False))) == kept
    assert after[: len(before) - 2][:3] == before[:3]
    last = decode_entry(found.records[-1].event)
    assert last == Scrubbed(2, head.hash, keeps_ids=True)
    writer = shelf.store.open(thread)
    assert LABEL in list(writer.fold.conversation)[-1].content
    writer.close()


def test_a_second_scrub_changes_nothing(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    scrub(shelf.store, [thread], redact)
    before = shelf.files()
    assert scrub(shelf.store, [thread], redact).threads == ()
    assert shelf.files() == before


def test_a_rehearsal_says_what_would_be_done_and_writes_nothing(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    before = shelf.files()
    said_before = scrub(shelf.store, [thread], redact, is_rehearsal=True)
    assert shelf.files() == before
    assert said_before.threads == scrub(shelf.store, [thread], redact).threads
    assert [(done.thread, done.count) for done in said_before.threads] == [(thread, 2)]


FORMAT = (
    *("user", "type", "thread_created", "tool", "assistant", "edit", "2026-", "0190", "hash"),
    *("content", "fine", '"role":"user"', "risk", "c0ff", "scripted", "mend it", "/w/src"),
)
"""Pieces of a thread; those of `FREE` are somebody's own words."""

FREE = {"fine", "c0ff", "scripted", "mend it", "/w/src"}


@pytest.mark.parametrize("text", FORMAT)
def test_a_text_that_is_part_of_the_format_is_refused_and_nothing_is_changed(
    shelf: Shelf, text: str
) -> None:
    thread = shelf.create(*TURN, (Annotated("fine"),))
    assert text in shelf.journal(thread).read_text()
    before = shelf.files()
    short = Redactor({"x": text}, length_min=4).redact
    if text in FREE:
        assert scrub(shelf.store, [thread], short).threads
        assert text not in shelf.journal(thread).read_text()
        return
    with pytest.raises(UsageError) as caught:
        scrub(shelf.store, [thread], short)
    assert "nothing was changed" in (caught.value.hint or "")
    assert shelf.files() == before


def test_a_thread_that_is_open_elsewhere_is_left_alone(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    fork = shelf.store.fork(thread, creator=CREATOR)
    before = shelf.files()
    with pytest.raises(ThreadBusyError):
        scrub(shelf.store, [thread], redact)
    fork.close()
    writer = shelf.store.open(thread)
    with pytest.raises(ThreadBusyError):
        scrub(shelf.store, [thread], redact)
    writer.close()
    assert {name: shelf.files()[name] for name in before} == before
    assert scrub(shelf.store, [thread], redact).threads


def test_a_thread_in_the_trash_a_torn_end_drafts_and_quarantine_are_cleaned(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    journal = shelf.journal(thread)
    journal.write_bytes(journal.read_bytes() + b'{"seq":9,"at":"' + SECRET.encode())
    shelf.quarantine.mkdir()
    (shelf.quarantine / f"{thread}.jsonl.7.abc").write_text(f"x{SECRET}y")
    (shelf.threads / "tmp" / f"{thread}.0011").write_text(SECRET)
    trash = shelf.places.data / "trash"
    trash.mkdir()
    for path in (journal, shelf.snapshot(thread)):
        path.rename(trash / path.name)
    assert len(traces(shelf.places.data)) == 4
    scrub(shelf.store, [thread], redact)
    assert traces(shelf.places.data) == []
    assert (shelf.quarantine / f"{thread}.jsonl.7.abc").read_text() == f"x{LABEL}y"
    (kept,) = [p for p in shelf.quarantine.glob("*") if p.is_file() and not p.name.endswith("abc")]
    assert kept.read_text() == '{"seq":9,"at":"' + LABEL
    assert shelf.store.scan(thread).condition is JournalCondition.CLEAN


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_of_a_damaged_thread_the_text_goes_and_everything_else_stays(
    shelf: Shelf, has_snapshot: bool
) -> None:
    thread = shelf.create(*leaky(SECRET), (Annotated("the end"),))
    if not has_snapshot:
        shelf.snapshot(thread).unlink()
    journal = shelf.journal(thread)
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"git_observed", b"giX_observed")
    journal.write_bytes(b"".join(lines))
    before = shelf.store.load(thread)
    assert shelf.store.scan(thread).condition is JournalCondition.CORRUPT
    scrub(shelf.store, [thread], redact)
    assert traces(shelf.places.data) == []
    after = shelf.store.load(thread)
    assert shelf.store.scan(thread).condition is JournalCondition.CORRUPT
    assert after.fold.version == before.fold.version
    assert len(journal.read_bytes().splitlines()) == len(lines)
    assert b"the end" in journal.read_bytes()


def test_a_snapshot_without_its_journal_is_all_there_is_and_stays(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    shelf.journal(thread).unlink()
    messages = len(list(shelf.store.load(thread).fold.conversation))
    scrub(shelf.store, [thread], redact)
    assert traces(shelf.places.data) == []
    assert len(list(shelf.store.load(thread).fold.conversation)) == messages


# ---- other threads -------------------------------------------------------------------------------


def family(shelf: Shelf) -> list[str]:
    """A thread that holds the text, forks of it and of a fork, and a sub-agent's thread."""
    child = shelf.create((Annotated(SECRET),))
    thread = shelf.create(*leaky(SECRET), (ChildStarted("b", child),))
    early = shelf.store.fork(thread, 2, creator=CREATOR)
    fork = shelf.store.fork(thread, 6, creator=CREATOR)
    fill(fork, (Annotated("own"),))
    of_fork = shelf.store.fork(fork.thread_id, creator=CREATOR)
    for writer in (early, fork, of_fork):
        writer.close()
    return [thread, child, early.thread_id, fork.thread_id, of_fork.thread_id]


def stands(shelf: Shelf, thread: str) -> tuple[object, ...]:
    """What a thread is to whoever reads it, without the text."""
    fold = shelf.store.load(thread).fold
    texts = [redact(message.content) for message in fold.conversation]
    return texts, fold.state_kind, fold.metadata.title


def test_forks_stay_as_they_are_and_sub_agents_are_scrubbed_too(shelf: Shelf) -> None:
    threads = family(shelf)
    thread, child, early, fork, of_fork = threads
    before = {one: stands(shelf, one) for one in threads}
    forks = (early, fork, of_fork)
    untouched = [shelf.journal(one).read_bytes() for one in forks]
    outcome = scrub(shelf.store, [thread], redact)
    assert {done.thread: done.count for done in outcome.threads} == {
        thread: 2,
        child: 1,
    }
    assert traces(shelf.places.data) == []
    assert {one: stands(shelf, one) for one in threads} == before
    assert [shelf.journal(one).read_bytes() for one in forks] == untouched
    for one in threads:
        writer = shelf.store.open(one)
        fill(writer, (Annotated("goes on"),))
        writer.close()


def test_what_other_threads_hold_is_told_and_left_to_them(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    fork = shelf.store.fork(thread, creator=CREATOR)
    fill(fork, (Annotated(SECRET),))
    fork.close()
    scrub(shelf.store, [thread], redact)
    found = TextScanner(shelf.store.folders, redact).find_files()
    left = {Path(path).name.partition(".")[0] for path in found}
    assert left == {fork.thread_id}
    scrub(shelf.store, [fork.thread_id], redact)
    assert traces(shelf.places.data) == []


def test_a_fork_finds_its_base_however_often_that_was_scrubbed(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    other = Redactor({"other": "it said"}, length_min=4).redact
    forks = [shelf.store.fork(thread, creator=CREATOR)]
    forks[0].close()
    for text in (redact, other):
        scrub(shelf.store, [thread], text)
        forks.append(shelf.store.fork(thread, version=5, creator=CREATOR))
        forks[-1].close()
    for fork in forks:
        shelf.snapshot(fork.thread_id).unlink(missing_ok=True)
        said = repr(list(shelf.store.load(fork.thread_id).fold.conversation))
        assert SECRET not in said
        assert "it said" not in said
        shelf.store.open(fork.thread_id).close()
    assert traces(shelf.places.data) == []


def test_a_kept_branch_stays_what_forks_go_on_from(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    data = shelf.journal(thread).read_bytes()
    archive_branch(shelf.store.folders, thread, shelf.store.load(thread).head, data)
    with open_locked(shelf.store, thread) as found:
        replace_journal(shelf.store, found, b"".join(split_journal_lines(data)[:2]))
    scrub(shelf.store, [thread], redact)
    assert traces(shelf.places.data) == []
    assert LABEL in repr(list(shelf.store.load(fork.thread_id).fold.conversation))
    shelf.store.open(fork.thread_id).close()


def test_two_names_that_a_cut_move_has_left_stay_one_thread(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    shelf.places.data.joinpath("trash").mkdir(exist_ok=True)
    (shelf.places.data / "trash" / f"{thread}.jsonl").hardlink_to(shelf.journal(thread))
    scrub(shelf.store, [thread], redact)
    writer = shelf.store.open(thread)
    fill(writer, (Annotated("goes on"),))
    writer.close()
    Trash(shelf.store).put([thread])
    Trash(shelf.store).restore([thread])
    assert "goes on" in shelf.journal(thread).read_text()
    assert traces(shelf.places.data) == []


def test_a_thread_it_cannot_be_taken_out_of_is_named_and_all_others_are_done(shelf: Shelf) -> None:
    thread = shelf.create(*leaky("editor"))
    tool = shelf.create(*TURN[:1], (answer("", call("a", "editor")),))
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    short = Redactor({"k": "editor"}, length_min=4).redact
    before = shelf.files()
    with pytest.raises(UsageError, match=f"record 5 of thread {tool}"):
        scrub(shelf.store, [tool, thread], short)
    assert shelf.files() == before
    outcome = scrub(shelf.store, [tool, thread], short, wants_rest=True)
    assert list(outcome.refused) == [tool]
    assert f"record 5 of thread {tool}" in outcome.refused[tool]
    assert {done.thread for done in outcome.threads} == {thread}
    assert "editor" not in shelf.journal(thread).read_text()
    kept = f"threads/{tool}.jsonl"
    assert shelf.files()[kept] == before[kept]
    shelf.store.open(fork.thread_id).close()


def test_whoever_finds_a_thread_held_by_a_scrub_is_told_by_whom(shelf: Shelf) -> None:
    thread = shelf.create(*leaky(SECRET))
    shelf.lock(thread).write_text(
        '{"pid":999999999,"host":"x","since":"2026-01-01T00:00:00Z","program":"treadle run"}\n'
    )
    store = LocalStore(shelf.places, now=shelf.clock, program="treadle scrub")
    found: list[object] = []

    def look(text: str) -> str:
        found.append(shelf.store.find_holder(thread))
        return redact(text)

    scrub(store, [thread], look)
    held = [one for one in found if isinstance(one, Holder)]
    assert {(one.pid, one.program) for one in held} == {(os.getpid(), "treadle scrub")}


# ---- blobs ---------------------------------------------------------------------------------------


def keeping(shelf: Shelf, output: str) -> str:
    """A thread with a call whose output is kept whole beside it."""
    ref = Blobs(shelf.store.folders).keep(output.encode())
    return shelf.create(*TURN[:2], (ended("a", replace(success("a", "cut"), blob=ref)),))


def refs(shelf: Shelf, thread: str) -> list[BlobRef]:
    entries = [decode_entry(record.event) for record in shelf.store.scan(thread).records]
    return [e.outcome.blob for e in entries if isinstance(e, ToolCompleted) and e.outcome.blob]


def test_a_blob_that_holds_the_text_is_kept_without_it_under_its_new_name(shelf: Shelf) -> None:
    thread = keeping(shelf, f"much {SECRET} output")
    (old,) = refs(shelf, thread)
    outcome = scrub(shelf.store, [thread], redact)
    assert outcome.blob_count == 1
    assert traces(shelf.places.data) == []
    (new,) = refs(shelf, thread)
    assert new.sha256 != old.sha256
    assert Blobs(shelf.store.folders).read(new) == f"much {LABEL} output".encode()
    assert new.size == len(f"much {LABEL} output")
    assert not (shelf.places.data / "blobs" / old.sha256).exists()


def test_a_blob_that_another_thread_names_stays_and_is_told(shelf: Shelf) -> None:
    thread, other = keeping(shelf, SECRET * 3), keeping(shelf, SECRET * 3)
    (old,) = refs(shelf, other)
    outcome = scrub(shelf.store, [thread], redact)
    assert outcome.kept_blobs == {old.sha256: (other,)}
    assert traces(shelf.places.data) == [f"blobs/{old.sha256}"]
    assert scrub(shelf.store, [other], redact).kept_blobs == {}
    assert traces(shelf.places.data) == []
    assert refs(shelf, thread) == refs(shelf, other)


def test_a_blob_that_nobody_names_any_more_is_removed_with_the_text(shelf: Shelf) -> None:
    thread = shelf.create(*TURN)
    ref = Blobs(shelf.store.folders).keep(SECRET.encode())
    (shelf.places.data / "blobs" / f"{ref.sha256}.aside").write_text(SECRET)
    Blobs(shelf.store.folders).keep(b"something else")
    scrub(shelf.store, [thread], redact)
    assert traces(shelf.places.data) == []
    assert len([p for p in (shelf.places.data / "blobs").iterdir() if p.is_file()]) == 1


# ---- crashes -------------------------------------------------------------------------------------


def test_stopped_anywhere_every_thread_is_the_old_or_the_new_one_and_again_finishes(
    tmp_path: Path,
) -> None:
    """Every disk that a power cut may leave after every change; then the same again."""
    disk = ModelDisk()
    store = lab_store(disk)
    threads = crowded(store)
    truth = {one: told(store, one) for one in threads}
    cuts: list[ModelDisk] = []
    disk.on_change = lambda *_: cuts.append(disk.after_kill())
    scrub(store, threads[:1], redact)
    assert len(cuts) > 30
    checked = 0
    for cut in cuts:
        for state in (cut.after_kill(), *cut.crash_states(12, seed=len(cuts))):
            again = lab_store(state, first_id=900)
            for one in threads:
                found = again.scan(one)
                assert found.condition is JournalCondition.CLEAN, found.reason
            scrub(again, threads[:1], redact)
            assert {one: told(again, one) for one in threads} == truth
            raw = json.dumps(SECRET, ensure_ascii=False)[1:-1].encode()
            for path, data in state.files().items():
                assert SECRET.encode() not in data, path
                assert raw not in data, path
            assert TextScanner(again.folders, redact).find_files() == []
            checked += 1
    assert checked > 200


def crowded(store: LocalStore) -> list[str]:
    """A thread with the text, with all that can hang on one; and forks of it."""
    blob = Blobs(store.folders).keep(f"whole {SECRET}".encode())
    writer = store.create(CREATOR, workspace="/w")
    fill(writer, *leaky(SECRET)[:2])
    fill(writer, (ended("a", replace(success("a", SECRET), blob=blob)),))
    writer.close()
    thread = writer.thread_id
    fork = store.fork(thread, creator=CREATOR)
    fill(fork, (Annotated("own"),))
    of_fork = store.fork(fork.thread_id, creator=CREATOR)
    for one in (fork, of_fork):
        one.close()
    disk = store.folders.disk
    disk.make_folder(store.folders.quarantine)
    replace_file(disk, f"{store.folders.quarantine}/{thread}.jsonl.1.a", SECRET.encode())
    handle = disk.create(f"{store.folders.threads}/tmp/{thread}.0")
    disk.write(handle, SECRET.encode())
    disk.sync(handle)
    disk.close(handle)
    disk.sync_folder(f"{store.folders.threads}/tmp")
    return [thread, fork.thread_id, of_fork.thread_id]


def told(store: LocalStore, thread: str) -> tuple[object, ...]:
    fold = store.load(thread).fold
    return [redact(message.content) for message in fold.conversation], fold.state_kind


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_disk_that_refuses_leaves_every_thread_whole_and_again_finishes(number: int) -> None:
    at = 0
    while True:
        at += 1
        disk = ModelDisk(survival=lambda data: data)
        threads = crowded(lab_store(disk))
        truth = {one: told(lab_store(disk), one) for one in threads}
        faulty = FaultyDisk(disk, Fault(at, number))
        with suppress(StoreError):
            scrub(lab_store(faulty), threads[:1], redact)
        assert disk.handle_count == 0
        fails = faulty.failure_count
        again = lab_store(disk)
        scrub(again, threads[:1], redact)
        assert {one: told(again, one) for one in threads} == truth
        assert TextScanner(again.folders, redact).find_files() == []
        if at > len(faulty.operations):
            break
        assert fails or number != errno.EIO
    assert at > 40
