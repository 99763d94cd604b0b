"""How long threads are kept, in words and columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from treadle.cli.admin_output import format_count, format_day

if TYPE_CHECKING:
    from treadle.api.retention_types import RetentionPlan
    from treadle.server.threads.retention_run import RetentionReport


def name_days(days: int | None, organization: str | None) -> str:
    """After how long, as a rule of an organization or of the whole server (`None`) has it."""
    if days:
        return format_count(days, "day")
    return "as for the whole server" if days is None and organization else "never"


def describe_report(done: RetentionReport) -> str:
    """What a run has done."""
    from treadle.app.sizes import human_size

    told = f"put away {format_count(done.put_away, 'thread')}, removed {done.removed} "
    told += f"({human_size(done.size)})"
    return told + (f"; {done.skipped} left for the next run" if done.skipped else "")


def summarize_plan(plan: RetentionPlan) -> str:
    """What a run would do, in numbers."""
    from treadle.app.sizes import human_size

    removed = [one for one in plan.due if one.act == "remove"]
    away = format_count(len(plan.due) - len(removed), "thread")
    size = human_size(sum(one.size for one in removed))
    kept = f"; {len(plan.kept)} are kept all the same" if plan.kept else ""
    return f"put away {away} and remove {len(removed)} ({size}){kept}"


def format_plan(plan: RetentionPlan) -> Iterator[tuple[str, ...]]:
    """A row for each thread: what is done, since when, how large; or why it is kept."""
    from treadle.app.sizes import human_size

    for one in plan.due:
        act, since = one.act.replace("_", " "), f"since {format_day(one.since, '')}"
        yield act, one.thread, one.owner, since, human_size(one.size)
    for kept in plan.kept:
        yield "keep", kept.thread, kept.owner, kept.why, ""
