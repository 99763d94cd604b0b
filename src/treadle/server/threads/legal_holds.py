"""Legal holds: as long as one stands, nobody removes anything of what it names.

A hold is on a thread, on all threads of a user, or on those of an organization. What a held thread
goes on from is held with it, since a fork has its history from there, and so are the threads of
its sub-agents, in which its work was done. Held is what the server has; a push is taken as always,
also one that puts its thread away, since it only adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, or_, select, text, update

from treadle.api.error_codes import ErrorCode
from treadle.api.retention_types import Hold, Holds, NewHold
from treadle.server.accounts import audit
from treadle.server.accounts.accounts import check_admin
from treadle.server.context import Context
from treadle.server.data.schema import legal_holds, organizations, threads, users
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.server.threads.forks import StoredFork, find_forks

REASON_LENGTH_MAX: Final = 500

_LOCK_NUMBER: Final = 7_205_759_403_792_793
"""Any; nobody else takes it. SQLite has one writer at a time anyway."""
_SHARE_LOCK: Final = text(f"SELECT pg_advisory_xact_lock_shared({_LOCK_NUMBER})")
_LOCK: Final = text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})")

_placers = users.alias("placers")
_lifters = users.alias("lifters")
_SELECT: Final[Any] = (
    select(
        legal_holds,
        threads.c.id.label("thread"),
        users.c.name.label("user"),
        organizations.c.name.label("organization"),
        _placers.c.name.label("placer"),
        _lifters.c.name.label("lifter"),
    )
    .select_from(legal_holds)
    .outerjoin(threads, threads.c.key == legal_holds.c.thread_id)
    .outerjoin(users, users.c.id == legal_holds.c.user_id)
    .outerjoin(organizations, organizations.c.id == legal_holds.c.organization_id)
    .outerjoin(_placers, _placers.c.id == legal_holds.c.placed_by)
    .outerjoin(_lifters, _lifters.c.id == legal_holds.c.lifted_by)
)


def place_hold(context: Context, new: NewHold) -> Hold:
    """Hold a thread, or all threads of a user or an organization, those that come among them.

    Args:
        context: a transaction that writes.
        new: what is held, and why.

    Raises:
        Refusal: the caller is no admin; there is no such thing, or nothing is left of it; not one
            thing is named, or no reason.
    """
    check_admin(context)
    reason = " ".join(new.reason.split())
    named = [one for one in (new.thread, new.user, new.organization) if one is not None]
    if len(named) != 1:
        raise Refusal(
            ErrorCode.BAD_REQUEST, "a hold is on one thread, one user or one organization"
        )
    if not 0 < len(reason) <= REASON_LENGTH_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"say why, in {REASON_LENGTH_MAX} characters at most")
    target = _find_target(context, new)
    if context.db.dialect.name == "postgresql":
        context.db.execute(_LOCK)  # who removes something at this moment ends first
    hold_id = context.db.execute(
        insert(legal_holds)
        .values(
            **target,
            reason=reason,
            placed_at=context.now,
            placed_by=context.caller.user_id,
        )
        .returning(legal_holds.c.id)
    ).scalar_one()
    row = context.db.execute(_SELECT.where(legal_holds.c.id == hold_id)).one()
    made = _make_hold(row)
    audit.log_action(context, "hold_placed", row.thread_id, f"hold {hold_id} on {made.target}")
    return made


def _find_target(context: Context, new: NewHold) -> dict[str, Any]:
    if new.thread is not None:
        # Whoever removes it at this moment has its row: he ends first, and nothing is left to hold.
        row = find_any_thread(context, new.thread)
        if row.purged_at is not None:
            raise Refusal(ErrorCode.BAD_REQUEST, "what was said in this thread is gone already")
        return {"thread_id": row.key}
    table, name, column = (
        (users, new.user, "user_id")
        if new.user is not None
        else (organizations, new.organization, "organization_id")
    )
    found = context.db.execute(
        select(table.c.id).where(table.c.name == (name or "").lower())
    ).scalar_one_or_none()
    if found is None:
        raise make_not_found_refusal()
    return {column: found}


def find_any_thread(context: Context, name: str) -> Row[Any]:
    """The row of anybody's thread, held until the transaction ends; for admins.

    Args:
        context: a transaction that writes.
        name: an id, or `ID@NAME`.

    Raises:
        Refusal: there is none; several people have one of this id.
    """
    thread_id, _, owner = name.partition("@")
    query = (
        select(threads, users.c.name.label("owner"))
        .join(users, users.c.id == threads.c.owner_id)
        .where(threads.c.id == thread_id)
    )
    query = query.where(users.c.name == owner.lower()) if owner else query
    rows = context.db.execute(query.with_for_update(of=threads)).all()
    if not rows:
        raise make_not_found_refusal()
    if len(rows) > 1:
        names = ", ".join(sorted(f"{row.id}@{row.owner}" for row in rows))
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "several people have a thread of this id",
            hint=f"say whose: {names}",
        )
    return rows[0]


def list_holds(context: Context) -> Holds:
    """All holds, newest first; those that were lifted are among them.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    rows = context.db.execute(_SELECT.order_by(legal_holds.c.id.desc()))
    return Holds(tuple(_make_hold(row) for row in rows))


def lift_hold(context: Context, hold_id: int) -> None:
    """Let what was held be removed again; fine if it was lifted before.

    Raises:
        Refusal: the caller is no admin; there is no such hold.
    """
    check_admin(context)
    mine = legal_holds.c.id == hold_id
    row = context.db.execute(_SELECT.where(mine)).one_or_none()
    if row is None:
        raise make_not_found_refusal()
    if row.lifted_at is not None:
        return
    lifted = {"lifted_at": context.now, "lifted_by": context.caller.user_id}
    context.db.execute(update(legal_holds).where(mine).values(**lifted))
    target = _make_hold(row).target
    audit.log_action(context, "hold_lifted", row.thread_id, f"hold {hold_id} on {target}")


def check_not_held(context: Context, row: Row[Any], *, removes: bool = True) -> None:
    """That a thread may be put away, or that something of it may be removed for good.

    From then on nobody places a hold until this transaction ends: who has placed one can rely on it
    that nothing is removed later.

    Args:
        context: a transaction that writes.
        row: the thread's, held.
        removes: whether something is removed; then what goes on from it counts too.

    Raises:
        Refusal: a hold stands, which it names.
    """
    if context.db.dialect.name == "postgresql":
        context.db.execute(_SHARE_LOCK)
    if not has_holds(context.db):
        return
    forks: Sequence[StoredFork] = find_forks(context, row) if removes else ()
    for one in (row, *(fork.row for fork in forks)):
        if (hold := find_hold(context.db, one)) is not None:
            raise _make_refusal(hold, "" if one is row else one.id)


def has_holds(db: Connection) -> bool:
    """Whether any hold stands: on most servers none ever does."""
    query = select(legal_holds.c.id).where(legal_holds.c.lifted_at.is_(None)).limit(1)
    return db.execute(query).first() is not None


def find_hold(db: Connection, row: Row[Any]) -> Hold | None:
    """The oldest hold that stands on a thread, by its row, or on one that it has worked for."""
    query = _SELECT.where(
        legal_holds.c.lifted_at.is_(None),
        or_(
            legal_holds.c.thread_id.in_(_list_keys_above(db, row)),
            legal_holds.c.user_id == row.owner_id,
            legal_holds.c.organization_id == row.organization_id,
        ),
    )
    found = db.execute(query.order_by(legal_holds.c.id).limit(1)).first()
    return None if found is None else _make_hold(found)


def _list_keys_above(db: Connection, row: Row[Any]) -> list[str]:
    """The key of a thread, and those of its owner's threads that it has worked for."""
    keys, parent = [row.key], row.parent
    while parent is not None:
        query = select(threads.c.key, threads.c.parent)
        its = (threads.c.owner_id == row.owner_id, threads.c.id == parent)
        above = db.execute(query.where(*its)).one_or_none()
        if above is None or above.key in keys:
            break
        keys.append(above.key)
        parent = above.parent
    return keys


def _make_refusal(hold: Hold, fork: str) -> Refusal:
    why = f"{fork}, which goes on from it, is held: " if fork else ""
    return Refusal(
        ErrorCode.LEGAL_HOLD,
        f"nothing of this thread may be removed: {why}hold {hold.id} on {hold.target} by "
        f"{hold.placed_by} since {hold.placed_at[:10]} ({hold.reason})",
        hint="who runs the server can lift it: `treadle admin holds lift`",
    )


def _make_hold(row: Row[Any]) -> Hold:
    target = f"the organization {row.organization}"
    if row.thread_id is not None:
        target = f"the thread {row.thread or row.thread_id}"
    elif row.user_id is not None:
        target = f"the user {row.user}"
    return Hold(
        row.id,
        target,
        row.reason,
        row.placed_at,
        row.placer or audit.OPERATOR,
        row.lifted_at,
        None if row.lifted_at is None else row.lifter or audit.OPERATOR,
    )
