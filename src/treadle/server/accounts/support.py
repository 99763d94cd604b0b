"""Support's access to a thread: asked for by support, given by the owner, over after 31 days.

An approved request lets in who asked; what the owner grants by himself lets in all support staff.
`threads.is_shared_with_support` says whether somebody was let in and has not been shown out; when
the days are over nobody is let in any more, whatever it says.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Row, insert, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.types import SupportAccess
from treadle.server.accounts import access, audit
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context, Verb
from treadle.server.data import schema
from treadle.server.refusals import Refusal

GRANT_DAYS: Final = 31


def request_access(context: Context, thread_id: str) -> SupportAccess:
    """Ask the owner to be let in, as support staff may; fine if one has asked already.

    Raises:
        Refusal: the caller is no support staff; there is no such thread.
    """
    row = access.find_thread(context, thread_id, Verb.REQUEST_SUPPORT, for_update=True)
    grants = schema.support_access.c
    own = grants.requested_by == context.caller.user_id
    standing = _find_current_grant(context, row.key, own)
    if standing is None or _grant_status(standing, context.now) == "none":
        values = {
            "thread_id": row.key,
            "requested_by": context.caller.user_id,
            "requested_at": context.now,
        }
        context.db.execute(insert(schema.support_access).values(**values))
        audit.log_action(context, "support_requested", row.key)
        standing = _find_current_grant(context, row.key, own)
    return _make_support_access(context, row.id, standing)


def approve_requests(context: Context, thread_id: str) -> SupportAccess:
    """Let in everybody who has asked.

    Raises:
        Refusal: the caller is not the owner; nobody has asked.
    """
    row = access.find_thread(context, thread_id, Verb.GRANT_SUPPORT, for_update=True)
    grants = schema.support_access.c
    waiting = (
        update(schema.support_access)
        .where(grants.thread_id == row.key)
        .where(grants.approved_at.is_(None), grants.revoked_at.is_(None))
    )
    if not context.db.execute(waiting.values(**_make_approval(context))).rowcount:
        raise Refusal(ErrorCode.BAD_REQUEST, "support has not asked to read this thread")
    _set_shared(context, row.key, is_shared=True)
    audit.log_action(context, "support_granted", row.key, f"as asked, {GRANT_DAYS} days")
    return _make_support_access(context, row.id, _find_current_grant(context, row.key))


def grant_access(context: Context, thread_id: str) -> SupportAccess:
    """Let in all support staff from now on, for `GRANT_DAYS`; anew, if they are already.

    Raises:
        Refusal: the caller is not the owner.
    """
    row = access.find_thread(context, thread_id, Verb.GRANT_SUPPORT, for_update=True)
    grant_access_unchecked(context, row.key)
    return _make_support_access(context, row.id, _find_current_grant(context, row.key))


def end_access(context: Context, thread_id: str) -> SupportAccess:
    """Let nobody in any more, and turn down who has asked; fine if there is nobody.

    Raises:
        Refusal: the caller is not the owner.
    """
    row = access.find_thread(context, thread_id, Verb.GRANT_SUPPORT, for_update=True)
    end_access_unchecked(context, row.key)
    return SupportAccess(row.id, "none")


def get_status(context: Context, thread_id: str) -> SupportAccess:
    """How it stands: for the owner altogether, for support staff with themselves.

    Raises:
        Refusal: the caller is neither, or there is no such thread.
    """
    grants = schema.support_access.c
    if not context.caller.is_support:
        row = access.find_thread(context, thread_id, Verb.GRANT_SUPPORT)
        return _make_support_access(context, row.id, _find_current_grant(context, row.key))
    row = access.find_thread(context, thread_id, Verb.REQUEST_SUPPORT)
    if row.owner_id == context.caller.user_id:
        return _make_support_access(context, row.id, _find_current_grant(context, row.key))
    own = grants.requested_by.is_(None) | (grants.requested_by == context.caller.user_id)
    return _make_support_access(context, row.id, _find_current_grant(context, row.key, own))


def apply_sharing_change(context: Context, key: str, *, is_shared: bool) -> None:
    """Do what a record of the thread says about support, as if its owner had asked for it here.

    Args:
        context: the request of the owner that brought the record.
        key: of the thread, whose row is held by the transaction.
        is_shared: what the record says.
    """
    if is_shared:
        grant_access_unchecked(context, key)
    else:
        end_access_unchecked(context, key)


def grant_access_unchecked(context: Context, key: str) -> None:
    """Let in all support staff; asks nobody whether the caller may."""
    _revoke_all(context, key)
    values = {"thread_id": key, **_make_approval(context)}
    context.db.execute(insert(schema.support_access).values(**values))
    _set_shared(context, key, is_shared=True)
    audit.log_action(context, "support_granted", key, f"{GRANT_DAYS} days")


def end_access_unchecked(context: Context, key: str) -> None:
    """Let nobody in; asks nobody whether the caller may."""
    count = _revoke_all(context, key)
    _set_shared(context, key, is_shared=False)
    if count:
        audit.log_action(context, "support_ended", key)


def _make_approval(context: Context) -> dict[str, Any]:
    return {
        "approved_by": context.caller.user_id,
        "approved_at": context.now,
        "expires_at": shift_time(context.now, days=GRANT_DAYS),
    }


def _revoke_all(context: Context, key: str) -> int:
    """End what is open or asked for; gives how many were."""
    grants = schema.support_access.c
    over = (
        update(schema.support_access)
        .where(grants.thread_id == key, grants.revoked_at.is_(None))
        .values(revoked_at=context.now)
    )
    return context.db.execute(over).rowcount


def _set_shared(context: Context, key: str, *, is_shared: bool) -> None:
    context.db.execute(
        update(schema.threads)
        .where(schema.threads.c.key == key)
        .values(is_shared_with_support=is_shared)
    )


def _find_current_grant(context: Context, key: str, *conditions: Any) -> Row[Any] | None:
    """What counts of the rows of a thread: who is let in, before who waits, before what is over."""
    grants = schema.support_access
    query = (
        select(grants, schema.users.c.name.label("requester"))
        .select_from(grants.outerjoin(schema.users, grants.c.requested_by == schema.users.c.id))
        .where(grants.c.thread_id == key, *conditions)
        .order_by(grants.c.id.desc())
    )
    rank = {"active": 0, "pending": 1, "none": 2}
    rows = context.db.execute(query).all()
    return min(rows, key=lambda row: rank[_grant_status(row, context.now)], default=None)


def _grant_status(row: Row[Any], now: str) -> str:
    if row.revoked_at is not None:
        return "none"
    if row.approved_at is None:
        return "pending"
    return "active" if row.expires_at > now else "none"


def _make_support_access(context: Context, thread_id: str, row: Row[Any] | None) -> SupportAccess:
    standing = "none" if row is None else _grant_status(row, context.now)
    if row is None or standing == "none":
        return SupportAccess(thread_id, "none")
    return SupportAccess(
        thread_id,
        "active" if standing == "active" else "pending",
        row.requester,
        row.requested_at,
        row.approved_at,
        row.expires_at,
    )
