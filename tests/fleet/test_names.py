"""What tasks and limits are called: found by it, and never more than a line."""

from __future__ import annotations

import asyncio

import pytest

from treadle import Agent, Fleet, LocalStore, MemoryScheduler, ScriptedModel, UsageError
from treadle.agent.fleet_file import check_submitted, find_task
from treadle.errors import UnknownThreadError

IN_LINES = ("an\nn", "an\x1b[2Jn", "an\u202en", "an\0n")


def make_fleet() -> Fleet:
    fleet = Fleet(MemoryScheduler())
    fleet.add(Agent("bot", model=ScriptedModel.of("Yes."), store=LocalStore.in_memory()))
    return fleet


def test_a_task_is_found_by_its_key_and_by_its_id() -> None:
    async def run() -> None:
        fleet = make_fleet()
        first = await fleet.submit("bot", "One.", key="order-7")
        second = await fleet.submit("bot", "Two.")
        for task in (first, second):
            assert await find_task(fleet, task.id[-8:]) == task.id
        assert await find_task(fleet, "order-7") == first.id
        for unknown in ("order", "order-8", "x" * 600):
            with pytest.raises(UnknownThreadError, match="no task"):
                await find_task(fleet, unknown)

    asyncio.run(run())


def test_a_name_is_one_line_that_can_be_seen() -> None:
    async def run() -> None:
        fleet = make_fleet()
        for name in IN_LINES:
            with pytest.raises(UsageError, match="one line"):
                await fleet.submit("bot", "One.", user=name)
            for kind in ("user", "repository"):
                with pytest.raises(UsageError, match="one line"):
                    await fleet.limits.set(kind, name, 1)
        assert await fleet.jobs() == []
        assert await fleet.limits.list() == ()
        await fleet.submit("bot", "One.", user="Zoë Ö.")

    asyncio.run(run())


def test_a_zone_without_times_is_no_task() -> None:
    fleet = make_fleet()
    with pytest.raises(UsageError, match="Europe/Vienna") as told:
        check_submitted(fleet, "bot", "One.", {"zone": "Europe/Vienna"})
    assert "--every" in (told.value.hint or "")
    check_submitted(fleet, "bot", "One.", {"zone": "Europe/Vienna", "every": "0 7 * * *"})
    check_submitted(fleet, "bot", "One.", {})
