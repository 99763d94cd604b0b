"""How a fleet stands, for people."""

from __future__ import annotations

from typing import Final

import click

from treadle.fleet.overview import ORDER, FleetView
from treadle.models.prices.usage_text import describe_cost
from treadle.thread.ids import ShortIds
from treadle.thread.safe_text import sanitize_text

_TITLE_MAX: Final = 50
_PROBLEM_MAX: Final = 100


def print_fleet(view: FleetView) -> None:
    """One line for all of it, then one for each task."""
    workers = "1 worker" if len(view.workers) == 1 else f"{len(view.workers)} workers"
    counts = [f"{view.counts[name]} {name}" for name in ORDER if name in view.counts]
    click.echo(" · ".join([workers, *counts]))
    ids = ShortIds(one.thread for one in view.tasks)
    for one in view.tasks:
        is_due = one.attempts and one.status in ("running", "queued")
        tries = f"try {one.attempts + 1}" if is_due else ""
        words = [one.agent, one.user, tries, describe_cost(one.usage), one.problem[:_PROBLEM_MAX]]
        about = ", ".join(word for word in words if word)
        title = sanitize_text(one.title)[:_TITLE_MAX]
        click.echo(f"{ids.shorten(one.thread)}  {one.status:9}  {title}  ({sanitize_text(about)})")
    if more := sum(view.counts.values()) - len(view.tasks):
        click.echo(f"and {more} more")
