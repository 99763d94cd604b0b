"""A thread that the index meets for the first time stands there as loading it says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from core.samples import answer, said
from store.shelf import CREATOR, Shelf
from treadle.store.index.lookup import Index
from treadle.thread.facts import Tagged
from treadle.thread.record import encode_batch

OF_NEWER = b'{"type":"from_the_future","note":"x"}'


def leave_plain(shelf: Shelf) -> None:
    shelf.snapshot(shelf.create((said("one"), answer("two")))).unlink()


def leave_forks(shelf: Shelf) -> None:
    """A fork, and a fork of that."""
    base = shelf.create((said("one"), answer("two")))
    for _ in range(2):
        writer = shelf.store.fork(base, creator=CREATOR)
        writer.close()
        base = writer.thread_id
    for path in shelf.threads.glob("*.json"):
        path.unlink()


def leave_newer(shelf: Shelf) -> None:
    """Something that this version does not know, and more behind it that it does."""
    thread = shelf.create((said("one"), answer("two")))
    journal, after = shelf.journal(thread), shelf.store.scan(thread).head
    for event in (OF_NEWER, b'{"type":"renamed","title":"behind it"}'):
        data, after = encode_batch(after, after.at, [event])
        with journal.open("ab") as file:
            file.write(data)
    shelf.snapshot(thread).unlink()


def leave_lost_end(shelf: Shelf) -> None:
    """A snapshot that knows more than the journal."""
    thread = shelf.create((said("one"),), (answer("two"),))
    journal = shelf.journal(thread)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))


def leave_foreign(shelf: Shelf) -> None:
    """The journal of one thread under the name of another."""
    thread = shelf.create((said("one"), answer("two")))
    shelf.snapshot(thread).unlink()
    shelf.journal(thread).rename(shelf.journal(shelf.next_id()))


CASES: dict[str, Callable[[Shelf], None]] = {
    "plain": leave_plain,
    "forks": leave_forks,
    "of a newer version": leave_newer,
    "a lost end": leave_lost_end,
    "another's journal": leave_foreign,
}


def test_each_thread_is_told_as_loading_it_says(shelf: Shelf) -> None:
    problems = {}
    for name, leave in CASES.items():
        before = {*shelf.store.ids()}
        leave(shelf)
        for thread in {*shelf.store.ids()} - before:
            loaded = shelf.store.load(thread)
            problems[name] = loaded.problem
            with closing(Index(shelf.store)) as index:
                [line] = [one for one in index.list_threads() if one.id == thread]
            summary = loaded.fold.summary(loaded.problem)
            assert line.problem == loaded.problem, name
            assert (line.message_count, line.title, line.version) == (
                summary.message_count,
                summary.title,
                summary.version,
            ), name
    assert {name for name, problem in problems.items() if not problem} == {"plain", "forks"}


def test_the_words_of_threads_that_are_taken_in_together_are_written_once(shelf: Shelf) -> None:
    """A statement that may be undone by itself makes the full-text index write what it holds."""
    for number in range(12):
        shelf.create((Tagged(("red",)), said(f"word{number}")), (answer(f"answer{number}"),))
    with closing(Index(shelf.store)) as index:
        index.update_all()
        database = index._file._open()
        count = database.execute("SELECT count(DISTINCT segid) FROM words_idx").fetchone()
        assert count == (1,)
