"""The values in which is said what a server keeps, and for how long."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from treadle.api.types import Name

Reason: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
NamedThread: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^T-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(@[A-Za-z0-9][A-Za-z0-9._@-]{0,99})?$",
        max_length=200,
    ),
]
"""A thread by its id; `ID@NAME` is that of the user of this name."""


class NewHold(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be held, one of the three, and why."""

    reason: Reason
    thread: NamedThread | None = None
    user: Name | None = None
    organization: Name | None = None


class Hold(Struct, frozen=True):
    """A legal hold: as long as it stands nothing of what it names is removed.

    `target` says in words what is held. It stands as long as nobody has lifted it.
    """

    id: int
    target: str
    reason: str
    placed_at: str
    placed_by: str
    lifted_at: str | None = None
    lifted_by: str | None = None


class Holds(Struct, frozen=True):
    """Legal holds, newest first; those that were lifted are among them."""

    holds: tuple[Hold, ...]


Days: TypeAlias = Annotated[int, Meta(ge=0, le=36_500)]
"""A number of days; 0 for never."""


class RetentionRule(Struct, frozen=True):
    """For how long the threads of an organization are kept; of all without one of their own.

    Args:
        organization: whose threads; `None` for the whole server.
        idle_days: after so many days in which nothing came to a thread it is put away.
        trash_days: so many days after a thread was put away, what was said in it is removed for
            good. Of both: 0 for never, `None` for what holds for the whole server.
    """

    organization: str | None
    idle_days: int | None
    trash_days: int | None


class RetentionRules(Struct, frozen=True):
    """All that are set; that of the whole server comes first."""

    rules: tuple[RetentionRule, ...]


class RetentionChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to hold from now on; what is left out stays as it is."""

    organization: Name | None = None
    idle_days: Days | UnsetType | None = UNSET
    trash_days: Days | UnsetType | None = UNSET


class DueThread(Struct, frozen=True):
    """A thread with which something is to be done by a rule.

    `act` is `put_away` or `remove`; `since` is since when nothing came to it, or since when it has
    been put away; `size` is in bytes.
    """

    thread: str
    owner: str
    organization: str
    act: str
    since: str
    size: int


class KeptThread(Struct, frozen=True):
    """A thread for which it would be time, and why it is kept all the same."""

    thread: str
    owner: str
    why: str


class RetentionPlan(Struct, frozen=True):
    """What a run would do now, in this order."""

    due: tuple[DueThread, ...]
    kept: tuple[KeptThread, ...]
