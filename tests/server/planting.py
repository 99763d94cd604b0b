"""Threads put into a database as they are, past every rule, for tests of the rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert

from server.people import at
from thread.journals import ID, PLAIN, records_of, write
from treadle.server.context import Principal
from treadle.server.data import schema
from treadle.thread.codec import Entry
from treadle.thread.facts import ThreadCreated

MISSING: Final = "T-01900000-0000-7000-8000-0000000fffff"
"""No test plants this one."""


def id_of(number: int) -> str:
    """A thread id, one for every number."""
    return f"T-01900000-0000-7000-8000-{number:012x}"


def plant(db: Connection, thread_id: str, owner: Principal, **columns: Any) -> str:
    """A live thread of an organization without a word in it, but for what is said of its row."""
    row = {
        "key": thread_id,
        "id": thread_id,
        "owner_id": owner.user_id,
        "organization_id": owner.organization_id,
        "kind": "records",
        "version": 0,
        "hash": "0" * 32,
        "change": int(thread_id[-12:], 16),
        "created_at": at(),
        "updated_at": at(),
        "last_activity_at": at(),
        "visibility": "organization",
        "is_shared_with_support": False,
        "tags": "[]",
        "is_pinned": False,
        "machine": "chat",
        "agent_state_kind": "waiting_for_user_input",
        "message_count": 0,
        "summary": json.dumps(
            {
                "id": thread_id,
                "version": 0,
                "created_at": at(),
                "updated_at": at(),
                "title": None,
                "state": "waiting_for_user_input",
                "message_count": 0,
            }
        ),
    }
    db.execute(insert(schema.threads).values(**(row | columns)))
    return thread_id


def plant_records(
    db: Connection,
    owner: Principal,
    batches: Sequence[Sequence[Entry]] = PLAIN,
    until: int | None = None,
    **columns: Any,
) -> str:
    """A thread with its journal.

    Args:
        db: the transaction.
        owner: whose it is.
        batches: the entries, the header first.
        until: leave out what comes after this record.
        columns: of its row.
    """
    data, head = write(batches)
    header = batches[0][0]
    assert isinstance(header, ThreadCreated)
    thread_id = plant(db, header.thread, owner, version=head.seq, hash=head.hash, **columns)
    lines = data.decode().split("\n")[:-1][:until]
    for record, line in zip(records_of(data), lines, strict=False):
        db.execute(
            insert(schema.records).values(
                thread_id=thread_id, seq=record.seq, hash=record.hash, at=record.at, line=line
            )
        )
    return thread_id


THREAD: Final = ID
"""The id of the thread in `PLAIN`."""
