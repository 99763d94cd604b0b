"""Times that repeat: as another program reads them, and where the clocks of a zone jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from random import Random
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from treadle import UsageError
from treadle.fleet.cron import Cron, read_cron

MINUTE = timedelta(minutes=1)
# A zone, the moment at which its clocks jump, in UTC, and by how much.
JUMPS = (
    ("Europe/Vienna", datetime(2027, 3, 28, 1, tzinfo=UTC), 60),
    ("Europe/Vienna", datetime(2027, 10, 31, 1, tzinfo=UTC), -60),
    ("America/New_York", datetime(2027, 3, 14, 7, tzinfo=UTC), 60),
    ("America/New_York", datetime(2027, 11, 7, 6, tzinfo=UTC), -60),
    ("Australia/Lord_Howe", datetime(2027, 10, 2, 15, 30, tzinfo=UTC), 30),
    ("Australia/Lord_Howe", datetime(2027, 4, 3, 15, tzinfo=UTC), -30),
    ("America/Santiago", datetime(2027, 9, 5, 4, tzinfo=UTC), 60),
    ("America/Santiago", datetime(2027, 4, 4, 3, tzinfo=UTC), -60),
    ("Asia/Beirut", datetime(2027, 3, 27, 22, tzinfo=UTC), 60),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC), 24 * 60),
)


def list_times(cron: Cron, start: datetime, end: datetime) -> list[datetime]:
    """Every time after the start until the end."""
    found: list[datetime] = []
    at = cron.find_next(start)
    while at is not None and at <= end:
        found.append(at)
        at = cron.find_next(at)
    return found


def make_field(chance: Random, lowest: int, highest: int) -> str:
    one, other = sorted(chance.sample(range(lowest, highest + 1), 2))
    forms = ["*", str(one), f"{one}-{other}", f"{one},{other}", f"*/{chance.randrange(2, 9)}"]
    return chance.choice([*forms, f"{one}-{other}/{chance.randrange(1, 5)}"])


def test_times_are_those_of_another_program() -> None:
    chance, start = Random(7), datetime(2027, 2, 26, 13, 37, tzinfo=UTC)
    ranges = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
    texts = [" ".join(make_field(chance, *one) for one in ranges) for _ in range(300)]
    # Where days are */N and of the week too, that program takes either; cron itself takes both.
    plain = [one for one in texts if not one.split()[2].startswith("*/") or one.split()[4] == "*"]
    plain = [one for one in plain if not one.split()[4].startswith("*/") or one.split()[2] == "*"]
    wrong = []
    for text in [*plain, "0 8 * jan,JUL mon-fri", "5 4 29 2 *", "0 0 * * 7", "0 0 13 * fri"]:
        theirs = croniter(text, start)
        expected = [theirs.get_next(datetime) for _ in range(4)]
        ours, at = [], start
        for _ in expected:
            found = read_cron(text, "UTC").find_next(at)
            assert found is not None
            ours.append(at := found)
        if ours != expected:
            wrong.append((text, ours, expected))
    assert (wrong, len(plain) > 200) == ([], True)


def walk(zone: str, start: datetime, end: datetime) -> dict[tuple[int, int], list[datetime]]:
    """When each time of a day is first reached or passed, minute by minute."""
    found: dict[tuple[int, int], list[datetime]] = {}
    at, clock = start, ZoneInfo(zone)
    passed = start.astimezone(clock).replace(tzinfo=None)
    while at < end:
        at += MINUTE
        wall = at.astimezone(clock).replace(tzinfo=None)
        while passed < wall:
            passed += MINUTE
            moments = found.setdefault((passed.hour, passed.minute), [])
            if at not in moments:
                moments.append(at)
    return found


def test_each_time_of_a_day_is_due_when_clocks_first_reach_or_pass_it() -> None:
    wrong = []
    for zone, jump, _ in JUMPS:
        start, end = jump - timedelta(hours=30), jump + timedelta(hours=30)
        for (hour, minute), expected in walk(zone, start, end).items():
            times = list_times(read_cron(f"{minute} {hour} * * *", zone), start, end)
            if times != expected:
                wrong.append((zone, hour, minute, times, expected))
    assert wrong == []


def test_what_is_due_in_every_hour_goes_by_the_time_that_passes() -> None:
    wrong = []
    for zone, jump, _ in JUMPS:
        start, end = jump - timedelta(hours=1), jump + timedelta(hours=1)
        for text, apart in (("*/2 * * * *", 2), ("*/10 * * * *", 10), ("*/30 */1 * * *", 30)):
            times = list_times(read_cron(text, zone), start, end)
            gaps = {(later - one) // MINUTE for one, later in pairwise([start, *times])}
            if gaps != {apart}:
                wrong.append((zone, text, gaps))
    assert wrong == []


def test_what_was_missed_is_the_latest_time() -> None:
    wrong = []
    for (zone, jump, _), text in product(JUMPS, ("*/7 * * * *", "15 1-3 * * *", "0 0 * * *")):
        cron, start = read_cron(text, zone), jump - timedelta(hours=30)
        times = list_times(cron, start, jump + timedelta(hours=30))
        for until in (jump - MINUTE, jump, jump + MINUTE, jump + timedelta(hours=20)):
            expected = max(one for one in times if one <= until)
            if cron.find_latest(times[0], until) != expected:
                wrong.append((zone, text, until))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "4 fields"),
        ("0 8 * * * *", "6 fields"),
        ("@daily", "1 fields"),
        ("60 * * * *", "no minute from 0 to 59"),
        ("* 24 * * *", "no hour"),
        ("* * 0 * *", "no day of the month"),
        ("* * * foo *", "no month"),
        ("* * * * 8", "no day of the week"),
        ("5/15 * * * *", "every Nth of a range"),
        ("*/0 * * * *", "every Nth"),
        ("*/x * * * *", "every Nth"),
        ("9-5 * * * *", "no range"),
        ("1,,2 * * * *", "no minute"),
        ("-1 * * * *", "no minute"),
        ("² * * * *", "no minute"),
        ("0 0 30 2 *", "no such day"),
    ],
)
def test_what_says_no_times_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_cron(text, "UTC")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/passwd", "Europe"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        read_cron("0 8 * * *", zone)
