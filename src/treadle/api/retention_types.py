"""The values in which is said what a server keeps, and for how long."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

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
