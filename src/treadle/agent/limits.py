"""How many tasks of a fleet are at work at a time, by what they have in common."""

from __future__ import annotations

import asyncio

from treadle.agent.members import Members
from treadle.errors import UsageError
from treadle.fleet.port import EACH_NAME, Limit, LimitKind, Scheduler


class FleetLimits:
    """The limits of a fleet, over all its queues and workers; `Fleet.limits`.

    Args:
        scheduler: keeps them, and holds them.
        members: the fleet's agents.
    """

    def __init__(self, scheduler: Scheduler, members: Members) -> None:
        self._scheduler, self._members = scheduler, members

    async def set(self, kind: str, name: str, number: int) -> Limit:
        """Let no more tasks be at work at a time; those that are go on.

        Args:
            kind: `user`, `model`, `repository` or `organization`.
            name: whose; `*` for each that has no limit of its own. A model may be named as tasks
                name it, and is kept by its lasting name; a repository is what tasks say.
            number: how many, 1 or more.

        Returns:
            The limit, as it is kept.

        Raises:
            UsageError: there is no such kind or model, the name is empty, or the number less.
            ConfigError: a setting is not valid.
            StoreError: the queue refused.
        """
        found = find_limit_kind(kind)
        if not name or number < 1:
            raise UsageError("a limit has a name, and is 1 or more")
        if not name.isprintable():
            raise UsageError(f"{name!r} cannot be limited: it is a name in one line of text")
        if found is LimitKind.MODEL and name != EACH_NAME:
            name = await asyncio.to_thread(self._members.find_lasting_model, name)
        limit = Limit(found, name, number)
        await self._scheduler.set_limit(limit)
        return limit

    async def remove(self, kind: str, name: str) -> None:
        """Remove a limit.

        Args:
            kind: as `set` has it.
            name: as `list` has it.

        Raises:
            UsageError: there is none.
            StoreError: the queue refused.
        """
        if not await self._scheduler.remove_limit(find_limit_kind(kind), name):
            raise UsageError(f"there is no limit of {kind} {name!r}", hint="`treadle fleet limits`")

    async def list(self) -> tuple[Limit, ...]:
        """All limits, by kind and name, with what is at work; raises `StoreError`."""
        return tuple(await self._scheduler.list_limits())


def find_limit_kind(name: str) -> LimitKind:
    """The kind that is called so; raises `UsageError` if there is none."""
    try:
        return LimitKind(name)
    except ValueError:
        kinds = ", ".join(one.value for one in LimitKind)
        raise UsageError(f"nothing is limited by {name!r}", hint=f"one of: {kinds}") from None
