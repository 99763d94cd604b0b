"""Schedules in the database of a queue: one table, in which each is a line of JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace
from procrastinate import App

from treadle.fleet.port import TaskSchedule

TABLES: Final = {
    "treadle_schedules": "CREATE TABLE treadle_schedules "
    "(id text PRIMARY KEY, version bigint NOT NULL, told text NOT NULL)"
}
"""By their names; made where they are missing."""

_ADD: Final = """INSERT INTO treadle_schedules (id, version, told)
VALUES (%(id)s, %(version)s, %(told)s) ON CONFLICT DO NOTHING RETURNING id"""
_CHANGE: Final = """UPDATE treadle_schedules SET version = version + 1, told = %(told)s
WHERE id = %(id)s AND version = %(version)s RETURNING id"""
_REMOVE: Final = "DELETE FROM treadle_schedules WHERE id = %(id)s RETURNING id"
_LIST: Final = 'SELECT version, told FROM treadle_schedules ORDER BY id COLLATE "C"'
_FIND: Final = "SELECT version, told FROM treadle_schedules WHERE id = %(id)s"


async def add(app: App, schedule: TaskSchedule) -> TaskSchedule:
    """See `Scheduler.add_schedule`."""
    while True:
        if await app.connector.execute_query_all_async(_ADD, **_tell(schedule)):
            return schedule
        for row in await app.connector.execute_query_all_async(_FIND, id=schedule.id):
            return _read(row)
        # It was there, and is gone by now.


async def change(app: App, schedule: TaskSchedule) -> bool:
    """See `Scheduler.change_schedule`."""
    return bool(await app.connector.execute_query_all_async(_CHANGE, **_tell(schedule)))


async def remove(app: App, schedule_id: str) -> bool:
    """See `Scheduler.remove_schedule`."""
    return bool(await app.connector.execute_query_all_async(_REMOVE, id=schedule_id))


async def list_all(app: App) -> list[TaskSchedule]:
    """See `Scheduler.list_schedules`."""
    return [_read(row) for row in await app.connector.execute_query_all_async(_LIST)]


def _tell(schedule: TaskSchedule) -> dict[str, Any]:
    told = msgspec.json.encode(schedule).decode()
    return {"id": schedule.id, "version": schedule.version, "told": told}


def _read(row: dict[str, Any]) -> TaskSchedule:
    told = msgspec.json.decode(row["told"], type=TaskSchedule)
    return replace(told, version=row["version"])
