"""What waits, and how far each thread is synced, on disk: kept, lost, damaged, and of many."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from store.shelf import Shelf
from treadle.api.marks import Mark
from treadle.errors import StorageBusyError
from treadle.store.disk import PosixDisk
from treadle.sync import send_queue as pending_file
from treadle.sync.cursors import OUTPUT_COUNT_MAX, Cursor, Cursors, MissingOutput
from treadle.sync.send_queue import (
    CONFLICT_COUNT_MAX,
    ERROR_LENGTH_MAX,
    LOCK_TRIES,
    PendingSyncEntry,
    PendingSyncStore,
    SyncConflict,
    SyncState,
)

THREAD = "T-01900000-0000-7000-8000-000000000001"
OTHER = "T-01900000-0000-7000-8000-000000000002"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def pending(shelf: Shelf) -> PendingSyncStore:
    return PendingSyncStore(PosixDisk(), shelf.places)


def test_what_is_begun_is_there_until_it_has_ended(shelf: Shelf) -> None:
    found = pending(shelf)
    assert found.entries() == {}
    found.add_entries({THREAD: "upsert", OTHER: "delete"})
    assert pending(shelf).entries() == {
        THREAD: PendingSyncEntry(THREAD, "upsert"),
        OTHER: PendingSyncEntry(OTHER, "delete"),
    }
    failed = PendingSyncEntry(THREAD, "upsert", "2026", 3, "x" * 5000, parked="held", version=4)
    found.update_entries({THREAD: failed}, [])
    found.add_entries({THREAD: "upsert"})
    kept = found.entries()[THREAD]
    assert (kept.retry_count, len(kept.last_error)) == (3, ERROR_LENGTH_MAX)
    found.add_entries({THREAD: "delete"})
    assert found.entries()[THREAD] == PendingSyncEntry(THREAD, "delete")
    found.update_entries({}, [THREAD])
    assert list(found.entries()) == [OTHER]
    path = Path(found.folder) / "pending.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert b'"thread_id":' in path.read_bytes()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\x00", b"[" * 100_000, b'{"entries":1}'])
def test_a_file_that_is_damaged_begins_anew(shelf: Shelf, data: bytes) -> None:
    found = pending(shelf)
    found.add_entries({THREAD: "upsert"})
    for name in ("pending.json", "state.json"):
        (Path(found.folder) / name).write_bytes(data)
    assert found.entries() == {}
    assert found.state() == SyncState()
    found.add_entries({OTHER: "upsert"})
    assert list(found.entries()) == [OTHER]


def test_the_newest_conflicts_are_kept_and_no_more(shelf: Shelf) -> None:
    found = pending(shelf)
    many = tuple(
        SyncConflict(THREAD, "2026", "merge", number) for number in range(CONFLICT_COUNT_MAX + 5)
    )
    found.change_state(lambda _: SyncState(conflicts=many))
    assert found.state().conflicts == many[5:]


def test_many_writers_lose_nothing_of_each_other(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_file, "LOCK_TRIES", 10_000)  # the disk may be busy
    names = [f"T-01900000-0000-7000-8000-{number:012x}" for number in range(40)]

    def write(share: list[str]) -> None:
        mine = pending(shelf)
        for name in share:
            mine.add_entries({name: "upsert"})

    threads = [threading.Thread(target=write, args=(names[start::4],)) for start in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(pending(shelf).entries()) == names


def test_who_cannot_write_because_of_another_process_says_so(shelf: Shelf) -> None:
    pauses: list[int] = []
    mine = PendingSyncStore(PosixDisk(), shelf.places, pause=lambda: pauses.append(1))
    mine.add_entries({})
    program = (
        "import fcntl, sys\n"
        f"file = open({mine.folder + '/pending.lock'!r}, 'r+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StorageBusyError, match="other processes"):
            mine.add_entries({THREAD: "upsert"})
        other.kill()
    assert len(pauses) == LOCK_TRIES
    mine.add_entries({THREAD: "upsert"})


def test_a_cursor_counts_for_one_server_and_one_user(shelf: Shelf) -> None:
    mine = Cursors(PosixDisk(), shelf.places, "https://a", "ada")
    assert mine.get(THREAD) is None
    cursor = Cursor("https://a", "ada", 3, "a" * 32, 300, 5, "b" * 32, True)
    mine.put(THREAD, cursor)
    assert mine.get(THREAD) == cursor
    assert (cursor.acknowledged_mark, cursor.server_mark) == (Mark(3, "a" * 32), Mark(5, "b" * 32))
    for url, user in (("https://b", "ada"), ("https://a", "bob")):
        assert Cursors(PosixDisk(), shelf.places, url, user).get(THREAD) is None
    path = Path(mine.folder) / f"{THREAD}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert mine.ids() == [THREAD]
    before = path.stat().st_ino
    mine.put(THREAD, cursor)
    assert path.stat().st_ino == before
    whole = path.read_bytes()
    spoilt = (
        whole.replace(*pair)
        for pair in (
            (b'"seq":3', b'"seq":-1'),
            (b'"size":300', b'"size":-300'),
            (b'"seen_seq":5', b'"seen_seq":99999999999999999'),
            (b"aaaa", b"zzzz"),
            (b"bbbb", b""),
        )
    )
    for data in (b"", b"{}", b"\xff", b"[" * 5000, *spoilt):
        assert data != whole
        path.write_bytes(data)
        assert mine.get(THREAD) is None
    mine.remove(THREAD)
    mine.remove(THREAD)
    assert mine.ids() == []


def test_what_one_server_has_is_not_forgotten_for_another(shelf: Shelf) -> None:
    mine, other = (Cursors(PosixDisk(), shelf.places, f"https://{one}", "ada") for one in "ab")
    mine.put(THREAD, mine.new())
    other.put(THREAD, Cursor("https://b", "ada", 3, "a" * 32))
    assert mine.get(THREAD) == mine.new()
    assert mine.list_other_cursors(THREAD) == [other.get(THREAD)]
    assert [one.url for one in other.list_other_cursors(THREAD)] == ["https://a"]
    other.put(THREAD, Cursor("https://b", "ada", is_purged=True))
    assert mine.list_other_cursors(THREAD) == []


def test_outputs_that_are_looked_for_again_are_kept_and_bounded(shelf: Shelf) -> None:
    mine = Cursors(PosixDisk(), shelf.places, "https://a", "ada")
    assert mine.missing_outputs() == frozenset()
    names = [MissingOutput(THREAD, f"{number:064x}") for number in range(OUTPUT_COUNT_MAX + 1)]
    mine.set_missing_outputs(names)
    assert mine.missing_outputs() == frozenset(names[1:])
    assert mine.ids() == []
    for data in (b"", b"[1]", b'[{"thread_id":"../x","sha256":"%064d"}]' % 0):
        (Path(mine.folder) / "outputs.json").write_bytes(data)
        assert mine.missing_outputs() == frozenset()
