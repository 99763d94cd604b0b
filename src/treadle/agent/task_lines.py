"""Tasks for a fleet, one a line: plain words, or a JSON object that says more of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from treadle.app.sessions.limits import make_budget
from treadle.errors import UsageError


class TaskLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A task, with what else is said of it; what it leaves out is as for all.

    The names are those of `treadle fleet submit`, `at` a moment with a time zone, `max_cost` US
    dollars, `time_limit` seconds.
    """

    task: str
    agent: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | UnsetType = UNSET
    user: str | UnsetType = UNSET
    organization: str | UnsetType = UNSET
    repo: str | UnsetType = UNSET
    ref: str | UnsetType = UNSET
    at: Annotated[datetime, Meta(tz=True)] | UnsetType = UNSET
    every: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    max_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    max_cost: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    time_limit: Annotated[float, Meta(gt=0)] | UnsetType = UNSET


def read_task_lines(
    lines: Iterable[str], given: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """The tasks, and what `Fleet.submit` is given of each: `agent` and its options.

    Args:
        lines: empty ones are passed over. One that begins with a brace is a `TaskLine`.
        given: what is said of all, by the names of `TaskLine`.

    Raises:
        UsageError: a line is no such object; it says which. Nothing was submitted.
    """
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        told: dict[str, Any] = {"task": line}
        if line.lstrip().startswith("{"):
            try:
                told = msgspec.structs.asdict(msgspec.json.decode(line, type=TaskLine))
            except msgspec.MsgspecError as error:
                raise UsageError(
                    f"line {number} is no task: {error}",
                    hint='{"task": "...", "model": "...", "max_cost": 2}, or plain words',
                ) from None
        more = {name: value for name, value in told.items() if value is not UNSET}
        found.append(make_task(more.pop("task"), {**given, **more}))
    return found


def make_task(prompt: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A task, and what `Fleet.submit` is given of it, of what is said by `TaskLine`'s names."""
    told = {**given}
    cost, tokens = told.pop("max_cost", None), told.pop("max_tokens", None)
    dollars = None if cost is None else Decimal(str(cost))
    budget = make_budget(tokens, dollars, told.pop("time_limit", None))
    options = {
        {"repo": "repository", "at": "start_at"}.get(name, name): value
        for name, value in told.items()
        if value is not None
    }
    if budget is not None:
        options["budget"] = budget
    return prompt, options
