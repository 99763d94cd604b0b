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
from treadle.server.accounts.access import find_thread
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context, Principal, Verb
from treadle.server.data import schema
from treadle.server.refusals import Refusal

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
            find_thread(context, THREAD, Verb.GET)
        except Refusal as refusal:
            return refusal.code is not ErrorCode.NOT_FOUND
        return True


def _is_marked(people: People) -> bool:
    with people.database.read() as db:
        query = select(schema.threads.c.is_shared_with_support)
        return bool(db.execute(query.where(schema.threads.c.id == THREAD)).scalar_one())


def test_support_asks_and_the_owner_approves(planted: People) -> None:
    asked = _do(planted, "support", support.request_access)
    assert (asked.status, asked.requested_by, asked.requested_at) == ("pending", "support", at())
    assert not _reads(planted, "support")
    assert _do(planted, "owner", support.get_status) == asked
    given = _do(planted, "owner", support.approve_requests, at(5))
    assert (given.status, given.requested_by, given.approved_at) == ("active", "support", at(5))
    assert given.expires_at == shift_time(at(5), days=31)
    assert _reads(planted, "support", at(6))
    assert _do(planted, "support", support.get_status, at(6)) == given


def test_who_has_not_asked_is_not_let_in_with_who_has(planted: People) -> None:
    _do(planted, "support", support.request_access)
    _do(planted, "owner", support.approve_requests)
    assert _reads(planted, "support")
    assert not _reads(planted, "second")
    assert _do(planted, "second", support.get_status).status == "none"


def test_the_owner_lets_in_all_of_support_unasked(planted: People) -> None:
    given = _do(planted, "owner", support.grant_access)
    assert (given.status, given.requested_by) == ("active", None)
    assert _reads(planted, "support")
    assert _reads(planted, "second")
    assert _is_marked(planted)
    for name in ("member", "chief", "outsider", "admin"):
        assert not _reads(planted, name)


def test_access_is_over_after_31_days_to_the_microsecond(planted: People) -> None:
    _do(planted, "owner", support.grant_access)
    end = shift_time(at(), days=31)
    assert _reads(planted, "support", shift_time(end, seconds=-1))
    assert not _reads(planted, "support", end)
    assert _do(planted, "owner", support.get_status, end) == SupportAccess(THREAD, "none")


def test_ending_it_turns_out_who_is_in_and_down_who_has_asked(planted: People) -> None:
    _do(planted, "support", support.request_access)
    _do(planted, "owner", support.approve_requests)
    _do(planted, "second", support.request_access)
    assert _do(planted, "owner", support.end_access) == SupportAccess(THREAD, "none")
    assert not _reads(planted, "support")
    assert not _is_marked(planted)
    assert _do(planted, "second", support.get_status).status == "none"
    with pytest.raises(Refusal) as caught:
        _do(planted, "owner", support.approve_requests)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert _do(planted, "owner", support.end_access).status == "none", "it can be said twice"


def test_asking_twice_asks_once(planted: People) -> None:
    first = _do(planted, "support", support.request_access)
    assert _do(planted, "support", support.request_access, at(9)) == first
    given = _do(planted, "owner", support.approve_requests)
    assert _do(planted, "support", support.request_access, at(9)) == given
    with planted.database.read() as db:
        assert len(db.execute(select(schema.support_access)).all()) == 1
    again = _do(planted, "support", support.request_access, shift_time(at(), days=40))
    assert again.status == "pending", "when it is over, it can be asked for anew"


def test_granting_again_begins_the_days_anew(planted: People) -> None:
    _do(planted, "owner", support.grant_access)
    moment = shift_time(at(), days=20)
    assert _do(planted, "owner", support.grant_access, moment).expires_at == shift_time(
        moment, days=31
    )
    assert _do(planted, "owner", support.end_access, shift_time(moment, days=1)).status == "none"
    assert not _reads(planted, "support", shift_time(moment, days=2))


def test_nobody_but_the_owner_lets_support_in(planted: People) -> None:
    _do(planted, "support", support.request_access)
    works = (support.approve_requests, support.grant_access, support.end_access, support.get_status)
    for name in ("member", "chief", "outsider", "admin", "second", ""):
        for work in works:
            if name == "second" and work is support.get_status:
                continue
            with pytest.raises(Refusal) as caught:
                _do(planted, name, work)
            assert caught.value.code is (
                ErrorCode.UNAUTHORIZED if not name else ErrorCode.NOT_FOUND
            )
    assert _do(planted, "owner", support.get_status).status == "pending"


def test_nobody_but_support_asks(planted: People) -> None:
    for name in ("member", "chief", "outsider", "admin", ""):
        with pytest.raises(Refusal) as caught:
            _do(planted, name, support.request_access)
        assert caught.value.code is (ErrorCode.UNAUTHORIZED if not name else ErrorCode.NOT_FOUND)
    with pytest.raises(Refusal) as caught:
        _do(planted, "owner", support.request_access)
    assert caught.value.code is ErrorCode.FORBIDDEN


def test_what_a_record_says_about_support_is_done(planted: People) -> None:
    """A client that shares a thread with support offline says so in the thread itself."""
    for is_shared in (True, True, False, False, True):
        with planted.writing() as context:
            support.apply_sharing_change(context, THREAD, is_shared=is_shared)
        assert _reads(planted, "support") == is_shared == _is_marked(planted)
