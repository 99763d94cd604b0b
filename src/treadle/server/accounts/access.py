"""Who may do what with which thread: one table, read by every path to a thread.

A caller stands to a thread in one or more relations. What any of them allows is allowed; nothing
else is. `find` asks the table about one thread, `visible` says the same of all threads in SQL.

What is not allowed is refused so that it tells nothing: who brings no token is asked for one,
whatever he asks for; who may not read a thread hears what he would hear if it did not exist; who
may read it, but not do this with it, hears that.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, and_, exists, false, or_, select, true

from treadle.api.error_codes import ErrorCode
from treadle.server.context import Context, Principal, Verb
from treadle.server.data import round_trips, schema
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal
from treadle.thread.facts import Visibility
from treadle.thread.ids import is_thread_id


class CallerRelation(Enum):
    """How a caller stands to a thread. Several may hold at once."""

    EVERYONE = "everyone"
    """Whoever asks, also without a token."""
    OWNER = "owner"
    """Who made it."""
    MEMBER = "member"
    """A user of its organization."""
    ORGANIZATION_ADMIN = "organization_admin"
    """A user of its organization whose role that is."""
    SUPPORT = "support"
    """Support staff, of whatever organization."""
    GRANTED = "granted"
    """Support staff whom the owner lets read it, for as long as he does."""


class DeletionState(Enum):
    """Whether a thread is there."""

    LIVE = "live"
    DELETED = "deleted"
    """Put away; it can be restored."""
    PURGED = "purged"
    """What was said in it is gone for good; its id is still its owner's."""


class AccessRule(Struct, frozen=True):
    """Who stands like this to such a thread may do this with it."""

    relation: CallerRelation
    visibilities: frozenset[Visibility]
    life: DeletionState
    verbs: frozenset[Verb]


READ_VERBS: Final = frozenset((Verb.LIST, Verb.SEARCH, Verb.GET, Verb.PULL))
CONTENT_VERBS: Final = frozenset((Verb.GET, Verb.PULL))
"""Who may do one of these is given what was said in the thread, and that is noted."""
ORGANIZATION_ADMIN_VERBS: Final = frozenset((Verb.DELETE, Verb.RESTORE, Verb.UNSHARE))
"""What an admin of the organization does for colleagues who left."""

_ALL_VISIBILITIES: Final = frozenset[Visibility](("organization", "private", "public"))
_TEAM_VISIBILITIES: Final = frozenset[Visibility](("organization", "public"))
_PUBLIC_VISIBILITY: Final = frozenset[Visibility](("public",))

_OWN_LIVE: Final = frozenset(Verb) - {Verb.REQUEST_SUPPORT}
_OWN_DELETED: Final = _OWN_LIVE - {Verb.LIST, Verb.SEARCH, Verb.GET, Verb.SHARE}
"""Machines of the owner pull a deleted thread, so that they learn of it and can restore it."""
_OWN_PURGED: Final = frozenset((Verb.CREATE, Verb.PUSH, Verb.PURGE))

ACCESS_RULES: Final = (
    AccessRule(CallerRelation.OWNER, _ALL_VISIBILITIES, DeletionState.LIVE, _OWN_LIVE),
    AccessRule(CallerRelation.OWNER, _ALL_VISIBILITIES, DeletionState.DELETED, _OWN_DELETED),
    AccessRule(CallerRelation.OWNER, _ALL_VISIBILITIES, DeletionState.PURGED, _OWN_PURGED),
    AccessRule(
        CallerRelation.ORGANIZATION_ADMIN,
        _TEAM_VISIBILITIES,
        DeletionState.LIVE,
        ORGANIZATION_ADMIN_VERBS,
    ),
    AccessRule(
        CallerRelation.ORGANIZATION_ADMIN,
        _TEAM_VISIBILITIES,
        DeletionState.DELETED,
        ORGANIZATION_ADMIN_VERBS,
    ),
    AccessRule(CallerRelation.MEMBER, _TEAM_VISIBILITIES, DeletionState.LIVE, READ_VERBS),
    AccessRule(CallerRelation.EVERYONE, _PUBLIC_VISIBILITY, DeletionState.LIVE, READ_VERBS),
    AccessRule(
        CallerRelation.SUPPORT,
        _ALL_VISIBILITIES,
        DeletionState.LIVE,
        frozenset((Verb.REQUEST_SUPPORT,)),
    ),
    AccessRule(
        CallerRelation.GRANTED,
        _ALL_VISIBILITIES,
        DeletionState.LIVE,
        frozenset((Verb.GET, Verb.PULL)),
    ),
)
"""The table. An admin of the server manages people, and is a member like others where he reads."""


def find_allowed_verbs(
    relations: frozenset[CallerRelation], visibility: Visibility, life: DeletionState
) -> frozenset[Verb]:
    """All that who stands so to such a thread may do with it."""
    return frozenset[Verb]().union(
        *(
            rule.verbs
            for rule in ACCESS_RULES
            if rule.relation in relations and rule.life is life and visibility in rule.visibilities
        )
    )


class AccessAttributes(Struct, frozen=True):
    """What of a thread says who may do what with it."""

    owner_id: int
    organization_id: int
    visibility: Visibility
    life: DeletionState


def may_receive_changes(caller: Principal, attributes: AccessAttributes) -> bool:
    """Whether a caller hears of a thread's changes, judged without the database.

    Its owner hears of all of them. Support staff may be let in by a grant, which stands only in the
    database: of them this is not to be asked.
    """
    relations = {CallerRelation.EVERYONE}
    if caller.user_id is not None and caller.user_id == attributes.owner_id:
        return True
    if caller.user_id is not None and caller.organization_id == attributes.organization_id:
        relations.add(CallerRelation.MEMBER)
        if caller.role == "organization_admin":
            relations.add(CallerRelation.ORGANIZATION_ADMIN)
    return Verb.PULL in find_allowed_verbs(
        frozenset(relations), attributes.visibility, attributes.life
    )


def find_refusal(caller: Principal, allowed_verbs: frozenset[Verb], verb: Verb) -> Refusal | None:
    """Why a caller may not do this, given all that he may; `None` if he may."""
    if verb in allowed_verbs:
        return None
    if caller.user_id is None:
        return make_unauthorized_refusal()
    if Verb.PULL in allowed_verbs and verb not in READ_VERBS:
        return Refusal(ErrorCode.FORBIDDEN, "you may read this thread, but not do this with it")
    return make_not_found_refusal()


def find_thread(
    context: Context, thread_id: str, verb: Verb, *, for_update: bool = False
) -> Row[Any]:
    """The row of a thread, for who may do this with it.

    Several people may have a thread of one id. The caller's own stands before all others, then one
    of the caller's organization; where that leaves several, the caller has to say whose.

    Args:
        context: whose request it is.
        thread_id: the thread; any text. `ID@NAME` is that of the user of this name.
        verb: what is to be done.
        for_update: hold the row until the transaction ends, so that nobody changes it meanwhile.
            Who changes something reads nothing.

    Returns:
        The columns of `schema.threads`, and behind them the name of the owner.

    Raises:
        Refusal: there is no such thread, or this caller may not do this with it; it is not clear
            whose is meant.
    """
    found = _find_candidates(context, thread_id)
    allowing = [row for row, may in found if verb in may]
    if not allowing:
        # Who may read one of them learns that he may not do this with it, and no more.
        may = next((may for _, may in found if Verb.PULL in may), frozenset[Verb]())
        raise find_refusal(context.caller, may, verb) or make_not_found_refusal()
    near = [row for row in allowing if row.organization_id == context.caller.organization_id]
    chosen = near or allowing
    if len(chosen) > 1:
        names = ", ".join(sorted(f"{row.id}@{row.owner}" for row in chosen))
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "several people have a thread of this id",
            hint=f"say whose: {names}",
        )
    if not for_update:
        if verb in CONTENT_VERBS:
            context.note_read(chosen[0].key, chosen[0].owner_id)
        return chosen[0]
    # Only the row that was chosen is held: whoever takes an id of somebody else stops nobody.
    held = _find_candidates(context, f"{chosen[0].id}@{chosen[0].owner}", for_update=True)
    for row, may in held:
        if verb in may:
            return row
    raise make_not_found_refusal()


OWN_THREAD_QUERY: Final = "own"
_OWN_THREAD_SQL: Final = (
    "SELECT * FROM threads WHERE id = %(id)s AND owner_id = "
    "(SELECT user_id FROM tokens WHERE hash = %(hashed)s) FOR UPDATE"
)


def make_own_thread_query(hashed: str, thread_id: str) -> round_trips.PreliminaryQuery:
    """The row that `own` holds for whose token this is: as a transaction of PostgreSQL begins."""
    return round_trips.PreliminaryQuery(
        OWN_THREAD_QUERY, thread_id, _OWN_THREAD_SQL, {"id": thread_id, "hashed": hashed}
    )


def find_own_thread(
    context: Context, thread_id: str, *, for_update: bool = False
) -> Row[Any] | None:
    """The row of the caller's own thread of this id, in whatever state; `None` if there is none."""
    asked = (
        round_trips.pop_query_rows(context.db, OWN_THREAD_QUERY, thread_id) if for_update else None
    )
    if asked is not None and all(row.owner_id == context.caller.user_id for row in asked):
        return next(iter(asked), None)
    query = select(schema.threads).where(
        schema.threads.c.owner_id == context.caller.user_id, schema.threads.c.id == thread_id
    )
    query = query.with_for_update() if for_update else query
    return context.db.execute(query).one_or_none()


def _find_candidates(
    context: Context, thread_id: str, *, for_update: bool = False
) -> list[tuple[Row[Any], frozenset[Verb]]]:
    """The threads that may be meant, each with all that the caller may do with it."""
    thread_id, _, owner = thread_id.partition("@")
    if not is_thread_id(thread_id):
        return []
    conditions = dict(_list_relations(context.caller, context.now))
    columns = (is_so.label(_relation_label(relation)) for relation, is_so in conditions.items())
    query = (
        select(schema.threads, schema.users.c.name.label("owner"), *columns)
        .join(schema.users, schema.users.c.id == schema.threads.c.owner_id)
        .where(schema.threads.c.id == thread_id)
    )
    query = query.where(schema.users.c.name == owner) if owner else query
    query = query.with_for_update(of=schema.threads) if for_update else query
    rows = context.db.execute(query).all()
    rows = [row for row in rows if row.owner_id == context.caller.user_id] or rows
    found = []
    for row in rows:
        told = row._mapping
        relations = frozenset(
            relation for relation in conditions if told[_relation_label(relation)]
        )
        found.append((row, find_allowed_verbs(relations, row.visibility, get_deletion_state(row))))
    return found


def check_creator(caller: Principal) -> None:
    """That the caller may make threads of his own, as every user may.

    Raises:
        Refusal: it is nobody in particular.
    """
    if caller.user_id is None:
        raise make_unauthorized_refusal()


def get_deletion_state(row: Row[Any]) -> DeletionState:
    """Whether a thread is there, by its row."""
    if row.purged_at is not None:
        return DeletionState.PURGED
    return DeletionState.LIVE if row.deleted_at is None else DeletionState.DELETED


def _relation_label(relation: CallerRelation) -> str:
    return f"relation_{relation.value}"


def make_visibility_condition(
    caller: Principal,
    now: str,
    *,
    verb: Verb = Verb.LIST,
    include_deleted: bool = False,
) -> ColumnElement[bool]:
    """The threads that a caller may list, as a condition on `schema.threads`.

    Args:
        caller: who asks.
        now: the time, which support's access ends with.
        verb: of the reading ones; `GET` and `PULL` let support in.
        include_deleted: the caller's own deleted threads as well.
    """
    threads = schema.threads.c
    lives = {
        DeletionState.LIVE: and_(threads.deleted_at.is_(None), threads.purged_at.is_(None)),
        DeletionState.DELETED: and_(threads.deleted_at.is_not(None), threads.purged_at.is_(None)),
        DeletionState.PURGED: threads.purged_at.is_not(None),
    }
    conditions = dict(_list_relations(caller, now))
    found = [
        and_(
            conditions[rule.relation],
            threads.visibility.in_(sorted(rule.visibilities)),
            lives[rule.life],
        )
        for rule in ACCESS_RULES
        if rule.relation in conditions and verb in rule.verbs
    ]
    if include_deleted and CallerRelation.OWNER in conditions:
        found.append(and_(conditions[CallerRelation.OWNER], lives[DeletionState.DELETED]))
    return or_(false(), *found)


def _list_relations(
    caller: Principal, now: str
) -> Iterator[tuple[CallerRelation, ColumnElement[bool]]]:
    """The relations this caller can stand in, each with the threads for which he does."""
    threads = schema.threads.c
    yield CallerRelation.EVERYONE, true()
    if caller.user_id is None:
        return
    in_organization = threads.organization_id == caller.organization_id
    yield CallerRelation.OWNER, threads.owner_id == caller.user_id
    yield CallerRelation.MEMBER, in_organization
    if caller.role == "organization_admin":
        yield CallerRelation.ORGANIZATION_ADMIN, in_organization
    if caller.is_support:
        yield CallerRelation.SUPPORT, true()
        grants = schema.support_access.c
        yield (
            CallerRelation.GRANTED,
            exists().where(
                grants.thread_id == threads.key,
                make_active_grant_condition(now),
                or_(grants.requested_by.is_(None), grants.requested_by == caller.user_id),
            ),
        )


def make_active_grant_condition(now: str) -> ColumnElement[bool]:
    """Of `schema.support_access`: the rows by which support may read at this time."""
    grants = schema.support_access.c
    return and_(
        grants.approved_at.is_not(None), grants.revoked_at.is_(None), grants.expires_at > now
    )
