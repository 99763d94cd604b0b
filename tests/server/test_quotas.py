"""What users and organizations may keep: counted as it comes and goes, refused in time."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select

from server.chains import chain, push, row, tables, thread_id
from server.people import People
from server.test_documents import ID as DOCUMENT_ID
from server.test_documents import body_of, put
from server.test_threads import scrubbed
from treadle.api.error_codes import ErrorCode
from treadle.api.types import OrganizationUpdate, StorageLine, UserUpdate
from treadle.server.accounts import accounts, quotas, tokens
from treadle.server.context import Quota
from treadle.server.data import schema
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.thread.facts import Renamed, Restored, Trashed

ID: Final = thread_id(1)
BLOB: Final = b"x" * 1000
BLOB_NAME: Final = sha256(BLOB).hexdigest()


def allow(people: People, quota: Quota = Quota(), of_all: Quota = Quota()) -> None:  # noqa: B008
    """What the owner, and his organization, may keep from now on."""
    for name in ("owner", "member"):
        found = people.principals[name]
        mine = quota if name == "owner" else found.quota
        people.principals[name] = replace(found, quota=mine, organization_quota=of_all)


def size_of(people: People, thread: str = ID) -> int:
    return int(row(people, schema.threads, id=thread).size)


def counted(people: People, thread: str = ID) -> int:
    """The same, counted anew from what is there."""
    with people.database.read() as db:
        lines = db.execute(
            select(schema.records.c.line).where(schema.records.c.thread_id == thread)
        ).scalars()
        size = sum(len(line.encode()) + 1 for line in lines)
        blobs = select(func.sum(schema.blobs.c.size)).where(schema.blobs.c.thread_id == thread)
        return size + int(db.execute(blobs).scalar_one() or 0)


def refuse(people: People, work: Callable[[], object]) -> str:
    """It is refused for the quota, and nothing is kept; what is said."""
    before = tables(people)
    with pytest.raises(Refusal) as caught:
        work()
    assert tables(people) == before
    assert caught.value.code is ErrorCode.QUOTA_EXCEEDED
    return caught.value.problem.message


def put_blob(people: People) -> None:
    with people.writing() as context:
        threads.put_blob(context, ID, BLOB_NAME, BLOB)


def test_what_a_thread_takes_is_counted_as_it_comes_and_goes(people: People) -> None:
    one = chain()
    push(people, one.upto(3))
    push(people, one, one.upto(3).mark)
    assert size_of(people) == len(one.data) == counted(people)
    push(people, one, one.upto(3).mark)  # once more, after a lost answer
    assert size_of(people) == len(one.data)
    for _ in range(2):
        put_blob(people)
        assert size_of(people) == len(one.data) + len(BLOB) == counted(people)
    with people.writing() as context:
        threads.delete_thread(context, ID, None)  # a record of the server's own
    assert size_of(people) == counted(people) > len(one.data) + len(BLOB)
    with people.writing() as context:
        threads.purge_thread(context, ID)
    assert size_of(people) == counted(people) == 0
    push(people, one)
    assert size_of(people) == len(one.data)


def test_a_scrub_counts_anew(people: People) -> None:
    one = chain()
    push(people, one)
    put_blob(people)
    new = scrubbed(one)
    with people.writing() as context:
        threads.replace_records(context, ID, one.mark, new.data)
    assert size_of(people) == len(new.data) == counted(people), "the output is named no more"


def test_documents_count_with_each_version(people: People) -> None:
    first, second = body_of(version=1), body_of(version=2)
    mark, *_ = put(people, first)
    mark, *_ = put(people, second, mark)
    assert size_of(people, DOCUMENT_ID) == len(first) + len(second)
    allow(people, Quota(storage_max=size_of(people, DOCUMENT_ID)))
    told = refuse(people, lambda: put(people, body_of(version=3), mark))
    assert "more were sent" in told


@pytest.mark.parametrize("whose", ["user", "organization"])
def test_no_more_threads_and_bytes_are_kept_than_may_be(people: People, whose: str) -> None:
    one, two = chain(1), chain(2)

    def bound(**given: Any) -> None:
        quota = Quota(**given)
        allow(people, *((quota,) if whose == "user" else (Quota(), quota)))

    bound(threads_max=0)
    assert "as many threads here as may be: 0" in refuse(people, lambda: push(people, one))
    bound(threads_max=1)
    push(people, one.upto(3))
    push(people, one, one.upto(3).mark)
    told = refuse(people, lambda: push(people, two))
    assert {"user": "the user owner", "organization": "the organization acme"}[whose] in told
    if whose == "organization":
        refuse(people, lambda: push(people, two, name="member"))
    else:
        push(people, two, name="member")
    bound(storage_max=size_of(people) * (1 if whose == "user" else 2))
    more = one.more([Renamed("another title")])
    if whose == "user":
        assert f"{len(more.data) - len(one.data):,} more" in refuse(
            people, lambda: push(people, more, one.mark)
        )
        refuse(people, lambda: put_blob(people))
    bound()
    push(people, more, one.mark)
    put_blob(people)


def test_who_keeps_too_much_may_still_put_away_and_purge_and_then_go_on(people: People) -> None:
    one, two = chain(1), chain(2)
    push(people, one)
    push(people, two)
    allow(people, Quota(threads_max=1, storage_max=10))
    away = one.more([Trashed()])
    push(people, away, one.mark)
    refuse(people, lambda: push(people, away.more([Restored()]), away.mark))
    for thread in (ID, two.thread):
        with people.writing() as context:
            threads.purge_thread(context, thread)
    allow(people, Quota(threads_max=1, storage_max=len(two.data)))
    push(people, two)
    refuse(people, lambda: push(people, one))


def test_quotas_are_set_by_admins_hold_at_once_and_are_noted(people: People) -> None:
    token = people.token("owner")

    def caller() -> Any:
        with people.database.read() as db:
            return tokens.identify_caller(db, token, "2026-11-21T08:15:30.000000Z")

    with people.writing("admin") as context:
        accounts.change_user(context, "owner", UserUpdate(threads_max=5, storage_max=1024))
        accounts.change_organization(context, "ACME", OrganizationUpdate(storage_max=4096))
    assert caller().quota == Quota(5, 1024)
    assert caller().organization_quota == Quota(None, 4096)
    with people.writing("admin") as context:
        changed = accounts.change_user(context, "owner", UserUpdate(threads_max=None))
        [acme] = [
            one for one in accounts.list_organizations(context).organizations if one.name == "acme"
        ]
    assert (changed.threads_max, changed.storage_max, acme.storage_max) == (None, 1024, 4096)
    assert caller().quota == Quota(None, 1024)
    with people.database.read() as db:
        told = db.execute(select(schema.audit.c.action, schema.audit.c.detail)).all()
    assert ("organization_changed", "acme: bytes<=4096") in [tuple(one) for one in told]
    assert any("threads<=5 bytes<=1024" in one.detail for one in told)
    with pytest.raises(Refusal) as caught, people.writing("admin") as context:
        accounts.change_organization(context, "nobody", OrganizationUpdate(threads_max=1))
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_admins_see_who_keeps_what(people: People) -> None:
    mine, others = chain(1), chain(2)
    push(people, mine)
    push(people, others, name="outsider")
    put_blob(people)
    with people.writing("admin") as context:
        accounts.change_user(context, "outsider", UserUpdate(threads_max=7))
        found = quotas.read_usage(context).users
    size = len(mine.data) + len(BLOB)
    assert found[0] == StorageLine("owner", "acme", 1, size)
    assert found[1] == StorageLine("outsider", "rivals", 1, len(others.data), 7)
    assert {one.size for one in found[2:]} == {0}
