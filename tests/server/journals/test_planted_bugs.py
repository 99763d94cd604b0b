"""Bugs that a store might have, planted one by one: the tests of fencing see each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from server.journals import test_fencing, test_lost_answers
from server.journals.cutting_proxy import CuttingProxy
from server.journals.stores import OWNER
from server.people import People
from server.proxies import open_before
from treadle import PostgresStore
from treadle.server.journals import statements
from treadle.server.threads.journal_holds import NOW_MS

Stores = tuple[PostgresStore, PostgresStore]


def sleep(url: str, stores: Stores) -> None:
    """One sleeps until its lease is over, and wakes when another one has its thread."""
    test_fencing.test_who_has_slept_appends_nothing_and_frees_nothing(url, stores)


def ask_the_clock(url: str, stores: Stores) -> None:
    """Leases are compared with the time of the database."""
    test_fencing.test_the_time_of_a_lease_is_that_of_the_database(url, stores)


def lose_an_answer(url: str, _: Stores) -> None:
    """The connection is cut when the database has committed, and before it says so."""
    with (
        open_before(url, CuttingProxy) as (proxy, through),
        PostgresStore(through, OWNER, lease_s=test_fencing.LONG_S) as store,
    ):
        cut = (proxy, store)
        test_lost_answers.test_an_append_without_an_answer_is_there_once(["answer"], cut)


EPOCH: Final = " AND epoch = %(epoch)s"
SIZE: Final = " AND size = %(size)s"

BUGS: Final[Mapping[str, tuple[str, str, str, Callable[[str, Stores], None]]]] = {
    "no fencing": ("APPEND_RECORDS", EPOCH, "", sleep),
    "takes from the living": ("TAKE_JOURNAL", f"lease_until > {NOW_MS}", "false", sleep),
    "frees what is another's": ("FREE_JOURNAL", EPOCH, "", sleep),
    "a clock that is an hour late": ("REGISTER_WRITER", NOW_MS, f"-36e5 + {NOW_MS}", ask_the_clock),
    "appends once more, unseen": ("APPEND_RECORDS", SIZE, "", lose_an_answer),
}
"""Of each the statement, what of it is left out or said instead, and what sees it."""


def find_fault(check: Callable[[str, Stores], None], url: str) -> bool:
    """Whether a check fails; of two stores that have a lease each."""
    with (
        PostgresStore(url, OWNER, lease_s=test_fencing.LONG_S) as one,
        PostgresStore(url, OWNER, lease_s=test_fencing.LONG_S + 1) as other,
    ):
        try:
            check(url, (one, other))
        except BaseException as fault:
            if not isinstance(fault, Exception | pytest.fail.Exception):
                raise
            return True
    return False


def test_what_is_planted_in_a_store_is_seen(url: str, people: People) -> None:
    sound = {check for *_, check in BUGS.values() if find_fault(check, url)}
    assert sound == set()
    unseen = []
    for bug, (name, said, instead, check) in BUGS.items():
        statement: str = getattr(statements, name)
        assert said in statement, bug
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statements, name, statement.replace(said, instead))
            if not find_fault(check, url):
                unseen.append(bug)
    assert unseen == []
