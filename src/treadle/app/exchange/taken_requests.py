"""Which requests of people a thread has taken, as its journal says."""

from __future__ import annotations

from typing import Final

import msgspec

from treadle.app.exchange.thread_export import read_journal_parts
from treadle.store.local_store import LocalStore
from treadle.thread.facts import RequestTaken

_TAG: Final = str(RequestTaken.__struct_config__.tag)


def read_taken_requests(store: LocalStore, thread_id: str) -> list[str]:
    """The ids of the requests that the journal of a thread says were taken.

    Raises:
        StoreError: it cannot be read.
    """
    mark = f'"{_TAG}"'.encode()
    records = read_journal_parts(store, thread_id)[-1].records
    events = [bytes(one.event) for one in records]
    found = [msgspec.json.decode(event) for event in events if mark in event]
    return [str(one["id"]) for one in found if one.get("type") == _TAG]
