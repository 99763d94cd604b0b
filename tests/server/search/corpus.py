"""Threads on a server, for tests of what is found: their rows, and their texts in the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, insert

from server.people import People, at
from thread.journals import records_of, write
from treadle.server import search
from treadle.server.data import schema
from treadle.thread.codec import Entry
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import FORMAT_VERSION, ThreadCreated

EMPTY: Final = ThreadSummary("", 0, at(), at(), None, "waiting_for_user_input", 0)


def id_of(number: int) -> str:
    return f"T-01900000-0000-7000-8000-{number:012x}"


def add(
    people: People,
    number: int,
    entries: Sequence[Entry] = (),
    *,
    owner: str = "owner",
    summary: ThreadSummary = EMPTY,
    **columns: Any,
) -> str:
    """A thread of records: its row, and the texts of its records. Gives its id."""
    with people.database.write() as connection:
        put_row(connection, people, number, owner, summary, len(entries) + 1, columns)
        header = ThreadCreated(FORMAT_VERSION, id_of(number), "chat", "treadle/0.1.0", "/w", "/w")
        records = records_of(write([(header, *entries)])[0])
        search.index_records(connection, id_of(number), records)
    return id_of(number)


def put_row(
    connection: Connection,
    people: People,
    number: int,
    owner: str,
    summary: ThreadSummary,
    version: int,
    columns: dict[str, Any],
) -> None:
    line = replace(summary, id=id_of(number), version=version)
    row: dict[str, Any] = {
        "key": id_of(number),
        "id": id_of(number),
        "owner_id": people[owner].user_id,
        "organization_id": people[owner].organization_id,
        "kind": "records",
        "version": version,
        "hash": f"{number:032x}",
        "change": number,
        "created_at": at(number),
        "updated_at": at(number),
        "last_activity_at": at(number),
        "visibility": "organization",
        "is_shared_with_support": False,
        "tags": msgspec.json.encode(line.tags).decode(),
        "is_pinned": False,
        "machine": line.machine,
        "agent_state_kind": line.state,
        "message_count": 0,
        "summary": msgspec.json.encode(line).decode(),
    }
    connection.execute(insert(schema.threads).values({**row, **columns}))
