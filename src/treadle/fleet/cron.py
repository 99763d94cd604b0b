"""When something is due that repeats: five fields of cron, in a time zone, whose clocks jump.

A time of day that a jump of the clock leaves out is due at the jump; one that comes twice is due
the first time. Where the hour is `*` or `*/N`, what counts is the time that passes: nothing is due
for what is left out, and what comes twice is due twice. So does Debian's cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from treadle.errors import UsageError

MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# A name, the lowest and the highest number, words for numbers from the lowest on.
_FIELDS: Final[tuple[tuple[str, int, int, list[str]], ...]] = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of the month", 1, 31, []),
    ("month", 1, 12, MONTHS),
    ("day of the week", 0, 7, WEEKDAYS),
)
_DAYS_MAX: Final = 41 * 366
"""A 29 February on a given day of the week may be 40 years away."""
_ANY: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BACK: Final = timedelta(hours=3)
"""Clocks are not put back by more."""


class Cron(Struct, frozen=True):
    """Times that repeat; `read_cron` makes one.

    `is_either` is whether a day needs to be one of the month's or of the week's, and not both;
    `is_by_hour` whether the hour is any.
    """

    zone: ZoneInfo
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_either: bool
    is_by_hour: bool

    def find_next(self, after: datetime) -> datetime | None:
        """The first time after a moment, in UTC; `None` if there is none."""
        found: tuple[datetime, datetime] | None = None
        for wall in self._list_walls(self._get_wall(after) - _BACK, is_back=False):
            if found is not None and wall - found[1] > _BACK:
                break
            for moment in self._convert(wall):
                if moment > after and (found is None or moment < found[0]):
                    found = moment, wall
        return None if found is None else found[0]

    def find_latest(self, since: datetime, until: datetime) -> datetime:
        """The last time until a moment, in UTC; `since`, which is one, if there is none later."""
        found, first = (since, self._get_wall(since)), self._get_wall(since) - _BACK
        for wall in self._list_walls(self._get_wall(until) + _BACK, is_back=True):
            if wall < first or found[1] - wall > _BACK:
                break
            for moment in self._convert(wall):
                if found[0] < moment <= until:
                    found = moment, wall
        return found[0]

    def _get_wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone).replace(tzinfo=None)

    def _list_walls(self, first: datetime, *, is_back: bool) -> Iterator[datetime]:
        """What clocks say when it is due, from a time on forwards or backwards."""
        order = -1 if is_back else 1
        hours, minutes = self.hours[::order], self.minutes[::order]
        for number in range(_DAYS_MAX):
            day = first.date() + timedelta(days=number * order)
            if not self._has_day(day):
                continue
            for hour, minute in product(hours, minutes):
                wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
                if number or (wall <= first if is_back else wall >= first):
                    yield wall

    def _convert(self, wall: datetime) -> Iterator[datetime]:
        """The moments at which it is due, of what clocks say."""
        first, second = (wall.replace(tzinfo=self.zone, fold=one).astimezone(UTC) for one in (0, 1))
        if first == second or self._get_wall(first) == wall:
            yield first
            if self.is_by_hour and second != first:
                yield second
        elif not self.is_by_hour:
            yield _find_jump(second, first, self.zone)

    def _has_day(self, day: date) -> bool:
        is_of_month, is_of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fits = (is_of_month or is_of_week) if self.is_either else (is_of_month and is_of_week)
        return fits and day.month in self.months


def read_cron(text: str, zone: str) -> Cron:
    """Times as cron has them: minute, hour, day of the month, month, day of the week.

    Each is `*` or a list of numbers and ranges, `/N` behind `*` or a range for every Nth; months
    and days of the week have names too. Of two restricted fields of days one is enough.

    Raises:
        UsageError: it cannot be read, there is no such zone, or it is never due.
    """
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _make_error(text, f"it has {len(fields)} fields and not 5")
    minutes, hours, days, months, weekdays = (
        _read_field(text, field, *about) for field, about in zip(fields, _FIELDS, strict=True)
    )
    try:
        found_zone = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"there is no time zone {zone!r}", hint="a name such as Europe/Vienna, or UTC"
        ) from None
    found = Cron(
        found_zone,
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        days,
        months,
        frozenset(one % 7 for one in weekdays),
        is_either=not fields[2].startswith("*") and not fields[4].startswith("*"),
        is_by_hour=fields[1].startswith("*"),
    )
    if found.find_next(_ANY) is None:
        raise _make_error(text, "there is no such day")
    return found


def _read_field(
    text: str, field: str, name: str, lowest: int, highest: int, words: list[str]
) -> frozenset[int]:
    found: set[int] = set()

    def read_number(word: str) -> int:
        if word.lower() in words:
            return words.index(word.lower()) + lowest
        if not (word.isascii() and word.isdecimal()) or not lowest <= int(word) <= highest:
            raise _make_error(text, f"{word!r} is no {name} from {lowest} to {highest}")
        return int(word)

    for part in field.split(","):
        numbers, slash, step = part.partition("/")
        start, dash, end = numbers.partition("-")
        first, last = lowest, highest
        if numbers != "*":
            first = read_number(start)
            last = read_number(end) if dash else first
        is_one = numbers != "*" and not dash
        if slash and (is_one or not (step.isascii() and step.isdecimal()) or not int(step)):
            raise _make_error(text, f"{part!r} is not every Nth of a range, such as */15 or 8-18/2")
        if first > last:
            raise _make_error(text, f"{part!r} is no range")
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _make_error(text: str, why: str) -> UsageError:
    return UsageError(f"{text!r} says no times: {why}", hint='as in "30 8 * * mon-fri"')


def _find_jump(before: datetime, behind: datetime, zone: ZoneInfo) -> datetime:
    """The first moment between two at which the clocks of a zone are as at the second one."""
    offset = behind.astimezone(zone).utcoffset()
    low, high = int(before.timestamp()), int(behind.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        is_behind = datetime.fromtimestamp(middle, zone).utcoffset() == offset
        low, high = (low, middle) if is_behind else (middle, high)
    return datetime.fromtimestamp(high, UTC)
