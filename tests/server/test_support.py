"""Support reads a thread when its owner lets it, and for 31 days."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from sqlalchemy import insert, select

from server.people import People, at
from server.planting import id_of, plant
from treadle.api.error_codes import ErrorCode
from treadle.api.types import SupportAccess
from treadle.server.accounts import support
from treadle.server.accounts.access import find
from treadle.server.accounts.times import later
from treadle.server.context import Context, Principal, Verb
from treadle.server.data import schema
from treadle.server.problems import Refusal

THREAD: Final = id_of(1)


@pytest.fixture
def planted(people: People) -> People:
    """A private thread of `owner`, and a second person of support."""
    with people.database.write() as db:
        plant(db, THREAD, people["owner"], visibility="private")
        values = {
            "name": "second",
            "organization_id": people["support"].organization_id,
            "role": "member",
            "is_admin": False,
            "is_support": True,
            "created_at": at(),
        }
        made = db.execute(insert(schema.users).values(**values).returning(schema.users.c.id))
        second = Principal(
            made.scalar_one(), "second", people["support"].organization_id, "treadle",
            is_support=True,
        )  # fmt: skip
    return People(people.database, {**people.principals, "second": second})


def _do(
    people: People, name: str, work: Callable[[Context, str], SupportAccess], now: str = ""
) -> SupportAccess:
    with people.writing(name, now) as context:
        return work(context, THREAD)


def _reads(people: People, name: str, now: str = "") -> bool:
    with people.reading(name, now) as context:
        try:
            find(context, THREAD, Verb.GET)
        except Refusal as refusal:
            return refusal.code is not ErrorCode.NOT_FOUND
        return True


def _is_marked(people: People) -> bool:
    with people.database.read() as db:
        query = select(schema.threads.c.is_shared_with_support)
        return bool(db.execute(query.where(schema.threads.c.id == THREAD)).scalar_one())


def test_support_asks_and_the_owner_approves(planted: People) -> None:
    asked = _do(planted, "support", support.request)
    assert (asked.status, asked.requested_by, asked.requested_at) == ("pending", "support", at())
    assert not _reads(planted, "support")
    assert _do(planted, "owner", support.status) == asked
    given = _do(planted, "owner", support.approve, at(5))
    assert (given.status, given.requested_by, given.approved_at) == ("active", "support", at(5))
    assert given.expires_at == later(at(5), days=31)
    assert _reads(planted, "support", at(6))
    assert _do(planted, "support", support.status, at(6)) == given


def test_who_has_not_asked_is_not_let_in_with_who_has(planted: People) -> None:
    _do(planted, "support", support.request)
    _do(planted, "owner", support.approve)
    assert _reads(planted, "support")
    assert not _reads(planted, "second")
    assert _do(planted, "second", support.status).status == "none"


def test_the_owner_lets_in_all_of_support_unasked(planted: People) -> None:
    given = _do(planted, "owner", support.grant)
    assert (given.status, given.requested_by) == ("active", None)
    assert _reads(planted, "support")
    assert _reads(planted, "second")
    assert _is_marked(planted)
    for name in ("member", "chief", "outsider", "admin"):
        assert not _reads(planted, name)


def test_access_is_over_after_31_days_to_the_microsecond(planted: People) -> None:
    _do(planted, "owner", support.grant)
    end = later(at(), days=31)
    assert _reads(planted, "support", later(end, seconds=-1))
    assert not _reads(planted, "support", end)
    assert _do(planted, "owner", support.status, end) == SupportAccess(THREAD, "none")


def test_ending_it_turns_out_who_is_in_and_down_who_has_asked(planted: People) -> None:
    _do(planted, "support", support.request)
    _do(planted, "owner", support.approve)
    _do(planted, "second", support.request)
    assert _do(planted, "owner", support.end) == SupportAccess(THREAD, "none")
    assert not _reads(planted, "support")
    assert not _is_marked(planted)
    assert _do(planted, "second", support.status).status == "none"
    with pytest.raises(Refusal) as caught:
        _do(planted, "owner", support.approve)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert _do(planted, "owner", support.end).status == "none", "it can be said twice"


def test_asking_twice_asks_once(planted: People) -> None:
    first = _do(planted, "support", support.request)
    assert _do(planted, "support", support.request, at(9)) == first
    given = _do(planted, "owner", support.approve)
    assert _do(planted, "support", support.request, at(9)) == given
    with planted.database.read() as db:
        assert len(db.execute(select(schema.support_access)).all()) == 1
    again = _do(planted, "support", support.request, later(at(), days=40))
    assert again.status == "pending", "when it is over, it can be asked for anew"


def test_granting_again_begins_the_days_anew(planted: People) -> None:
    _do(planted, "owner", support.grant)
    moment = later(at(), days=20)
    assert _do(planted, "owner", support.grant, moment).expires_at == later(moment, days=31)
    assert _do(planted, "owner", support.end, later(moment, days=1)).status == "none"
    assert not _reads(planted, "support", later(moment, days=2))


def test_nobody_but_the_owner_lets_support_in(planted: People) -> None:
    _do(planted, "support", support.request)
    works = (support.approve, support.grant, support.end, support.status)
    for name in ("member", "chief", "outsider", "admin", "second", ""):
        for work in works:
            if name == "second" and work is support.status:
                continue
            with pytest.raises(Refusal) as caught:
                _do(planted, name, work)
            assert caught.value.code is (
                ErrorCode.UNAUTHORIZED if not name else ErrorCode.NOT_FOUND
            )
    assert _do(planted, "owner", support.status).status == "pending"


def test_nobody_but_support_asks(planted: People) -> None:
    for name in ("member", "chief", "outsider", "admin", ""):
        with pytest.raises(Refusal) as caught:
            _do(planted, name, support.request)
        assert caught.value.code is (ErrorCode.UNAUTHORIZED if not name else ErrorCode.NOT_FOUND)
    with pytest.raises(Refusal) as caught:
        _do(planted, "owner", support.request)
    assert caught.value.code is ErrorCode.FORBIDDEN


def test_what_a_record_says_about_support_is_done(planted: People) -> None:
    """A client that shares a thread with support offline says so in the thread itself."""
    for is_shared in (True, True, False, False, True):
        with planted.writing() as context:
            support.follow(context, THREAD, is_shared=is_shared)
        assert _reads(planted, "support") == is_shared == _is_marked(planted)
