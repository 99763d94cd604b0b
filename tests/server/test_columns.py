"""What the row of a thread still says after a purge: nothing that was said in it."""

from __future__ import annotations

from typing import Final

from treadle.server.data.schema import threads
from treadle.server.threads.columns import PURGED_COLUMNS

STAYING: Final = {
    *("key", "id", "owner_id", "organization_id", "kind", "version", "hash", "change", "machine"),
    *("created_at", "updated_at", "last_activity_at", "deleted_at", "purged_at"),
    "is_usage_counted",
}
"""Whose the thread was, and when: the purge sets them itself, or they hold no word of anybody."""


def test_a_purge_empties_every_column_of_a_thread_that_does_not_stay() -> None:
    undecided = sorted(threads.columns.keys() - PURGED_COLUMNS.keys() - STAYING)
    advice = (
        "does a purge have to empty them? If so: _EMPTY_COLUMNS or PURGED_COLUMNS in "
        "server/threads/columns.py; if they hold nothing that was said: STAYING in this file"
    )
    assert undecided == [], f"{undecided}: {advice}"
    assert STAYING & PURGED_COLUMNS.keys() == set()
    assert sorted(STAYING | PURGED_COLUMNS.keys()) == sorted(threads.columns.keys())
