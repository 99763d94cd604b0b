"""The threads of a store that a program has brought, where a crash or the store has its say."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.samples import answer, said
from store.shelf import CREATOR, fill
from store_conformance.example import SqliteStore
from treadle import Agent, BuildError, ScriptedModel, StoreError, Threads
from treadle.core.messages import BlobRef
from treadle.errors import (
    DamagedJournalError,
    DiskError,
    MissingBlobError,
    ReadOnlyThreadError,
    StaleWriterError,
    UnknownThreadError,
    UsageError,
)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(str(tmp_path / "threads.db"))


def make_thread(store: SqliteStore) -> str:
    writer = Threads(store).create(CREATOR)
    fill(writer, (said("hello"),), (answer("yes"),))
    writer.close()
    return writer.thread_id


def append(store: SqliteStore, thread_id: str, data: bytes) -> None:
    held = store.hold(thread_id)
    held.append(data, sum(map(len, store.read(thread_id))))
    held.close()


def test_what_a_crash_has_left_of_an_append_is_cut_off_and_told(store: SqliteStore) -> None:
    thread_id = make_thread(store)
    append(store, thread_id, b'{"seq":4,"at":"20')
    assert len(Threads(store).load(thread_id).fold.conversation) == 2
    writer = Threads(store).open(thread_id)
    assert writer.note == "an unfinished write was cut off"
    fill(writer, (said("again"),))
    writer.close()
    again = Threads(store).open(thread_id)
    assert [one.content for one in again.fold.conversation] == ["hello", "yes", "again"]
    assert again.note == ""
    again.close()


def test_damage_is_told_and_nothing_is_cut(store: SqliteStore) -> None:
    thread_id = make_thread(store)
    with store.open() as db:
        db.execute(
            "UPDATE pieces SET data = CAST(replace(CAST(data AS TEXT), 'hello', 'jello') AS BLOB)"
        )
    before = store.read(thread_id)
    with pytest.raises(DamagedJournalError, match=f"the journal of {thread_id} is damaged"):
        Threads(store).open(thread_id)
    (line,) = Threads(store).list()
    assert line.problem
    assert store.read(thread_id) == before
    store.hold(thread_id).close()  # it was given free


def test_what_a_newer_version_has_written_is_shown_and_not_gone_on_with(
    store: SqliteStore,
) -> None:
    thread_id = make_thread(store)
    head = Threads(store).load(thread_id).head
    from treadle.thread.record import encode_batch

    append(store, thread_id, encode_batch(head, head.at, [b'{"type":"from_the_future"}'])[0])
    with pytest.raises(ReadOnlyThreadError, match="written by a newer Treadle"):
        Threads(store).open(thread_id)
    assert len(Threads(store).load(thread_id).fold.conversation) == 2


def test_a_writer_that_was_refused_is_finished(store: SqliteStore) -> None:
    writer = Threads(store).create(CREATOR)
    with store.open() as db:
        db.execute("UPDATE pieces SET data = data || X'0A'")
    writer.stage(said("hello"))
    for _ in range(2):
        with pytest.raises(StaleWriterError):
            writer.commit()
        writer.stage(said("again"))
    assert not writer.is_usable
    assert writer.close() is None


def test_forks_name_versions_that_are_there(store: SqliteStore) -> None:
    thread_id = make_thread(store)
    with pytest.raises(UnknownThreadError, match="has versions 1 to 3, not 4"):
        Threads(store).fork(thread_id, 4, creator=CREATOR)
    fork = Threads(store).fork(thread_id, 2, creator=CREATOR)
    fork.close()
    again = Threads(store).open(fork.thread_id)
    assert [one.content for one in again.fold.conversation] == ["hello"]
    again.close()
    with store.open() as db:
        db.execute("DELETE FROM threads WHERE id = ?", (thread_id,))
    with pytest.raises(DamagedJournalError, match="what it was forked from is gone"):
        Threads(store).open(fork.thread_id)


def test_an_output_that_is_gone_or_another_one_is_missed(store: SqliteStore) -> None:
    writer = Threads(store).create(CREATOR)
    ref = writer.keep(b"much")
    assert writer.read_kept(ref) == b"much"
    with store.open() as db:
        db.execute("UPDATE blobs SET data = X'00'")
    with pytest.raises(MissingBlobError, match="damaged"):
        writer.read_kept(ref)
    with pytest.raises(MissingBlobError, match="gone"):
        writer.read_kept(BlobRef("0" * 64, 4))
    writer.close()


def test_what_a_store_cannot_do_is_told_as_a_fault_of_the_store(
    store: SqliteStore, tmp_path: Path
) -> None:
    thread_id = make_thread(store)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "no")

    uses: dict[str, tuple[Callable[[Threads], object], str]] = {
        "begin": (lambda threads: threads.create(CREATOR), "create"),
        "hold": (lambda threads: threads.open(thread_id), "open"),
        "read": (lambda threads: threads.load(thread_id), "read"),
        "ids": (lambda threads: threads.list(), "list"),
        "find_key": (lambda threads: threads.open_by_key("a", CREATOR), "read"),
    }
    for name, (use, why) in uses.items():
        broken = SqliteStore(store.path)
        setattr(broken, name, refuse)
        with pytest.raises(DiskError, match=f"cannot {why}"):
            use(Threads(broken))
    Path(store.path).write_bytes(b"no database, and long enough to be none: " * 50)
    with pytest.raises(StoreError, match="file is not a database") as raised:
        Threads(store).ids()
    assert isinstance(raised.value.__cause__, sqlite3.Error)


def test_keys_are_texts(store: SqliteStore) -> None:
    for key in ("", "x" * 501, "\ud800"):
        with pytest.raises(UsageError, match="a text of 1 to 500 characters"):
            Threads(store).open_by_key(key, CREATOR)


def test_what_is_no_store_is_refused_where_the_agent_is_declared() -> None:
    wrong: Any = {"no": "store"}
    with pytest.raises(BuildError, match="is no store: it has no now, begin, hold"):
        Agent("a", model=ScriptedModel.of("Yes."), store=wrong)


def test_new_records_are_followed(store: SqliteStore) -> None:
    writer = Threads(store).create(CREATOR)
    follower = Threads(store).follow(writer.thread_id)
    assert len([*follower.read_new()]) == 1
    assert [*follower.read_new()] == []
    fill(writer, (said("hello"), answer("yes")), (said("more"),))
    assert [one.seq for one in follower.read_new()] == [2, 3, 4]
    writer.close()
