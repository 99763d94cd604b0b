"""The server of a simulation: its real services over a real SQLite file, without the HTTP.

It can die before a commit, and between a commit and its answer; then it starts again from what is
on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select

from server.chains import index_all
from server.databases import Templates
from server.people import at, populate
from sync.simulated_network import Request, stopped
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.errors import RemoteConflictError, RemoteRefusedError, RemoteUnavailableError
from treadle.server import search
from treadle.server.accounts import accounts
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.data.fold_cache import FOLD_CACHE
from treadle.server.refusals import Refusal
from treadle.server.search.text_index import search_texts
from treadle.server.threads import threads

HEADS_MAX: Final = 5
"""Small, so that a client has to ask several times."""

WRITES: Final = frozenset({"push", "replace", "purge", "put_blob"})


class Death(Enum):
    """When the server dies while it works on a request."""

    NOT = "not"
    BEFORE = "before the commit"
    AFTER = "after the commit"


class _Dead(Exception):  # noqa: N818  it is no error
    pass


class SimulatedServer:
    """One owner's server.

    Args:
        templates: where an empty database comes from.
        folder: where its file goes.
    """

    def __init__(self, templates: Templates, folder: Path) -> None:
        self._url = templates.copy("sqlite", folder)
        self.database = Database(self._url, pool_size=1)
        self.people = populate(self.database)
        self.ticks = 0
        self.death_count = 0

    def close(self) -> None:
        """Give the file back, and remove it."""
        self.database.dispose()
        path = Path(self._url.removeprefix("sqlite:///"))
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).unlink()

    def start_again(self) -> None:
        """Forget all that is in memory."""
        self.death_count += 1
        self.database.dispose()
        FOLD_CACHE.clear()
        self.database = Database(self._url, pool_size=1)

    def handle(self, request: Request, death: Death = Death.NOT) -> Any:
        """Perform a request.

        Raises:
            RemoteError: what the client sees.
        """
        self.ticks += 1
        if self.ticks % 3 == 0:
            self.database.run(search.index_oldest_pending, is_write=True)
        try:
            return self._performed(request, death)
        except Refusal as refusal:
            raise told(refusal) from refusal
        except _Dead:
            self.start_again()
            raise stopped() from None

    def _performed(self, request: Request, death: Death) -> Any:
        def work(connection: Any) -> Any:
            caller = self.people["owner"]
            found = _HANDLERS[request.name](Context(connection, caller, at(self.ticks)), request)
            if death is Death.BEFORE:
                raise _Dead
            return found

        found = self.database.run(work, is_write=request.name in WRITES)
        if death is Death.AFTER:
            raise _Dead
        return found

    # ---- what the checker looks at -------------------------------------------------------------

    def indexed(self) -> dict[str, bytes]:
        """The texts that the search has of every thread, once all are taken in."""
        index_all(self.database)
        found: dict[str, list[str]] = {}
        with self.database.read() as connection:
            for row in connection.execute(select(search_texts).order_by(search_texts.c.id)):
                found.setdefault(row.thread_id, []).append(row.text)
        return {name: "\n".join(some).encode() for name, some in found.items()}

    def journals(self) -> dict[str, bytes]:
        """Every thread's records as they lie in the database, and what its row says of the end."""
        found: dict[str, list[str]] = {}
        with self.database.read() as connection:
            rows = select(schema.records).order_by(schema.records.c.thread_id, schema.records.c.seq)
            for row in connection.execute(rows):
                lines = found.setdefault(row.thread_id, [])
                assert row.seq == len(lines) + 1, f"a gap in {row.thread_id} before {row.seq}"
                lines.append(row.line)
            for row in connection.execute(select(schema.threads)):
                stands = Mark(row.version, row.hash)
                lines = found.get(row.id, [])
                if row.purged_at is None:
                    assert stands.seq == len(lines), f"{row.id} says {stands}, has {len(lines)}"
                    assert f'"hash":"{stands.hash}"}}' in lines[-1]
                else:
                    assert not lines, f"{row.id} was purged and has records"
        return {
            name: "".join(f"{one}\n" for one in lines).encode() for name, lines in found.items()
        }


def told(refusal: Refusal) -> Exception:
    """What a client makes of a refusal, as `sync/http_transport.py` does of the answer."""
    problem = refusal.problem
    if refusal.code is ErrorCode.CONFLICT:
        assert isinstance(problem.server_version, int)
        assert isinstance(problem.server_hash, str)
        return RemoteConflictError(
            problem.message, seq=problem.server_version, hash=problem.server_hash
        )
    if refusal.code in (
        ErrorCode.UNAVAILABLE,
        ErrorCode.TOO_MANY,
        ErrorCode.INTERNAL,
        ErrorCode.TIMEOUT,
    ):
        return RemoteUnavailableError(problem.message)
    return RemoteRefusedError(
        problem.message, hint=problem.hint, code=refusal.code.value, status=refusal.code.status
    )


def _records(context: Context, request: Request) -> bytes:
    lines: list[bytes] = []
    after: Mark | int = request.mark
    while piece := threads.read_records(context, request.thread, after, 50):
        lines += piece
        after = (request.mark.seq) + len(lines)
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)


def _purge(context: Context, request: Request) -> None:
    with suppress(Refusal):
        threads.purge_thread(context, request.thread)


_HANDLERS: Final[dict[str, Callable[[Context, Request], Any]]] = {
    "me": lambda context, request: accounts.get_current_user(context),
    "push": lambda context, one: threads.push_records(context, one.thread, one.mark, one.body),
    "replace": lambda context, one: threads.replace_records(
        context, one.thread, one.mark, one.body
    ),
    "purge": _purge,
    "heads": lambda context, one: threads.list_heads(
        context, one.number, HEADS_MAX, one.stamp or None
    ),
    "records": _records,
}
