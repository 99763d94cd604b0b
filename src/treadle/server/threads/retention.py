"""How long threads are kept: rules, and which threads they are about at a moment.

A thread to which nothing came for some days is put away, and what was said in one that was put
away is removed for good after some more. Both are as if its owner had done it, so his machines hear
of it as of that. It is kept as long as a hold stands on it, as something goes on from it that is
not due itself, and as the thread is there that it worked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct
from sqlalchemy import ColumnElement, Connection, Row, func, insert, or_, select, update

from treadle.api.retention_types import (
    DueThread,
    KeptThread,
    RetentionChange,
    RetentionPlan,
    RetentionRule,
    RetentionRules,
)
from treadle.server.accounts import audit
from treadle.server.accounts.accounts import check_admin
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context
from treadle.server.data.fold_cache import decode_header, decode_record, find_base_key, read_lines
from treadle.server.data.schema import changes, organizations, retention_rules, threads, users
from treadle.server.refusals import make_not_found_refusal
from treadle.server.threads.journal_holds import find_obstacle
from treadle.server.threads.legal_holds import find_hold, has_holds

SERVER: Final = 0
"""What stands for the whole server in the place of an organization."""
PUT_AWAY: Final = "put_away"
REMOVE: Final = "remove"
_KEYS_COUNT: Final = 500
"""Names in one question."""


class Due(Struct, frozen=True):
    """A thread for which it is time by a rule: its row, with the names of whose it is."""

    row: Row[Any]
    act: str
    since: str

    def to_line(self) -> DueThread:
        """For admins."""
        row = self.row
        return DueThread(row.id, row.owner, row.organization, self.act, self.since, row.size)


class Schedule(Struct, frozen=True):
    """What is to be done, forks before their bases, and what is kept and why."""

    due: tuple[Due, ...]
    kept: tuple[KeptThread, ...]

    def to_plan(self) -> RetentionPlan:
        """For admins."""
        return RetentionPlan(tuple(one.to_line() for one in self.due), self.kept)


def list_rules(context: Context) -> RetentionRules:
    """The rules that are set; that of the whole server comes first.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    query = (
        select(retention_rules, organizations.c.name)
        .outerjoin(organizations, organizations.c.id == retention_rules.c.organization_id)
        .order_by(retention_rules.c.organization_id != SERVER, organizations.c.name)
    )
    return RetentionRules(
        tuple(
            RetentionRule(row.name, row.idle_days, row.trash_days)
            for row in context.db.execute(query)
        )
    )


def change_rule(context: Context, change: RetentionChange) -> RetentionRule:
    """Say how long threads are kept from now on.

    Raises:
        Refusal: the caller is no admin; there is no such organization.
    """
    check_admin(context)
    key = SERVER
    if change.organization is not None:
        query = select(organizations.c.id).where(
            organizations.c.name == change.organization.lower()
        )
        found = context.db.execute(query).scalar_one_or_none()
        if found is None:
            raise make_not_found_refusal()
        key = found
    mine = retention_rules.c.organization_id == key
    row = context.db.execute(select(retention_rules).where(mine).with_for_update()).one_or_none()
    before = (None, None) if row is None else (row.idle_days, row.trash_days)
    idle, trash = (
        old if new is UNSET else new
        for old, new in zip(before, (change.idle_days, change.trash_days), strict=True)
    )
    values = {"idle_days": idle, "trash_days": trash, "changed_at": context.now}
    if row is None:
        context.db.execute(insert(retention_rules).values(organization_id=key, **values))
    else:
        context.db.execute(update(retention_rules).where(mine).values(**values))
    if (idle, trash) != before:
        whose = change.organization or "the whole server"
        told = f"{whose}: put away after {_name_days(idle)}, removed after {_name_days(trash)}"
        audit.log_action(context, "retention_changed", detail=told)
    return RetentionRule(change.organization, idle, trash)


def _name_days(days: int | None) -> str:
    return "-" if days is None else "never" if days == 0 else f"{days} days"


def make_plan(context: Context) -> RetentionPlan:
    """What a run would do now. Changes nothing.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    return schedule(context).to_plan()


def schedule(context: Context) -> Schedule:
    """The threads for which it is time, and those of them that are kept.

    In an order in which a run may be stopped anywhere.
    """
    due = {one.row.key: one for one in find_due(context)}
    kept = {
        key: why for key, one in due.items() if (why := find_obstacle(context.db, one.row)) != ""
    }
    if has_holds(context.db):
        for key, one in due.items():
            if (hold := find_hold(context.db, one.row)) is not None:
                kept[key] = f"hold {hold.id} on {hold.target}: {hold.reason}"
    forks = _list_forks(context.db, [one.row for one in due.values()])
    above = _list_parents(context.db, [one.row for one in due.values() if one.row.parent])

    def goes(key: str, act: str) -> bool:
        found = due.get(key)
        return found is not None and key not in kept and found.act == act

    ordered = put_in_order(due, forks)
    has_changed = True
    while has_changed:  # what is kept keeps what it hangs on
        has_changed = False
        for key, one in ordered.items():
            why = "" if key in kept else _find_reason(one, forks.get(key, ()), above.get(key), goes)
            if why:
                kept[key], has_changed = why, True
    told = (
        KeptThread(due[key].row.id, due[key].row.owner, why) for key, why in sorted(kept.items())
    )
    return Schedule(tuple(one for key, one in ordered.items() if key not in kept), tuple(told))


def _find_reason(one: Due, forks: Sequence[Row[Any]], parent: Row[Any] | None, goes: Any) -> str:
    for fork in forks:
        is_gone = fork.deleted_at is not None if one.act == PUT_AWAY else False
        if not is_gone and not goes(fork.key, one.act):
            return f"{fork.id} goes on from it"
    if one.act == PUT_AWAY and parent is not None and not goes(parent.key, PUT_AWAY):
        return f"it worked for {parent.id}"
    return ""


def put_in_order(due: Mapping[str, Due], forks: Mapping[str, Sequence[Row[Any]]]) -> dict[str, Due]:
    """Each thread behind all that goes on from it, however deep and however many that is."""
    ordered: dict[str, Due] = {}
    seen: set[str] = set()
    todo = [(key, False) for key in [*due][::-1]]
    while todo:
        key, has_seen_forks = todo.pop()
        if has_seen_forks:
            ordered[key] = due[key]
        elif key not in seen:
            seen.add(key)
            todo.append((key, True))
            todo += [(fork.key, False) for fork in forks.get(key, ())[::-1] if fork.key in due]
    return ordered


def find_due(context: Context, one: Row[Any] | None = None) -> list[Due]:
    """The threads for which it is time by the rules alone, by their keys; or this one, if it is."""
    found = []
    rules = _read_rules(context.db)
    if one is not None:
        rules = {key: days for key, days in rules.items() if key == one.organization_id}
    for organization_id, (idle, trash) in rules.items():
        theirs = [threads.c.organization_id == organization_id, threads.c.purged_at.is_(None)]
        theirs += [] if one is None else [threads.c.key == one.key]
        if idle:
            before = shift_time(context.now, days=-idle)
            is_idle = (threads.c.deleted_at.is_(None), _has_no_change_since(before))
            for row in context.db.execute(_SELECT.where(*theirs, *is_idle)).all():
                since = row.changed_at or row.last_activity_at
                if row.last_activity_at < context.now:  # else it is of a clock that was wrong
                    since = max(since, row.last_activity_at)
                if since < before:
                    found.append(Due(row, PUT_AWAY, since))
        if trash:
            before = shift_time(context.now, days=-trash)
            # A simple client may go on with a document that was put away, and not know it.
            is_old = (threads.c.deleted_at < before, _has_no_change_since(before))
            rows = context.db.execute(_SELECT.where(*theirs, *is_old)).all()
            found += [Due(row, REMOVE, row.deleted_at) for row in rows]
    return sorted(found, key=lambda one: one.row.key)


_SELECT: Final[Any] = (
    select(
        threads,
        users.c.name.label("owner"),
        organizations.c.name.label("organization"),
        changes.c.at.label("changed_at"),
    )
    .join(users, users.c.id == threads.c.owner_id)
    .join(organizations, organizations.c.id == threads.c.organization_id)
    .outerjoin(changes, changes.c.change == threads.c.change)
)


def _has_no_change_since(at: str) -> ColumnElement[bool]:
    return or_(changes.c.at.is_(None), changes.c.at < at)


def has_rules(db: Connection) -> bool:
    """Whether anything is ever put away or removed by a rule."""
    query = select(func.count()).select_from(retention_rules)
    return bool(db.execute(query).scalar_one())


def _read_rules(db: Connection) -> dict[int, tuple[int, int]]:
    """Of each organization the days that hold for it; 0 for never."""
    rules = {row.organization_id: row for row in db.execute(select(retention_rules))}
    if not rules:
        return {}
    server = rules.get(SERVER)
    found = {}
    for organization_id in db.execute(select(organizations.c.id)).scalars():
        own = rules.get(organization_id)
        days = []
        for name in ("idle_days", "trash_days"):
            value = None if own is None else getattr(own, name)
            if value is None and server is not None:
                value = getattr(server, name)
            days.append(value or 0)
        found[organization_id] = (days[0], days[1])
    return found


def _list_forks(db: Connection, rows: Sequence[Row[Any]]) -> dict[str, list[Row[Any]]]:
    """What goes on from threads and was not removed, by their keys."""
    known = {row.key for row in rows}
    ids = sorted({row.id for row in rows})
    found: dict[str, list[Row[Any]]] = {}
    for start in range(0, len(ids), _KEYS_COUNT):
        query = select(threads).where(
            threads.c.forked_from.in_(ids[start : start + _KEYS_COUNT]),
            threads.c.kind == "records",
            threads.c.purged_at.is_(None),
        )
        for fork in db.execute(query.order_by(threads.c.key)).all():
            first = next(iter(read_lines(db, fork.key, 0, 1)), None)
            base = None if first is None else decode_header(decode_record(first)).base
            key = None if base is None else find_base_key(db, base, fork.owner_id)
            if key is not None and key in known and key != fork.key:
                found.setdefault(key, []).append(fork)
    return found


def list_forks_of(db: Connection, row: Row[Any]) -> list[Row[Any]]:
    """What goes on from a thread and was not removed."""
    return _list_forks(db, [row]).get(row.key, [])


def waits_for_parent(context: Context, row: Row[Any]) -> bool:
    """Whether a thread has worked for one that is there and is not due to be put away."""
    parent = _list_parents(context.db, [row]).get(row.key)
    if parent is None:
        return False
    return not find_due(context, parent) or bool(find_obstacle(context.db, parent))


def _list_parents(db: Connection, rows: Sequence[Row[Any]]) -> dict[str, Row[Any]]:
    """The live threads that threads have worked for, by the keys of these."""
    found = {}
    for row in rows:
        query = select(threads).where(
            threads.c.owner_id == row.owner_id,
            threads.c.id == row.parent,
            threads.c.deleted_at.is_(None),
            threads.c.purged_at.is_(None),
        )
        parent = db.execute(query).one_or_none()
        if parent is not None and parent.key != row.key:
            found[row.key] = parent
    return found
