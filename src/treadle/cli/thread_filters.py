"""The options that say which threads: the same for `list` and `search`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from treadle.store.index.filters import Filters
    from treadle.store.index.lookup import Index
    from treadle.thread.model import ThreadSummary

F = TypeVar("F", bound=Callable[..., Any])

_AGO: Final = re.compile(r"(\d{1,5})\s*([hdw])", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_TIMES: Final = "write 2026-11-21, 2026-11-21T15:30, today, yesterday, 12h, 7d or 2w"


def _moment(value: str, now: datetime) -> tuple[datetime, bool]:
    """The moment that a text means, and whether it is a whole day, of which it is the start."""
    text = value.strip().lower()
    found = _AGO.fullmatch(text)
    if found is not None:
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])}), False
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if text in _DAYS_AGO:
        return (midnight - timedelta(days=_DAYS_AGO[text])).astimezone(), True
    is_day = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None
    return datetime.fromisoformat(value.strip()).astimezone(), is_day


def parse_moment(text: str, now: str, *, wants_end: bool = False) -> str:
    """The moment that a person means, by the clocks of this place, as records have it.

    Args:
        text: a date, a date and time, `today`, `yesterday`, or how long ago.
        now: the clock, as records have it.
        wants_end: whether of a whole day the end is meant, not the start.

    Raises:
        click.BadParameter: it is no time.
    """
    try:
        moment, is_day = _moment(text, datetime.fromisoformat(now).astimezone())
        if is_day and wants_end:
            moment = (moment.replace(tzinfo=None) + timedelta(days=1)).astimezone()
        at = moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise click.BadParameter(f"{text!r} is no time: {_TIMES}") from error
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def end_of_moment(text: str, now: str) -> str:
    """The last moment of what a person wrote: of a day, a minute or a second its end.

    Args:
        text: as for `parse_moment`.
        now: the clock, as records have it.

    Raises:
        click.BadParameter: it is no time.
    """
    end = parse_moment(text, now, wants_end=True)
    unit = _unit(text.strip())
    if unit is None:
        return end
    last = datetime.fromisoformat(end) + unit - timedelta(microseconds=1)
    return last.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _unit(text: str) -> timedelta | None:
    """How far behind what `parse_moment` says the end is: it says a day's end already."""
    if text.lower() in _DAYS_AGO or re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return timedelta(0)
    found = re.fullmatch(r"\S{10}[T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:?\d{2})?", text, re.ASCII)
    return timedelta(**{"seconds" if found[1] else "minutes": 1}) if found else None


def _time(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    now = datetime.now(UTC).isoformat()
    return parse_moment(value, now, wants_end=param.name == "until")


def _commit(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-fA-F]{4,64}", value):
        raise click.BadParameter(f"{value!r} is no beginning of a commit: 4 hex digits or more")
    return value


def _folder(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """As threads record it: without links."""
    return None if value is None else str(Path(value).expanduser().resolve())


_OPTIONS: Final = (
    click.option(
        "--workspace",
        metavar="[FOLDER]",
        is_flag=False,
        flag_value=".",
        callback=_folder,
        help="Threads that work in FOLDER or below it; without FOLDER, here.",
    ),
    click.option("--branch", metavar="NAME", help="Last on this branch; * stands for anything."),
    click.option(
        "--commit", metavar="SHA", callback=_commit, help="Saw or made the commit that begins so."
    ),
    click.option("--remote", metavar="TEXT", help="The remote (host/path) has TEXT in it."),
    click.option("--tag", metavar="TAG", multiple=True, help="Has the tag; repeat for several."),
    click.option(
        "--state",
        metavar="STATE",
        help="unfinished (also what waits), waiting (for approval), damaged, or a state: done, ...",
    ),
    click.option("--model", metavar="TEXT", help="The model's name has TEXT in it."),
    click.option("--provider", metavar="NAME", help="Works with this provider."),
    click.option(
        "--since",
        metavar="TIME",
        callback=_time,
        help="Changed since: 2026-11-21, 2026-11-21T15:30, today, yesterday, 12h, 7d, 2w.",
    ),
    click.option(
        "--until", metavar="TIME", callback=_time, help="Last changed before; a day is included."
    ),
    click.option(
        "--imported", "is_imported", is_flag=True, help="Recorded by other programs and imported."
    ),
    click.option("--trashed", "is_trashed", is_flag=True, help="The trash instead."),
)


def filter_options(command: F) -> F:
    """All of them; the command gets what `filters_of` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filters_of(chosen: dict[str, Any]) -> Filters:
    """The filters of the options."""
    from treadle.store.index.filters import Filters

    return Filters(tags=chosen.pop("tag"), **chosen)


def check_state(index: Index, filters: Filters) -> None:
    """Whether there is such a state: a custom graph of tasks has its own, known by its threads.

    Raises:
        click.BadParameter: there is none.
    """
    from treadle.core.task.table import State
    from treadle.store.index.filters import DAMAGED, UNFINISHED, WAITING, Filters, state_of
    from treadle.thread.chat_state import KIND_OF_STATE, in_snake_case

    if filters.state is None:
        return
    states = {*KIND_OF_STATE.values(), *(in_snake_case(one) for one in State)}
    known = [UNFINISHED, WAITING, DAMAGED, *sorted(states)]
    if state_of(filters.state) in known:
        return
    if not index.count(Filters(state=filters.state, is_trashed=filters.is_trashed)):
        raise click.BadParameter(f"there is no state {filters.state!r}: {', '.join(known)}")


def limit_options(default: int) -> Callable[[F], F]:
    """`--limit` and `--all`."""

    def add(command: F) -> F:
        command = click.option("--all", "wants_all", is_flag=True, help="Leave nothing out.")(
            command
        )
        return click.option(
            "--limit",
            metavar="COUNT",
            type=click.IntRange(min=1),
            help=f"Show so many at most.  [default: {default}; with --json: all]",
        )(command)

    return add


def limit_of(limit: int | None, default: int, *, wants_all: bool, as_json: bool) -> int | None:
    """How many to show; `None` for all. Programs get all unless they say otherwise."""
    if wants_all:
        return None
    return limit if limit is not None or as_json else default


def title_of(line: ThreadSummary, length_max: int = 50) -> str:
    """The title in one line, with the mark of a pin before it, and tags behind."""
    from treadle.cli.render import printable

    title = " ".join((line.title or "(nothing said yet)").split())
    if len(title) > length_max:
        title = title[: length_max - 1] + "…"
    pin = "★ " if line.is_pinned else ""
    tags = "".join(f" #{tag}" for tag in line.tags)
    private = " [private]" if line.is_private else ""
    return printable(f"{pin}{title}{private}{tags}")
