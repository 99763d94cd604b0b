"""What all threads of this machine have used of models: by day, by model, in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from msgspec import Struct

from treadle.app.notices import Notify, ignore_notice
from treadle.core.llm import Usage
from treadle.store.index.lookup import Index
from treadle.store.index.usage_rows import DayUsage
from treadle.store.local_store import LocalStore


class UsageReport(Struct, frozen=True):
    """What was used of each model on each day, the newest first, and of each model in all.

    `models` has an empty day; `total` neither day nor model. A model without a name is what was
    merged of another machine, where nobody knows whom it asked.
    """

    days: Sequence[DayUsage]
    models: Sequence[DayUsage]
    total: DayUsage

    def to_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "days": [_to_dict(one) for one in self.days],
            "models": [_to_dict(one) for one in self.models],
            "total": _to_dict(self.total),
        }


def sum_usage(store: LocalStore, *, since: str = "", notify: Notify = ignore_notice) -> UsageReport:
    """Add up what the threads have used, those in the trash and sub-agents too; none is read.

    What a sub-agent used counts once, in its own thread. Days are those of the clocks here, as they
    were when a thread was taken into the index.

    Args:
        store: the threads.
        since: the first day, as in `2026-11-21`; empty for all.
        notify: gets a line while something takes long.

    Raises:
        DiskError: the threads cannot be read.
    """
    index = Index(store, notify)
    try:
        days = index.list_day_usage(since)
    finally:
        index.close()
    models = _group(days, lambda one: one.model)
    total = reduce(_add, models, DayUsage("", "", 0, Usage()))
    ordered = sorted(models, key=lambda one: one.usage.total_tokens, reverse=True)
    return UsageReport(days, ordered, total)


def _group(days: Sequence[DayUsage], key: Callable[[DayUsage], str]) -> list[DayUsage]:
    sums: dict[str, DayUsage] = {}
    for one in days:
        plain = DayUsage("", one.model, one.requests, one.usage)
        known = sums.get(key(one))
        sums[key(one)] = plain if known is None else _add(known, plain)
    return list(sums.values())


def _add(one: DayUsage, other: DayUsage) -> DayUsage:
    return DayUsage("", one.model, one.requests + other.requests, one.usage + other.usage)


def _to_dict(one: DayUsage) -> dict[str, Any]:
    named = {"day": one.day, "model": one.model}
    kept = {name: value for name, value in named.items() if value}
    return {**kept, "requests": one.requests, "usage": one.usage}
