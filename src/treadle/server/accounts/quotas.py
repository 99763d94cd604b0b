"""How much a user, and the members of an organization together, may keep on the server.

Looked at before something is kept. Two requests at the same moment may both fit by what each of
them sees: a quota is a bound for people and their machines, not for attackers, whom
`--body-max` and `--rate` bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, func, select

from treadle.api.error_codes import ErrorCode
from treadle.api.types import StorageLine, StorageUse
from treadle.server.accounts.accounts import check_admin
from treadle.server.context import UNLIMITED, Context, Quota
from treadle.server.data.schema import organizations, threads, users
from treadle.server.refusals import Refusal


def check_quota(context: Context, size: int, *, is_new: bool = False) -> None:
    """That so many bytes more may be kept for the caller. Asks nothing where there is no quota.

    Args:
        context: a transaction.
        size: the bytes that come, as sent.
        is_new: whether they make another thread.

    Raises:
        Refusal: quota exceeded.
    """
    for quota, column, whose in _list_quotas(context):
        query = select(func.count(), func.coalesce(func.sum(threads.c.size), 0))
        count, used = context.db.execute(
            query.select_from(threads).where(column, threads.c.purged_at.is_(None))
        ).one()
        if is_new and quota.threads_max is not None and count >= quota.threads_max:
            raise _make_refusal(f"{whose} has as many threads here as may be: {count:,}")
        if quota.storage_max is not None and used + size > quota.storage_max:
            raise _make_refusal(
                f"{whose} may keep {quota.storage_max:,} bytes here; {int(used):,} are taken, and "
                f"{size:,} more were sent"
            )


def _list_quotas(context: Context) -> Iterator[tuple[Quota, ColumnElement[bool], str]]:
    caller = context.caller
    if caller.quota != UNLIMITED:
        yield caller.quota, threads.c.owner_id == caller.user_id, f"the user {caller.user}"
    if caller.organization_quota != UNLIMITED:
        is_theirs = threads.c.organization_id == caller.organization_id
        yield caller.organization_quota, is_theirs, f"the organization {caller.organization}"


def _make_refusal(message: str) -> Refusal:
    return Refusal(
        ErrorCode.QUOTA_EXCEEDED,
        message,
        hint="`treadle private ID` takes a thread off the server; or ask whoever runs it for more",
    )


def read_usage(context: Context) -> StorageUse:
    """What each user keeps, and may keep; those who keep most come first.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    size = func.coalesce(func.sum(threads.c.size), 0).label("size")
    is_theirs = (threads.c.owner_id == users.c.id) & threads.c.purged_at.is_(None)
    query: Any = (
        select(
            users.c.name,
            organizations.c.name.label("organization"),
            users.c.threads_max,
            users.c.storage_max,
            func.count(threads.c.key).label("thread_count"),
            size,
        )
        .select_from(users.join(organizations).outerjoin(threads, is_theirs))
        .group_by(users.c.id, users.c.name, organizations.c.name)
        .group_by(users.c.threads_max, users.c.storage_max)
        .order_by(size.desc(), users.c.name)
    )
    return StorageUse(
        tuple(
            StorageLine(
                row.name,
                row.organization,
                row.thread_count,
                int(row.size),
                row.threads_max,
                row.storage_max,
            )
            for row in context.db.execute(query)
        )
    )
