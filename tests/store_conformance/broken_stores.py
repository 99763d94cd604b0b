"""Stores that do not keep what a store promises, each by one small change of a good one."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from store_conformance.example import SqliteJournal, SqliteStore
from store_conformance.leased_store import LeasedJournal, LeasedStore, is_at_work
from treadle import ThreadBusyError
from treadle.store_conformance.journal_checks import THREADS


class Swapped(SqliteStore):
    """A store whose journals are of another class."""

    journal: Callable[[SqliteStore, str], SqliteJournal] = SqliteJournal

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        held = super().begin(thread_id, data, key)
        if held is None:
            return None
        held.close()
        return type(self).journal(self, thread_id)

    def hold(self, thread_id: str) -> SqliteJournal:
        super().hold(thread_id).close()
        return type(self).journal(self, thread_id)


class Buffering(SqliteJournal):
    """Appends when it is closed."""

    def __init__(self, store: SqliteStore, thread_id: str) -> None:
        super().__init__(store, thread_id)
        self.waiting: list[tuple[bytes, int]] = []

    def append(self, data: bytes, size: int) -> None:
        self.waiting.append((data, size))

    def close(self) -> None:
        for data, size in self.waiting:
            super().append(data, size)
        self.waiting = []
        super().close()


class Behind(SqliteJournal):
    """Each append is made with the next one, as where replies are not waited for."""

    last: tuple[bytes, int] | None = None

    def append(self, data: bytes, size: int) -> None:
        if self.last is not None:
            super().append(*self.last)
        self.last = (data, size)

    def close(self) -> None:
        if self.last is not None and self.lock >= 0:
            super().append(*self.last)
        super().close()


class Doubling(SqliteJournal):
    """Tries again what may have worked: a connection that is cut has often done its work."""

    def append(self, data: bytes, size: int) -> None:
        super().append(data, size)
        if data.startswith(b'{"line"'):
            super().append(data, size + len(data))


class Unchecking(SqliteJournal):
    """Appends wherever the journal ends, whatever its writer knows."""

    def append(self, data: bytes, size: int) -> None:
        size = sum(map(len, self.store.read(self.thread_id)))
        super().append(data, size)


class Immortal(SqliteJournal):
    """Appends after it was closed."""

    def append(self, data: bytes, size: int) -> None:
        with self.store.open() as db:
            (end,) = db.execute(
                "SELECT max(start + length(data)) FROM pieces WHERE thread = ?", (self.thread_id,)
            ).fetchone()
            if end != size:
                super().append(data, size)
            db.execute("INSERT INTO pieces VALUES (?, ?, ?)", (self.thread_id, size, data))


class Keeping(SqliteJournal):
    """Is never given free."""

    def close(self) -> None:
        pass


class Free(SqliteJournal):
    """Holds nothing."""

    def __init__(self, store: SqliteStore, thread_id: str) -> None:
        super().__init__(store, thread_id)
        self.close()
        self.lock = os.open(os.devnull, os.O_RDONLY)


class Marked(SqliteJournal):
    """Is held by a file that is there, which nobody removes for a process that was killed."""

    def __init__(self, store: SqliteStore, thread_id: str) -> None:
        super().__init__(store, thread_id)
        self.mark = Path(f"{store.path}.{thread_id}.mark")
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            raise ThreadBusyError(thread_id) from None

    def close(self) -> None:
        if self.lock >= 0 and self.mark.exists():
            self.mark.unlink()
        super().close()


class Uncut(SqliteJournal):
    """Cuts nothing."""

    def cut(self, size: int) -> str:
        return ""


class Gaping(SqliteJournal):
    """Appends the end of what it is given first: two transactions, and a reader between them."""

    def append(self, data: bytes, size: int) -> None:
        lines = data.splitlines(keepends=True)
        if len(lines) < 30:
            return super().append(data, size)
        middle = size + len(b"".join(lines[:20]))
        for start, part in ((middle, lines[20:]), (size, lines[:20])):
            with self.store.open() as db:
                row = (self.thread_id, start, b"".join(part))
                db.execute("INSERT INTO pieces VALUES (?, ?, ?)", row)
        return None


def _with(journal: type[SqliteJournal], *stores: type[SqliteStore]) -> type[SqliteStore]:
    kind = type(f"Swapped{journal.__name__}", (Swapped, *stores), {"journal": journal})
    globals()[kind.__name__] = kind  # another process finds it by its name
    return kind


class Late(SqliteStore):
    """Begins a journal without its bytes, which come with the close."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        held = super().begin(thread_id, b"", key)
        if held is not None:
            close = held.close
            held.close = lambda: (held.append(data, 0), close())  # type: ignore[method-assign, func-returns-value, assignment]
        return held


class Replacing(SqliteStore):
    """Begins a thread that is there anew."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        with self.open() as db:
            for table, column in (("threads", "id"), ("pieces", "thread")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (thread_id,))
        return super().begin(thread_id, data, key)


class Texts(SqliteStore):
    """Keeps texts."""

    def read(self, thread_id: str, start: int = 0) -> list[bytes]:
        whole = b"".join(super().read(thread_id))
        return [whole.decode("utf-8", "replace").encode()[start:]]


class Short(SqliteStore):
    """A column that has an end."""

    def read(self, thread_id: str, start: int = 0) -> list[bytes]:
        return [b"".join(super().read(thread_id))[: 2**22][start:]]


class Whole(SqliteStore):
    """Gives whole pieces, wherever it is asked to begin."""

    def read(self, thread_id: str, start: int = 0) -> list[bytes]:
        found, at = [], 0
        for piece in super().read(thread_id):
            if at + len(piece) > start:
                found.append(piece)
            at += len(piece)
        return found


class Remembering(SqliteStore):
    """Believes what it has read before."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.known: dict[str, list[bytes]] = {}

    def read(self, thread_id: str, start: int = 0) -> list[bytes]:
        if thread_id not in self.known:
            self.known[thread_id] = super().read(thread_id)
        return [b"".join(self.known[thread_id])[start:]]


class Inventing(SqliteStore):
    """Holds what was never begun."""

    def hold(self, thread_id: str) -> SqliteJournal:
        return SqliteJournal(self, thread_id)


class Forgetting(SqliteStore):
    """Lists the newest threads."""

    def ids(self) -> list[str]:
        return super().ids()[-25:]


class LastWins(SqliteStore):
    """A key is of the thread that was begun with it last."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        with self.open() as db:
            db.execute("UPDATE threads SET key = NULL WHERE key = ?", (key,))
        return super().begin(thread_id, data, key)


class Littering(SqliteStore):
    """Leaves a thread to who comes too late for its key."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        held = super().begin(thread_id, data, "")
        with self.open() as db:
            row = (key or None, thread_id)
            if db.execute("UPDATE OR IGNORE threads SET key = ? WHERE id = ?", row).rowcount:
                return held
        assert held is not None
        held.close()
        return None


class Looking(SqliteStore):
    """Looks whether a key is free, and then gives it."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        if key and self.find_key(key) is not None:
            return None
        held = super().begin(thread_id, data, "")
        with self.open() as db:
            db.execute("UPDATE threads SET key = NULL WHERE key = ?", (key,))
            db.execute("UPDATE threads SET key = ? WHERE id = ?", (key or None, thread_id))
        return held


class Early(SqliteStore):
    """Gives the key first, and begins the thread then."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        with self.open() as db:
            row = (thread_id, key or None)
            if not db.execute("INSERT OR IGNORE INTO threads VALUES (?, ?)", row).rowcount:
                return None
        with self.open() as db:
            db.execute("INSERT INTO pieces VALUES (?, 0, ?)", (thread_id, data))
        return SqliteJournal(self, thread_id)


class Sharing(SqliteStore):
    """Has one place for what is being appended, whichever thread of the program does it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.gate = threading.Barrier(THREADS)
        self.data = b""


class SharingJournal(SqliteJournal):
    store: Sharing

    def append(self, data: bytes, size: int) -> None:
        self.store.data = data
        self.store.gate.wait()  # the threads of the check are here at the same moment
        data = self.store.data
        self.store.gate.wait()
        super().append(data, size)


class Unfenced(LeasedStore):
    """Believes whoever has had the lease."""

    def hold(self, thread_id: str) -> LeasedJournal:
        return UnfencedJournal(self, thread_id, super().hold(thread_id).epoch)

    def begin(self, thread_id: str, data: bytes, key: str = "") -> LeasedJournal | None:
        held = super().begin(thread_id, data, key)
        return None if held is None else UnfencedJournal(self, thread_id, held.epoch)


class UnfencedJournal(LeasedJournal):
    def append(self, data: bytes, size: int) -> None:
        with self.store.open() as db:
            found = "SELECT epoch FROM leases WHERE thread = ?"
            (self.epoch,) = db.execute(found, (self.thread_id,)).fetchone()
        super().append(data, size)


class Releasing(LeasedStore):
    """Whoever has had the lease gives it free."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> LeasedJournal | None:
        held = super().begin(thread_id, data, key)
        return None if held is None else ReleasingJournal(self, thread_id, held.epoch)


class ReleasingJournal(LeasedJournal):
    def close(self) -> None:
        with self.store.open() as db:
            db.execute("UPDATE leases SET pid = 0 WHERE thread = ?", (self.thread_id,))


class Glancing(LeasedStore):
    """Looks whether a thread is free, and takes it then."""

    def hold(self, thread_id: str) -> LeasedJournal:
        self.read(thread_id)
        with self.open() as db:
            found = "SELECT epoch, pid FROM leases WHERE thread = ?"
            epoch, pid = db.execute(found, (thread_id,)).fetchone()
        if is_at_work(pid):
            raise ThreadBusyError(thread_id)
        with self.open() as db:
            row = (thread_id, epoch + 1, os.getpid())
            db.execute("REPLACE INTO leases VALUES (?, ?, ?)", row)
        return LeasedJournal(self, thread_id, epoch + 1)


class Folding(SqliteStore):
    """Keys in capital letters or not, as some databases compare texts."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        return super().begin(thread_id, data, key.lower())

    def find_key(self, key: str) -> str | None:
        return super().find_key(key.lower())


class Single(SqliteStore):
    """No key is a key."""

    def begin(self, thread_id: str, data: bytes, key: str = "") -> SqliteJournal | None:
        return super().begin(thread_id, data, key or "none")


class Truncating(SqliteStore):
    """A column for blobs that has an end."""

    def load_blob(self, name: str) -> bytes | None:
        data = super().load_blob(name)
        return data and data[: 2**20]


class Prefixed(SqliteStore):
    """Finds blobs by the beginning of their names."""

    def load_blob(self, name: str) -> bytes | None:
        with self.open() as db:
            found = db.execute("SELECT data FROM blobs WHERE name LIKE ?", (name[:16] + "%",))
            return next((data for (data,) in found), None)


class Bound(SqliteStore):
    """One connection, which is of the thread that has opened it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.db = sqlite3.connect(path, timeout=60)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        if not hasattr(self, "db"):
            with super().open() as db:
                yield db
        else:
            with self.db:
                yield self.db


class Local(SqliteStore):
    """The time of the wall."""

    def now(self) -> str:
        return datetime.now(UTC).astimezone().isoformat()


BROKEN: Final[dict[str, tuple[type[SqliteStore], str]]] = {
    "appends when it is closed": (_with(Buffering), "appends_in_order"),
    "acknowledges before it appends": (_with(Behind), "loses_nothing_when_killed"),
    "appends once more": (_with(Doubling), "appends_in_order"),
    "appends wherever the end is": (_with(Unchecking), "refuses_other_sizes"),
    "appends after its close": (_with(Immortal), "believes_no_former_holder"),
    "is never free": (_with(Keeping), "holds_for_one"),
    "holds nothing": (_with(Free), "holds_for_one"),
    "stays held by the dead": (_with(Marked), "frees_what_the_dead_have_held"),
    "cuts nothing": (_with(Uncut), "cuts"),
    "appends the end first": (_with(Gaping), "shows_readers_no_damage"),
    "begins late": (Late, "begins_whole"),
    "begins anew": (Replacing, "begins_once"),
    "keeps texts": (Texts, "keeps_every_byte"),
    "cuts long journals": (Short, "keeps_every_byte"),
    "reads from piece to piece": (Whole, "reads_from_anywhere"),
    "believes what it has read": (Remembering, "appends_in_order"),
    "holds what is not there": (Inventing, "knows_no_other_threads"),
    "lists the newest": (Forgetting, "lists_all_threads"),
    "gives a key to the last": (LastWins, "gives_keys_once"),
    "leaves threads without a key": (Littering, "gives_keys_once"),
    "looks before it gives a key": (Looking, "gives_keys_once_in_a_race"),
    "gives a key before it begins": (Early, "gives_no_key_to_a_half"),
    "looks before it gives a thread": (Glancing, "holds_for_one_in_a_race"),
    "believes who has slept": (Unfenced, "refuses_who_has_slept"),
    "gives free what is another's": (Releasing, "refuses_who_has_slept"),
    "has one place for all threads": (_with(SharingJournal, Sharing), "works_in_many_threads"),
    "takes keys for one another": (Folding, "tells_keys_apart"),
    "takes no key for one": (Single, "tells_keys_apart"),
    "cuts long blobs": (Truncating, "keeps_blobs"),
    "finds blobs by a beginning": (Prefixed, "keeps_blobs"),
    "is of one thread of a program": (Bound, "works_in_any_thread"),
    "tells the time of the wall": (Local, "tells_the_time"),
}
"""What is wrong with each, and the check that finds it."""
