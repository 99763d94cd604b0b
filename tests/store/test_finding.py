"""Threads are found by their id or what it begins with, and listed, damaged ones too."""

from __future__ import annotations

import pytest

from core.samples import said
from store.shelf import TURN, Shelf, fill
from treadle.errors import AmbiguousThreadError, UnknownThreadError, UsageError
from treadle.store.local_store import LocalStore

WRONG_IDS = [
    "",
    "T-",
    "x",
    "../../x",
    "T-../../x",
    "/etc/passwd",
    "T-01900000-0000-7000-8000-00000000000g",
    "T-01900000-0000-7000-8000-000000000001.jsonl",
    "T-01900000-0000-7000-8000-000000000001/../x",
    "T-01900000-0000-7000-8000-000000000001\n",
    "T-01900000-0000-7000-8000-000000000001\0",
    "*",
]


@pytest.mark.parametrize("text", WRONG_IDS)
def test_what_is_no_id_finds_nothing_and_touches_nothing(shelf: Shelf, text: str) -> None:
    shelf.busy()
    before = shelf.files()
    for use in (shelf.store.load, shelf.store.open, shelf.store.scan):
        with pytest.raises(UnknownThreadError, match="is no thread id"):
            use(text)
    assert shelf.files() == before


@pytest.mark.parametrize("text", ["", "T-", "x", "*", "T-019"])
def test_what_is_too_short_means_no_thread_not_even_the_only_one(shelf: Shelf, text: str) -> None:
    shelf.busy()
    with pytest.raises(UsageError, match="too short to mean a thread"):
        shelf.store.resolve(text)


@pytest.mark.parametrize("text", [text for text in WRONG_IDS if len(text.removeprefix("T-")) > 3])
def test_what_begins_no_id_is_unknown(shelf: Shelf, text: str) -> None:
    shelf.busy()
    shelf.busy()
    with pytest.raises(UnknownThreadError, match="there is no thread") as raised:
        shelf.store.resolve(text)
    assert "treadle list" in raised.value.hint


@pytest.mark.parametrize("text", ["T-0190", "0190", "T-01900000-0000-7000-8000-0000000000"])
def test_what_begins_several_ids_is_ambiguous_and_lists_them_newest_first(
    shelf: Shelf, text: str
) -> None:
    ids = [shelf.busy() for _ in range(3)]
    with pytest.raises(AmbiguousThreadError) as raised:
        shelf.store.resolve(text)
    assert raised.value.candidates == tuple(reversed(ids))
    assert all(thread_id in raised.value.message for thread_id in ids)


def test_a_whole_id_or_a_beginning_that_only_one_has_finds_it(shelf: Shelf) -> None:
    ids = [shelf.busy() for _ in range(16)]
    for thread_id in ids:
        assert shelf.store.resolve(thread_id) == thread_id
        assert shelf.store.resolve(thread_id.removeprefix("T-")) == thread_id
    assert shelf.store.resolve(ids[-1][:-1]) == ids[-1]


def test_a_damaged_thread_is_found_like_any_other(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    shelf.journal(thread_id).unlink()
    assert shelf.store.resolve(thread_id[:30]) == thread_id


def test_a_list_is_in_order_of_the_last_change(shelf: Shelf) -> None:
    ids = [shelf.busy() for _ in range(3)]
    writer = shelf.store.open(ids[0])
    fill(writer, (said("again"),))
    writer.close()
    assert [line.id for line in shelf.store.list()] == [ids[0], ids[2], ids[1]]
    assert shelf.store.ids() == list(reversed(ids))


def test_a_line_says_what_a_person_looks_for(shelf: Shelf) -> None:
    thread_id = shelf.create(*TURN, is_private=True)
    [line] = shelf.store.list()
    document = shelf.store.load(thread_id).fold.document()
    assert (line.id, line.version, line.title) == (thread_id, 7, "mend it")
    assert (line.created_at, line.updated_at) == (document.created_at, document.updated_at)
    assert (line.state, line.message_count) == ("post_tools_hook", 3)
    assert (line.workspace_root, line.git_branch, line.model) == ("/w", "main", "model-1")
    assert (line.is_private, line.problem) == (True, "")


def test_damaged_threads_are_listed_with_their_problem_and_stop_nothing(shelf: Shelf) -> None:
    ids = [shelf.busy() for _ in range(6)]
    for thread_id in ids[1:]:
        shelf.snapshot(thread_id).unlink()
    journals = [shelf.journal(thread_id) for thread_id in ids]
    middle = journals[1].read_bytes()
    journals[1].write_bytes(middle.replace(b"mend it", b"mend at"))
    journals[2].write_bytes(b"?" + journals[2].read_bytes())
    journals[3].write_bytes(journals[3].read_bytes().replace(b'"format":1', b'"format":9'))
    journals[4].unlink()
    journals[4].mkdir()
    lines = {line.id: line for line in shelf.store.list()}
    assert set(lines) == set(ids)
    assert [bool(lines[thread_id].problem) for thread_id in ids] == [
        *(False, True, True, True, True, False),
    ]
    assert lines[ids[1]].title is None
    assert lines[ids[1]].version == 3


def test_two_stores_over_one_folder_see_the_same(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    assert [line.id for line in LocalStore(shelf.places).list()] == [thread_id]


def test_a_snapshot_can_be_asked_for_by_itself(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    present, snapshot = shelf.store.read_snapshot(thread_id)
    assert present
    assert snapshot is not None
    assert snapshot.head.seq == 7
    shelf.snapshot(thread_id).write_bytes(b"spoilt")
    assert shelf.store.read_snapshot(thread_id) == (True, None)
    shelf.snapshot(thread_id).unlink()
    assert shelf.store.read_snapshot(thread_id) == (False, None)
