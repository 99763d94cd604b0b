"""The threads of a store that a program has brought, where a crash or the store has its say."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.samples import answer, said
from store.shelf import CREATOR, fill
from store_conformance.example import SqliteJournal, SqliteStore
from treadle import (
    Agent,
    BuildError,
    LocalStore,
    ScriptedModel,
    StoreError,
    ThreadBusyError,
    Threads,
)
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
from treadle.thread.codec import encode_entry
from treadle.thread.facts import PrivacySet, Recovered
from treadle.thread.record import encode_batch


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


def test_where_a_store_has_kept_what_it_cut_off_is_told(store: SqliteStore) -> None:
    class Keeping(SqliteJournal):
        def cut(self, size: int) -> str:
            super().cut(size)
            return "the table `cut`"

    thread_id = make_thread(store)
    append(store, thread_id, b'{"seq":4,"at":"20')
    store.hold = lambda thread_id: Keeping(store, thread_id)  # type: ignore[method-assign]
    writer = Threads(store).open(thread_id)
    assert writer.note == "an unfinished write was cut off and kept in the table `cut`"
    writer.close()


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


def test_a_batch_that_waits_to_be_synced_is_not_replaced(store: SqliteStore) -> None:
    writer = Threads(store).create(CREATOR)
    writer.stage(said("hello"))
    writer.write()
    writer.stage(said("again"))
    with pytest.raises(StaleWriterError, match="failed before"):
        writer.write()
    writer.close()
    assert Threads(store).load(writer.thread_id).fold.version == 1


def test_what_a_store_cannot_do_of_a_thread_is_told_as_its_fault_too(store: SqliteStore) -> None:
    thread_id = make_thread(store)

    def refuse(*_: object) -> None:
        raise OSError(5, "no")

    broken = SqliteStore(store.path)
    follower = Threads(broken).follow(thread_id)
    writer = Threads(broken).open(thread_id)
    ref = writer.keep(b"much")
    for name in ("keep_blob", "load_blob", "read"):
        setattr(broken, name, refuse)
    with pytest.raises(DiskError, match="cannot keep"):
        writer.keep(b"more")
    with pytest.raises(DiskError, match="cannot read"):
        writer.read_kept(ref)
    with pytest.raises(DiskError, match="cannot read"):
        list(follower.read_new())
    writer.stage(said("more"))
    writer.commit()  # nothing of that has to do with the thread itself
    writer.close()


def test_an_append_or_a_cut_that_fails_is_a_fault_of_the_store(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "full")

    thread_id = make_thread(store)
    writer = Threads(store).open(thread_id)
    monkeypatch.setattr(SqliteJournal, "append", refuse)
    writer.stage(said("more"))
    with pytest.raises(DiskError, match="cannot write"):
        writer.commit()
    writer.close()
    monkeypatch.undo()
    append(store, thread_id, b'{"seq":4,"at":"20')
    monkeypatch.setattr(SqliteJournal, "cut", refuse)
    with pytest.raises(DiskError, match="cannot cut the torn end of"):
        Threads(store).open(thread_id)
    monkeypatch.undo()
    Threads(store).open(thread_id).close()  # it was given free


def test_a_thread_is_read_when_it_is_held(store: SqliteStore) -> None:
    """Who writes until a moment before may have appended after a look."""
    thread_id = make_thread(store)

    class Slow(SqliteStore):
        def hold(self, thread_id: str) -> SqliteJournal:
            other = Threads(store).open(thread_id)
            fill(other, (said("a moment before"),))
            other.close()
            return super().hold(thread_id)

    writer = Threads(Slow(store.path)).open(thread_id)
    fill(writer, (answer("heard"),))
    writer.close()
    said_last = [one.content for one in Threads(store).load(thread_id).fold.conversation][-2:]
    assert said_last == ["a moment before", "heard"]


def test_a_fork_is_a_thread_of_nobody_and_as_private(store: SqliteStore) -> None:
    threads = Threads(store)
    base = threads.open_by_key("customer-7", CREATOR, first=(said("hello"),))
    base.close()
    child = threads.create(CREATOR, is_private=True, parent=(base.thread_id, "call", 1))
    child.close()
    assert threads.load(child.thread_id).fold.header.is_private
    later = threads.create(CREATOR, first=(PrivacySet(True),))
    later.close()
    ids = (base.thread_id, child.thread_id, later.thread_id)
    for one in ids:
        fork = threads.fork(one, creator=CREATOR)
        fork.close()
        header = threads.load(fork.thread_id).fold.header
        found = (header.key, header.parent, header.parent_call, header.depth, header.is_private)
        assert found == ("", None, None, 0, one != base.thread_id)
    assert threads.find_key("customer-7") == base.thread_id
    assert threads.ids() == sorted(threads.ids(), reverse=True)
    assert len(threads.ids()) == 6


def test_first_entries_are_redacted_and_have_the_time_of_their_record(store: SqliteStore) -> None:
    writer = Threads(store).create(
        CREATOR, first=(said("sesame"),), redact=lambda text: text.replace("sesame", "[...]")
    )
    again = Threads(store).load(writer.thread_id)
    assert writer.fold.document() == again.fold.document()
    assert [one.content for one in again.fold.conversation] == ["[...]"]
    writer.close()


def test_why_a_program_left_its_work_is_told_to_the_next(store: SqliteStore) -> None:
    writer = Threads(store).create(CREATOR)
    fill(writer, (said("go"), Recovered(stopped="the program was ended")))
    writer.close()
    again = Threads(store).open(writer.thread_id)
    assert again.stopped == "the program was ended"
    again.close()


def test_a_key_that_another_one_begins_meanwhile_is_gone_on_with(store: SqliteStore) -> None:
    threads = Threads(store)
    find = store.find_key

    def begin_meanwhile(key: str) -> str | None:
        store.find_key = find  # type: ignore[method-assign]
        other = Threads(store).open_by_key(key, CREATOR, first=(said("first"),))
        other.close()
        return None

    store.find_key = begin_meanwhile  # type: ignore[method-assign]
    writer = threads.open_by_key("customer-7", CREATOR, first=(said("second"),))
    writer.close()
    assert [one.content for one in writer.fold.conversation] == ["first"]
    assert threads.ids() == [writer.thread_id]


def test_a_follower_waits_for_what_is_torn_and_tells_damage(store: SqliteStore) -> None:
    thread_id = make_thread(store)
    head = Threads(store).load(thread_id).head
    data = encode_batch(head, head.at, [encode_entry(said("more"))[1]])[0]
    follower = Threads(store).follow(thread_id)
    assert len([*follower.read_new()]) == 3
    append(store, thread_id, data[:20])
    assert [*follower.read_new()] == []
    append(store, thread_id, data[20:])
    assert [one.seq for one in follower.read_new()] == [4]
    append(store, thread_id, data)
    with pytest.raises(DamagedJournalError):
        list(follower.read_new())


def test_a_folder_is_the_same_through_the_port(tmp_path: Path) -> None:
    """What is written one way is read, held and found the other way."""
    own, ported = LocalStore(tmp_path), Threads(LocalStore(tmp_path))
    for first, second in ((own, ported), (ported, own)):
        key = type(first).__name__
        writer = first.open_by_key(key, CREATOR, first=(said("hello"),))
        with pytest.raises(ThreadBusyError):
            second.open(writer.thread_id)
        ref = writer.keep(b"much")
        writer.close()
        again = second.open_by_key(key, CREATOR)
        assert (again.thread_id, again.read_kept(ref)) == (writer.thread_id, b"much")
        assert again.fold.document() == writer.fold.document()
        fill(again, (answer("yes"),))
        again.close()
        assert first.load(writer.thread_id).fold.document() == again.fold.document()
    assert own.ids() == ported.ids()
