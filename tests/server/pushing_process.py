"""A process that pushes one record after the other, and says each version it was answered with."""

from __future__ import annotations

import sys
from typing import Final

from sqlalchemy import select

from core.samples import said
from server.chains import chain
from server.people import at
from thread.journals import write
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.server.context import Context, Principal
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.thread.record import Head

HEADER: Final = chain(1, [])


def owner_of(database: Database) -> Principal:
    """Who pushes in these tests."""
    with database.read() as db:
        row = db.execute(select(schema.users).where(schema.users.c.name == "owner")).one()
    return Principal(row.id, row.name, row.organization_id)


def race(database: Database, writer: str, count: int) -> list[int]:
    """Try so often to append one record; the versions that were made."""
    owner = owner_of(database)
    base = HEADER.mark
    made = []
    for number in range(count):
        data, _ = write([(said(f"{writer} {number}"),)], Head(base.seq, base.hash))
        try:
            head = push(database, owner, base, data)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.CONFLICT:
                raise
            base = Mark(refusal.problem.server_version, refusal.problem.server_hash)  # type: ignore[arg-type]
        else:
            base = Mark(head.version, head.hash)
            made.append(head.version)
    return made


def push(database: Database, owner: Principal, base: Mark, data: bytes) -> threads.ThreadHead:
    """One request."""
    return database.run(
        lambda db: threads.push_records(Context(db, owner, at()), HEADER.thread, base, data),
        is_write=True,
    )


def main() -> None:
    """Push for ever, beginning where the thread is."""
    database = Database(sys.argv[1], lock_timeout_s=60)
    owner = owner_of(database)
    with database.read() as db:
        head = threads.read_head(Context(db, owner, at()), HEADER.thread)
    base = Mark(head.version, head.hash)
    while True:
        data, _ = write([(said("x" * 5000), said("y"))], Head(base.seq, base.hash))
        head = push(database, owner, base, data)
        base = Mark(head.version, head.hash)
        sys.stdout.write(f"{base.seq} {base.hash}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
