"""Files that are not what they should be stop nothing but themselves, and make nothing wait."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.samples import said
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.errors import DamagedJournalError, DiskError, UnknownThreadError
from treadle.store.disk import PIECE_SIZE, PosixDisk
from treadle.thread.facts import Annotated

NOBODY = 65534


def _folder(path: Path) -> None:
    path.mkdir()


def _full_folder(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        server.bind(path.name)
        os.chdir(here)


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # as /dev/null


def _link(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    target.write_bytes(b'{"seq":1')
    path.symlink_to(target)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50_000_000)


STRANGERS: list[Callable[[Path], None]] = [
    _folder,
    _full_folder,
    _fifo,
    _socket,
    _link,
    _dangling,
    _loop,
]
if os.geteuid() == 0:
    STRANGERS.append(_device)


def name_of(make: Callable[[Path], None]) -> str:
    return make.__name__.strip("_")


def replaced(path: Path, make: Callable[[Path], None]) -> None:
    if path.exists():
        path.unlink()
    make(path)


@pytest.mark.parametrize("make", STRANGERS, ids=name_of)
def test_what_stands_for_a_journal_and_is_none_is_told_and_others_load(
    shelf: Shelf, make: Callable[[Path], None]
) -> None:
    good, bad = shelf.busy(), shelf.busy()
    replaced(shelf.journal(bad), make)
    for use in (shelf.store.load, shelf.store.open, shelf.store.scan):
        with pytest.raises(DiskError, match=bad):
            use(bad)
    lines = {line.id: line for line in shelf.store.list()}
    assert lines[good].problem == ""
    assert lines[bad].problem
    shelf.store.open(good).close()


@pytest.mark.parametrize("make", STRANGERS, ids=name_of)
def test_what_stands_for_a_snapshot_and_is_none_loses_nothing(
    shelf: Shelf, make: Callable[[Path], None]
) -> None:
    thread_id = shelf.busy()
    whole = shelf.store.load(thread_id).fold.document()
    replaced(shelf.snapshot(thread_id), make)
    loaded = shelf.store.load(thread_id)
    assert (loaded.fold.document(), loaded.problem) == (whole, "")
    assert [line.problem for line in shelf.store.list()] == [""]
    writer = shelf.store.open(thread_id)
    problem = writer.close()
    if shelf.snapshot(thread_id).is_dir():
        assert isinstance(problem, DiskError)
    else:
        assert problem is None
        assert shelf.snapshot(thread_id).is_file()
        assert not shelf.snapshot(thread_id).is_symlink()
    assert list((shelf.threads / "tmp").iterdir()) == []


@pytest.mark.parametrize("make", STRANGERS, ids=name_of)
def test_what_stands_for_a_lock_and_is_none_keeps_the_thread_closed(
    shelf: Shelf, make: Callable[[Path], None]
) -> None:
    thread_id = shelf.busy()
    replaced(shelf.lock(thread_id), make)
    before = shelf.files()
    with pytest.raises(DiskError, match=r"cannot lock .*\.lock"):
        shelf.store.open(thread_id)
    assert shelf.files() == before
    assert shelf.store.load(thread_id).problem == ""


def test_an_empty_journal_is_a_thread_that_was_never_there(shelf: Shelf) -> None:
    thread_id = shelf.next_id()
    other = shelf.busy()
    shelf.journal(thread_id).touch()
    for use in (shelf.store.load, shelf.store.open):
        with pytest.raises(UnknownThreadError, match="no intact record"):
            use(thread_id)
    assert [line.id for line in shelf.store.list()] == [other]


@pytest.mark.parametrize("data", [b"{", b"\0" * 4096, b"\n" * 9, b"not a journal\n", b"\xff"])
def test_a_journal_without_any_record_is_a_thread_that_was_never_there(
    shelf: Shelf, data: bytes
) -> None:
    shelf.busy()
    thread_id = shelf.next_id()
    shelf.journal(thread_id).write_bytes(data)
    for use in (shelf.store.load, shelf.store.open):
        with pytest.raises(UnknownThreadError):
            use(thread_id)
    assert shelf.journal(thread_id).read_bytes() == data
    assert len(shelf.store.list()) == 1


def test_a_large_hole_for_a_journal_is_read_and_found_to_be_nothing(shelf: Shelf) -> None:
    shelf.busy()
    thread_id = shelf.next_id()
    _sparse(shelf.journal(thread_id))
    with pytest.raises(UnknownThreadError):
        shelf.store.load(thread_id)


@pytest.mark.parametrize("name", ["data", "data/threads"])
def test_a_file_where_a_folder_should_be_is_told(shelf: Shelf, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with pytest.raises(DiskError):
        shelf.store.create(CREATOR)
    with pytest.raises(DiskError):
        shelf.store.list()


def test_a_file_where_drafts_should_be_costs_the_snapshot_only(shelf: Shelf) -> None:
    shelf.threads.mkdir(parents=True)
    (shelf.threads / "tmp").touch()
    writer = shelf.store.create(CREATOR)
    assert isinstance(writer.close(), DiskError)
    assert shelf.store.load(writer.thread_id).fold.version == 1


def test_names_that_are_no_threads_are_passed_over(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    for name in ("x.jsonl", ".jsonl", "T-1.jsonl", f"{thread_id}x.jsonl", f"{thread_id}.old", "ü"):
        (shelf.threads / name).write_bytes(b"x")
    (shelf.threads / os.fsdecode(b"\xff.jsonl")).write_bytes(b"x")
    assert shelf.store.ids() == [thread_id]


@pytest.fixture
def shelf_of_a_plain_user() -> Iterator[Shelf]:
    """A shelf of somebody for whom modes count; root becomes nobody for the test."""
    with TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Shelf(Path(folder))
            return
        os.chown(folder, NOBODY, -1)
        os.seteuid(NOBODY)
        try:
            yield Shelf(Path(folder))
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o400])
def test_a_journal_that_may_not_be_used_is_told(shelf_of_a_plain_user: Shelf, mode: int) -> None:
    shelf = shelf_of_a_plain_user
    good, bad = shelf.busy(), shelf.busy()
    shelf.journal(bad).chmod(mode)
    with pytest.raises(DiskError, match="Permission denied"):
        shelf.store.open(bad)
    problems = {line.id: bool(line.problem) for line in shelf.store.list()}
    assert problems == {good: False, bad: mode != 0o400}


def test_a_folder_that_may_not_be_written_can_still_be_read(shelf_of_a_plain_user: Shelf) -> None:
    shelf = shelf_of_a_plain_user
    thread_id = shelf.busy()
    shelf.threads.chmod(0o500)
    assert [line.problem for line in shelf.store.list()] == [""]
    with pytest.raises(DiskError, match="Permission denied"):
        shelf.store.create(CREATOR)
    writer = shelf.store.open(thread_id)
    fill(writer, (said("the journal itself can grow"),))
    assert isinstance(writer.close(), DiskError)
    shelf.threads.chmod(0o700)
    assert shelf.store.load(thread_id).fold.version == 8


def test_a_snapshot_that_may_not_be_read_loses_nothing(shelf_of_a_plain_user: Shelf) -> None:
    shelf = shelf_of_a_plain_user
    thread_id = shelf.busy()
    shelf.snapshot(thread_id).chmod(0)
    assert shelf.store.load(thread_id).fold.version == 7
    shelf.store.open(thread_id).close()
    assert shelf.store.load(thread_id).snapshot_head.seq == 7


def test_damage_in_the_last_write_that_a_snapshot_covers_is_not_built_upon(shelf: Shelf) -> None:
    """The journal alone could take it for an unfinished write; the snapshot knows better."""
    thread_id = shelf.create((said("one"), said("two"), said("three")))
    journal = shelf.journal(thread_id)
    lines = journal.read_bytes().splitlines(keepends=True)
    for place in range(1, len(lines)):
        damaged = [*lines[:place], b"X" + lines[place][1:], *lines[place + 1 :]]
        journal.write_bytes(b"".join(damaged))
        with pytest.raises(DamagedJournalError):
            shelf.store.open(thread_id)
        assert journal.read_bytes() == b"".join(damaged)


def test_a_journal_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    disk, path = PosixDisk(), str(tmp_path / "x")
    Path(path).write_bytes(b"a" * 3 * PIECE_SIZE)
    pieces = disk.pieces(path, 5)
    assert next(pieces) == b"a" * PIECE_SIZE
    (tmp_path / "y").write_bytes(b"b")
    disk.rename(str(tmp_path / "y"), path)
    assert b"".join(pieces) == b"a" * (2 * PIECE_SIZE - 5)
    assert list(disk.pieces(path, 1)) == []
    with pytest.raises(FileNotFoundError):
        next(disk.pieces(str(tmp_path / "z")))


@pytest.mark.parametrize("count", range(len(TURN)))
def test_a_thread_that_is_opened_over_a_snapshot_is_what_its_journal_alone_says(
    shelf: Shelf, count: int
) -> None:
    """All records are judged then, and only those after the snapshot are folded."""
    thread_id = shelf.create((Annotated("said once"),), *TURN[:count])
    snapshot = shelf.snapshot(thread_id).read_bytes()
    writer = shelf.store.open(thread_id)
    fill(writer, *TURN[count:], (said("and on"),))
    writer.close()
    shelf.snapshot(thread_id).write_bytes(snapshot)
    over = shelf.store.open(thread_id)
    document, head = over.fold.document(), over.head
    over.close()
    shelf.snapshot(thread_id).unlink()
    alone = shelf.store.open(thread_id)
    assert (alone.fold.document(), alone.head) == (document, head)
    alone.close()
