"""Journals to push: of any thread, cut where a test wants them cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select

from server.people import People, at
from thread.journals import HEADER, PLAIN, write
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.server import search
from treadle.server.context import Context
from treadle.server.data.database import Database
from treadle.server.data.schema import metadata, records
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.thread.codec import Entry
from treadle.thread.facts import Base
from treadle.thread.record import Head, Record, scan_journal

GENESIS: Final = Mark()


class Chain(Struct, frozen=True):
    """A journal's bytes, and its head."""

    thread: str
    data: bytes
    head: Head

    @property
    def mark(self) -> Mark:
        return Mark(self.head.seq, self.head.hash)

    def upto(self, seq: int) -> Chain:
        """Its first records."""
        data = b"".join(self.data.splitlines(keepends=True)[:seq])
        found = scan_journal(data)
        return Chain(self.thread, data, found.head)

    def after(self, seq: int) -> bytes:
        """The lines that follow a record."""
        return b"".join(line + b"\n" for line in self.data.split(b"\n")[seq:-1])

    def more(self, *batches: Sequence[Entry]) -> Chain:
        """The same, gone on."""
        data, head = write(batches, self.head)
        return Chain(self.thread, self.data + data, head)

    def base(self, seq: int) -> Base:
        """What a fork of it goes on from."""
        mark = self.upto(seq).mark
        return Base(self.thread, mark.seq, mark.hash)


def thread_id(number: int) -> str:
    return f"T-01900000-0000-7000-8000-{number:012x}"


def chain(number: int = 1, batches: Iterable[Sequence[Entry]] = PLAIN[1:], **header: Any) -> Chain:
    """A journal of this thread; its first write is the header alone."""
    first = replace(HEADER, thread=thread_id(number), **header)
    data, head = write([(first,), *batches])
    return Chain(first.thread, data, head)


def push(people: People, one: Chain, base: Mark = GENESIS, name: str = "owner") -> ThreadHead:
    """Push all that follows the base, and have it indexed, as a server does a moment later."""
    head = send(people, one, base, name)
    index_all(people.database)
    return head


def send(people: People, one: Chain, base: Mark = GENESIS, name: str = "owner") -> ThreadHead:
    """Push all that follows the base, as a request of its own."""
    body = one.after(base.seq)
    return people.database.run(
        lambda db: threads.push_records(Context(db, people[name], at()), one.thread, base, body),
        is_write=True,
    )


def index_all(database: Database) -> int:
    """Have the search take in all that was pushed; in how many steps."""
    steps = 0
    while database.run(search.index_oldest_pending, is_write=True):
        steps += 1
    return steps


def kept(people: People, thread: str) -> bytes:
    """The journal as the server has it; its chain is intact."""
    with people.database.read() as db:
        query = select(records.c.line).where(records.c.thread_id == thread).order_by(records.c.seq)
        data = b"".join(line.encode() + b"\n" for (line,) in db.execute(query))
    found = scan_journal(data)
    assert found.condition.value == "clean"
    return data


def row(people: People, table: Any, **where: Any) -> Any:
    """The only row of a table with these values."""
    rows = rows_of(people, table, **where)
    assert len(rows) == 1
    return rows[0]


def rows_of(people: People, table: Any, **where: Any) -> list[Any]:
    with people.database.read() as db:
        query = select(table)
        for name, value in where.items():
            query = query.where(table.c[name] == value)
        return list(db.execute(query.order_by(*table.primary_key.columns)))


def refused(people: People, one: Chain, base: Mark = GENESIS, name: str = "owner") -> Refusal:
    before = tables(people)
    with pytest.raises(Refusal) as caught:
        push(people, one, base, name)
    assert tables(people) == before
    return caught.value


def tables(people: People) -> list[Any]:
    return [rows_of(people, table) for table in metadata.sorted_tables]


def document(people: People, thread: str, version: int | None = None) -> dict[str, Any]:
    with people.reading() as context:
        mark, body = threads.read_document(context, thread, version)
    found = json.loads(body)
    assert found["version"] == mark.seq
    return dict(found)


def event_types(found: Sequence[Record] | bytes) -> list[str]:
    """What kinds of records these are."""
    lines = scan_journal(found).records if isinstance(found, bytes) else found
    return [msgspec.json.decode(record.event)["type"] for record in lines]
