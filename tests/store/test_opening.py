"""Opening a journal ends one of three ways: clean, mended with nothing lost, or refused untouched.

A torn end is moved to the quarantine and cut. Where acknowledged records are damaged, nothing is
changed: what stands before the damage can be read, and the error names the file and the place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from core.samples import answer, said
from store.shelf import TURN, Shelf, fill
from thread.journals import HEADER, at
from treadle.errors import DamagedJournalError, ReadOnlyThreadError, TreadleError
from treadle.thread.codec import UnknownEntryError, encode_entry
from treadle.thread.record import Head, JournalCondition, encode_batch


def without_snapshot(shelf: Shelf, *more: tuple[object, ...]) -> tuple[str, Path]:
    thread_id = shelf.create(*TURN, *more)  # type: ignore[arg-type]
    shelf.snapshot(thread_id).unlink()
    return thread_id, shelf.journal(thread_id)


def refused(shelf: Shelf, thread_id: str, error: type[TreadleError]) -> TreadleError:
    """The error of opening it for writing, which changes nothing at all."""
    before = shelf.files()
    with pytest.raises(error) as raised:
        shelf.store.open(thread_id)
    assert shelf.files() == before
    return raised.value


# ---- torn ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_last_write_torn_at_any_byte_is_cut_and_kept_and_the_thread_goes_on(
    shelf: Shelf, with_snapshot: bool
) -> None:
    thread_id = shelf.create(*TURN[:2])
    if not with_snapshot:
        shelf.snapshot(thread_id).unlink()
    journal = shelf.journal(thread_id)
    whole, document = journal.read_bytes(), shelf.store.load(thread_id).fold.document()
    found = shelf.store.scan(thread_id)
    batch = [encode_entry(entry)[1] for entry in (*TURN[2], said("and more"))]
    written, _ = encode_batch(found.head, at(9), batch)
    first_end = written.index(b"\n") + 1
    for size in range(1, len(written)):
        if size == first_end:
            continue  # whole records: nobody can tell that more were to come
        journal.write_bytes(whole + written[:size])
        writer = shelf.store.open(thread_id)
        kept = written[:first_end] if size > first_end else b""
        assert journal.read_bytes() == whole + kept
        [quarantined] = shelf.quarantine.iterdir()
        assert quarantined.read_bytes() == written[len(kept) : size]
        assert writer.note == f"an unfinished write was cut off and kept in {quarantined}"
        if not kept:
            assert writer.fold.document() == document
        writer.snapshot_head = writer.head  # no snapshot on closing: the next round needs none
        writer.close()
        quarantined.unlink()
    writer = shelf.store.open(thread_id)
    fill(writer, (answer("on it goes"),))
    writer.close()
    assert shelf.store.scan(thread_id).condition is JournalCondition.CLEAN


def test_looking_at_a_torn_thread_does_not_mend_it(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    with shelf.journal(thread_id).open("ab") as file:
        file.write(b'{"seq":8')
    before = shelf.files()
    loaded = shelf.store.load(thread_id)
    assert (loaded.condition, loaded.problem) == (JournalCondition.TORN, "")
    assert [line.problem for line in shelf.store.list()] == [""]
    assert shelf.files() == before


def test_mending_can_be_stopped_anywhere_and_done_again(shelf: Shelf) -> None:
    """The quarantined file may be there already, in part or in full, and the end still torn."""
    thread_id = shelf.busy()
    journal = shelf.journal(thread_id)
    torn = journal.read_bytes() + b"unfinished"
    journal.write_bytes(torn)
    shelf.store.open(thread_id).close()
    [kept] = shelf.quarantine.iterdir()
    for remains in (b"unfinished", b"unfi", b""):
        kept.write_bytes(remains)
        journal.write_bytes(torn)
        shelf.store.open(thread_id).close()
        assert [path.read_bytes() for path in shelf.quarantine.iterdir()] == [b"unfinished"]


def test_two_torn_ends_are_kept_under_two_names(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    for tail in (b"one", b"two"):
        with shelf.journal(thread_id).open("ab") as file:
            file.write(tail)
        shelf.store.open(thread_id).close()
    assert {path.read_bytes() for path in shelf.quarantine.iterdir()} == {b"one", b"two"}


def test_drafts_of_snapshots_left_by_a_dead_process_are_removed_and_only_these(
    shelf: Shelf,
) -> None:
    one, other = shelf.busy(), shelf.busy()
    drafts = shelf.threads / "tmp"
    for thread_id in (one, other):
        (drafts / f"{thread_id}.0123456789abcdef").write_bytes(b"half")
    shelf.store.open(one).close()
    assert [path.name for path in drafts.iterdir()] == [f"{other}.0123456789abcdef"]


# ---- corrupt -------------------------------------------------------------------------------------


def test_damage_in_the_middle_is_read_up_to_there_and_named_by_file_and_place(
    shelf: Shelf,
) -> None:
    thread_id, journal = without_snapshot(shelf)
    data = journal.read_bytes()
    lines = data.splitlines(keepends=True)
    for number in range(1, len(lines) - 1):
        start = sum(map(len, lines[:number]))
        journal.write_bytes(data[: start + 20] + b"?" + data[start + 21 :])
        loaded = shelf.store.load(thread_id)
        assert (loaded.condition, loaded.head.size) == (JournalCondition.CORRUPT, start)
        assert loaded.fold.version == number
        assert f"record {number + 1} is damaged or missing" in loaded.problem
        error = refused(shelf, thread_id, DamagedJournalError)
        assert isinstance(error, DamagedJournalError)
        assert (error.path, error.offset) == (str(journal), start)
        assert f"{journal} is damaged at byte {start}" in error.message
        assert "treadle" in error.hint


def test_damage_before_the_snapshot_is_not_in_the_way_and_a_scan_finds_it(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    journal = shelf.journal(thread_id)
    whole = shelf.store.load(thread_id).fold.document()
    journal.write_bytes(journal.read_bytes().replace(b"mend it", b"mend at"))
    assert shelf.store.load(thread_id).fold.document() == whole
    assert shelf.store.scan(thread_id).condition is JournalCondition.CORRUPT


def test_damage_after_the_snapshot_is_refused(shelf: Shelf) -> None:
    thread_id = shelf.create(TURN[0])
    taken = shelf.snapshot(thread_id).read_bytes()
    writer = shelf.store.open(thread_id)
    fill(writer, *TURN[1:])
    writer.close()
    shelf.snapshot(thread_id).write_bytes(taken)
    journal = shelf.journal(thread_id)
    journal.write_bytes(journal.read_bytes().replace(b'"tool_started"', b'"tool_startet"'))
    loaded = shelf.store.load(thread_id)
    assert (loaded.condition, loaded.fold.version, loaded.snapshot_head.seq) == (
        JournalCondition.CORRUPT,
        5,
        4,
    )
    error = refused(shelf, thread_id, DamagedJournalError)
    assert isinstance(error, DamagedJournalError)
    assert error.offset == loaded.head.size


def test_a_damaged_first_record_is_damage_and_no_missing_thread(shelf: Shelf) -> None:
    thread_id, journal = without_snapshot(shelf)
    journal.write_bytes(b"?" + journal.read_bytes()[1:])
    for use in (shelf.store.load, shelf.store.open):
        with pytest.raises(DamagedJournalError) as raised:
            use(thread_id)
        assert raised.value.offset == 0
    [line] = shelf.store.list()
    assert line.id == thread_id
    assert "damaged at byte 0" in line.problem


def test_a_journal_cut_where_a_record_ends_is_noticed_by_the_snapshot(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    whole = shelf.store.load(thread_id).fold.document()
    journal = shelf.journal(thread_id)
    lines = journal.read_bytes().splitlines(keepends=True)
    for count in range(len(lines)):
        journal.write_bytes(b"".join(lines[:count]))
        loaded = shelf.store.load(thread_id)
        assert loaded.condition is JournalCondition.CORRUPT
        assert loaded.fold.document() == whole
        assert loaded.problem == (
            f"the snapshot holds version 7, but the journal ends at {count}: "
            "records were lost; shown as the snapshot has it"
        )
        refused(shelf, thread_id, DamagedJournalError)


def test_a_missing_journal_is_shown_as_the_snapshot_has_it_and_not_made_anew(
    shelf: Shelf,
) -> None:
    thread_id = shelf.busy()
    whole = shelf.store.load(thread_id).fold.document()
    shelf.journal(thread_id).unlink()
    loaded = shelf.store.load(thread_id)
    assert (loaded.condition, loaded.fold.document()) == (JournalCondition.CORRUPT, whole)
    assert "the journal is missing" in loaded.problem
    refused(shelf, thread_id, DamagedJournalError)
    assert not shelf.journal(thread_id).exists()
    assert [line.problem for line in shelf.store.list()] == [loaded.problem]


# ---- snapshots that are of no use ---------------------------------------------------------------


def _flipped(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.parametrize(
    "spoil",
    [_flipped, lambda data: data[:-1], lambda _: b"", lambda data: data + b"\n", lambda _: b"{}"],
    ids=["flipped", "cut", "empty", "longer", "bare"],
)
def test_a_spoilt_snapshot_loses_nothing(shelf: Shelf, spoil) -> None:  # type: ignore[no-untyped-def]
    thread_id = shelf.busy()
    whole = shelf.store.load(thread_id).fold.document()
    path = shelf.snapshot(thread_id)
    path.write_bytes(spoil(path.read_bytes()))
    loaded = shelf.store.load(thread_id)
    assert (loaded.fold.document(), loaded.problem) == (whole, "")
    assert loaded.snapshot_head == Head()
    shelf.store.open(thread_id).close()
    assert shelf.store.load(thread_id).snapshot_head.seq == 7


def test_a_snapshot_of_another_thread_is_passed_over(shelf: Shelf) -> None:
    one, other = shelf.busy(), shelf.create(TURN[0])
    whole = shelf.store.load(other).fold.document()
    shelf.snapshot(other).write_bytes(shelf.snapshot(one).read_bytes())
    loaded = shelf.store.load(other)
    assert (loaded.fold.document(), loaded.problem) == (whole, "")


def test_an_older_snapshot_and_the_tail_are_the_whole(shelf: Shelf) -> None:
    thread_id = shelf.create(TURN[0])
    taken = shelf.snapshot(thread_id).read_bytes()
    writer = shelf.store.open(thread_id)
    fill(writer, *TURN[1:])
    whole = writer.fold.document()
    writer.close()
    shelf.snapshot(thread_id).write_bytes(taken)
    loaded = shelf.store.load(thread_id)
    assert (loaded.fold.document(), loaded.snapshot_head.seq, loaded.head.seq) == (whole, 4, 7)


def test_a_snapshot_that_stands_beside_the_chain_is_passed_over(shelf: Shelf) -> None:
    thread_id = shelf.create(TURN[0])
    base = shelf.journal(thread_id).read_bytes()
    for text in ("one branch", "or the other"):
        shelf.journal(thread_id).write_bytes(base)
        found = shelf.store.scan(thread_id)
        lines, _ = encode_batch(found.head, at(9), [encode_entry(answer(text))[1]])
        if text == "or the other":
            break
        shelf.journal(thread_id).write_bytes(base + lines)
        shelf.store.open(thread_id).close()
    shelf.journal(thread_id).write_bytes(base + lines)
    loaded = shelf.store.load(thread_id)
    assert loaded.problem == ""
    assert loaded.fold.conversation[-1].content == "or the other"


# ---- written by others --------------------------------------------------------------------------


def _append(shelf: Shelf, thread_id: str, *events: bytes) -> bytes:
    found = shelf.store.scan(thread_id)
    lines, _ = encode_batch(found.head, at(99), events)
    with shelf.journal(thread_id).open("ab") as file:
        file.write(lines)
    return shelf.journal(thread_id).read_bytes()


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_record_of_a_newer_program_opens_read_only_and_survives_byte_for_byte(
    shelf: Shelf, with_snapshot: bool
) -> None:
    thread_id = shelf.busy()
    if not with_snapshot:
        shelf.snapshot(thread_id).unlink()
    known = shelf.store.load(thread_id).fold.document()
    later = b'{"type":"dreamt",  "of":["sheep", 1.50]}'
    data = _append(shelf, thread_id, later, encode_entry(said("after it"))[1])
    loaded = shelf.store.load(thread_id)
    assert loaded.condition is JournalCondition.CLEAN
    assert loaded.fold.document() == known
    assert "record 8 was written by a newer Treadle" in loaded.problem
    error = refused(shelf, thread_id, ReadOnlyThreadError)
    assert error.message == loaded.problem
    assert shelf.journal(thread_id).read_bytes() == data
    assert bytes(shelf.store.scan(thread_id).records[7].event) == later
    assert shelf.store.load(thread_id, 7).problem == ""


def test_unknown_fields_of_known_records_are_passed_over_and_survive(shelf: Shelf) -> None:
    thread_id = shelf.create()
    later = b'{"type":"user_input","mood":"good","message":{"role":"user","content":"hi","x":[1]}}'
    _append(shelf, thread_id, later)
    writer = shelf.store.open(thread_id)
    assert [message.content for message in writer.fold.conversation] == ["hi"]
    fill(writer, (answer("hello"),))
    writer.close()
    assert later in shelf.journal(thread_id).read_bytes()


@pytest.mark.parametrize(
    "header",
    [
        b'{"type":"thread_created","format":2,"thread":"%b","machine":"chat","creator":"x"}',
        b'{"type":"thread_created","format":1,"thread":"%b","machine":"loom","creator":"x"}',
        b'{"type":"thread_born","thread":"%b"}',
        b'{"type":"tool_started","call_id":"a"}',
    ],
    ids=["newer format", "another machine", "unknown header", "no header"],
)
def test_a_thread_this_version_cannot_have_is_refused_and_said_to_be_so(
    shelf: Shelf, header: bytes
) -> None:
    thread_id = shelf.busy()
    shelf.snapshot(thread_id).unlink()
    event = header.replace(b"%b", thread_id.encode())
    data, _ = encode_batch(Head(), at(0), [event, encode_entry(said())[1]])
    shelf.journal(thread_id).write_bytes(data)
    with pytest.raises(UnknownEntryError):
        shelf.store.load(thread_id)
    refused(shelf, thread_id, UnknownEntryError)
    [line] = shelf.store.list()
    assert (line.id, line.state) == (thread_id, "unsupported")
    assert line.problem


@pytest.mark.parametrize("says", ["another", "", "T-", "../../x"])
def test_a_journal_that_says_it_is_another_thread_is_shown_and_never_written(
    shelf: Shelf, says: str
) -> None:
    one, other = shelf.busy(), shelf.create(TURN[0])
    said_id = one if says == "another" else says
    header = encode_entry(type(HEADER)(1, said_id, "chat", "x"))[1]
    data, _ = encode_batch(Head(), at(0), [header, encode_entry(said("copied"))[1]])
    shelf.journal(other).write_bytes(data)
    shelf.snapshot(other).unlink()
    loaded = shelf.store.load(other)
    assert loaded.fold.title() == "copied"
    assert repr(said_id) in loaded.problem
    refused(shelf, other, ReadOnlyThreadError)
    assert {line.id: bool(line.problem) for line in shelf.store.list()} == {one: False, other: True}


def test_a_copied_journal_does_not_touch_the_thread_it_was_copied_from(shelf: Shelf) -> None:
    original = shelf.busy()
    copy = shelf.next_id()
    for source, target in (
        (shelf.journal(original), shelf.journal(copy)),
        (shelf.snapshot(original), shelf.snapshot(copy)),
    ):
        target.write_bytes(source.read_bytes())
    refused(shelf, copy, ReadOnlyThreadError)
    writer = shelf.store.open(original)
    fill(writer, (said(),))
    writer.close()
