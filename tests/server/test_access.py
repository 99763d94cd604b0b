"""Who may do what with which thread: every caller, visibility, life and verb, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest
from msgspec import Struct, json
from sqlalchemy import insert, or_, select, update

from case_tables import for_every_row
from server.people import People, at
from server.planting import MISSING, id_of, plant
from treadle.api.error_codes import ErrorCode
from treadle.server.accounts import tokens
from treadle.server.accounts.access import (
    ACCESS_RULES,
    READ_VERBS,
    AccessAttributes,
    DeletionState,
    check_creator,
    find_thread,
    get_deletion_state,
    make_visibility_condition,
    may_receive_changes,
)
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context, Principal, Verb
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.refusals import Refusal

VERBS: Final = (
    (Verb.LIST, Verb.SEARCH, Verb.GET, Verb.PULL),
    (Verb.CREATE, Verb.PUSH, Verb.SET_VISIBILITY, Verb.DELETE, Verb.RESTORE, Verb.PURGE),
    (Verb.SHARE, Verb.UNSHARE),
    (Verb.REQUEST_SUPPORT, Verb.GRANT_SUPPORT),
)
"""The columns of the table, in its groups."""

TABLE: Final = """
owner                   all           live      YYYY YYYYYY YY FY
owner                   all           deleted   NNNY YYYYYY FY FY
owner                   all           purged    NNNN YYNNNY NN NN
chief                   team          live      YYYY FFFYYF FY FF
chief                   team          deleted   NNNN NNNYYN NY NN
chief                   private       live      NNNN NNNNNN NN NN
chief                   private       deleted   NNNN NNNNNN NN NN
member                  team          live      YYYY FFFFFF FF FF
member                  team          deleted   NNNN NNNNNN NN NN
member                  private       live      NNNN NNNNNN NN NN
member                  private       deleted   NNNN NNNNNN NN NN
strangers               public        live      YYYY FFFFFF FF FF
strangers               hidden        live      NNNN NNNNNN NN NN
strangers               all           deleted   NNNN NNNNNN NN NN
support                 public        live      YYYY FFFFFF FF YF
support                 hidden        live      NNNN NNNNNN NN YN
support                 all           deleted   NNNN NNNNNN NN NN
let_in                  public        live      YYYY FFFFFF FF YF
let_in                  hidden        live      NNYY FFFFFF FF YF
let_in                  all           deleted   NNNN NNNNNN NN NN
others                  all           purged    NNNN NNNNNN NN NN
nobody                  public        live      YYYY UUUUUU UU UU
nobody                  hidden        live      UUUU UUUUUU UU UU
nobody                  all           deleted   UUUU UUUUUU UU UU
nobody                  all           purged    UUUU UUUUUU UU UU
"""
"""Y: yes. F: 403, what it is may be known. N: 404, nothing may be known. U: 401."""

STRANGERS: Final = ("outsider", "rival_chief", "admin")
SUPPORT: Final = ("support", "support_expired", "support_ended", "support_waiting", "support_other")
LET_IN: Final = ("support_asked", "support_invited")
CALLERS: Final = {
    "strangers": STRANGERS,
    "support": SUPPORT,
    "let_in": LET_IN,
    "others": ("chief", "member", *STRANGERS, *SUPPORT, *LET_IN),
}
VISIBILITIES: Final = {
    "all": ("organization", "private", "public"),
    "team": ("organization", "public"),
    "hidden": ("organization", "private"),
}
STATUS: Final = {"F": 403, "N": 404, "U": 401}


class Cell(Struct, frozen=True):
    """A caller, and a thread of `owner` that he asks for."""

    caller: str
    visibility: str
    life: DeletionState


def _read() -> Iterator[tuple[Cell, dict[Verb, str]]]:
    verbs = [verb for group in VERBS for verb in group]
    for line in TABLE.split("\n")[1:-1]:
        callers, visibilities, life, *answers = line.split()
        assert [len(group) for group in answers] == [len(group) for group in VERBS]
        row = dict(zip(verbs, "".join(answers), strict=True))
        for caller in CALLERS.get(callers, (callers,)):
            for visibility in VISIBILITIES.get(visibilities, (visibilities,)):
                yield Cell(caller, visibility, DeletionState(life)), row


CELLS: Final = dict(_read())
ALL_CALLERS: Final = (*CALLERS["others"], "owner", "nobody")
PLACES: Final = tuple(product(VISIBILITIES["all"], DeletionState))
THREADS: Final = {place: id_of(number) for number, place in enumerate(PLACES, 1)}


@pytest.fixture
def world(people: People) -> People:
    """The threads of the table, all of `owner`, and everybody who asks for them."""
    more: dict[str, Principal] = {"nobody": people[""]}
    with people.database.write() as db:
        for (visibility, life), thread_id in THREADS.items():
            gone = {"deleted_at": at() if life is DeletionState.DELETED else None,
                    "purged_at": at() if life is DeletionState.PURGED else None}  # fmt: skip
            plant(db, thread_id, people["owner"], visibility=visibility, **gone)
        for name in (*SUPPORT[1:], *LET_IN):
            more[name] = _another(db, people["support"], name)
        more["rival_chief"] = _another(
            db, people["outsider"], "rival_chief", role="organization_admin"
        )
        asked, ended = more["support_asked"].user_id, more["support_ended"].user_id
        past, soon = at(-1), at(1)
        for thread_id in THREADS.values():
            rows = (
                {"requested_by": asked, "approved_at": past, "expires_at": soon},
                {"requested_by": more["support_expired"].user_id, "approved_at": past,
                 "expires_at": at()},
                {"requested_by": ended, "approved_at": past, "expires_at": soon,
                 "revoked_at": past},
                {"requested_by": more["support_waiting"].user_id, "requested_at": past},
            )  # fmt: skip
            for row in rows:
                db.execute(insert(schema.support_access).values(thread_id=thread_id, **row))
    return People(people.database, {**people.principals, **more})


def _another(db: object, like: Principal, name: str, role: str = "member") -> Principal:
    from msgspec.structs import replace
    from sqlalchemy import Connection

    assert isinstance(db, Connection)
    columns = {
        "name": name,
        "organization_id": like.organization_id,
        "role": role,
        "is_admin": like.is_admin,
        "is_support": like.is_support,
        "created_at": at(),
    }
    made = db.execute(insert(schema.users).values(**columns).returning(schema.users.c.id))
    return replace(like, user_id=made.scalar_one(), user=name, role=role)


def _invite(people: People) -> None:
    """Let all support staff in, where only those who asked were."""
    with people.database.write() as db:
        for thread_id in THREADS.values():
            values = {"thread_id": thread_id, "approved_at": at(-1), "expires_at": at(1)}
            db.execute(insert(schema.support_access).values(**values))


def _answer(context: Context, thread_id: str, verb: Verb) -> tuple[str, Refusal | None]:
    try:
        row = find_thread(context, thread_id, verb)
    except Refusal as refusal:
        status = refusal.code.status
        return next(key for key, value in STATUS.items() if value == status), refusal
    assert row.id == thread_id
    return "Y", None


def test_the_table_has_every_cell_once() -> None:
    """17 callers x 3 visibilities x 3 lives x 14 verbs: no cell is left to a default."""
    assert set(CELLS) == {Cell(caller, *place) for caller, place in product(ALL_CALLERS, PLACES)}
    assert len(CELLS) == sum(1 for _ in _read())
    assert {verb for row in CELLS.values() for verb in row} == set(Verb)
    assert len(CELLS) * len(Verb) >= 520


def test_every_cell_is_as_the_table_says(world: People) -> None:
    """What may not be seen is answered with the bytes that answer for what does not exist."""
    wrong = []
    missing = {caller: _missing(world, caller) for caller in ALL_CALLERS}
    for step in ("asked", "invited"):
        if step == "invited":
            _invite(world)
        for cell, row in CELLS.items():
            is_later = cell.caller == "support_invited"
            if (step == "invited") != is_later and cell.caller in (*SUPPORT, *LET_IN):
                continue
            with world.reading(cell.caller) as context:
                thread_id = THREADS[cell.visibility, cell.life]
                found = {verb: _answer(context, thread_id, verb) for verb in row}
            for verb, (letter, refusal) in found.items():
                if letter != row[verb]:
                    wrong.append((cell, verb, letter))
                if letter in "NU":
                    assert refusal is not None
                    assert _bytes(refusal) == missing[cell.caller][verb]
    assert wrong == []


def test_lists_and_searches_hold_the_same_threads_as_the_table(world: People) -> None:
    """`find` and `visible` say the same of every cell, for every verb that reads."""
    wrong = []
    for step in ("asked", "invited"):
        if step == "invited":
            _invite(world)
        for caller, verb in product(ALL_CALLERS, sorted(READ_VERBS, key=str)):
            if (step == "invited") != (caller == "support_invited") and caller in (
                *SUPPORT,
                *LET_IN,
            ):
                continue
            with world.reading(caller) as context:
                condition = make_visibility_condition(context.caller, context.now, verb=verb)
                query = select(schema.threads.c.id).where(condition)
                found = set(context.db.execute(query).scalars())
                single = {i for i in THREADS.values() if _answer(context, i, verb)[0] == "Y"}
            wanted = {
                THREADS[cell.visibility, cell.life]
                for cell, row in CELLS.items()
                if cell.caller == caller and row[verb] == "Y"
            }
            if not found == wanted == single:
                wrong.append((caller, verb, found, wanted, single))
    assert wrong == []


def test_who_hears_of_a_change_is_who_the_database_would_tell(world: People) -> None:
    """`hears` and the condition of the feed say the same of every cell, but for support staff."""
    answers: set[bool] = set()
    for caller in ALL_CALLERS:
        if caller == "nobody" or world[caller].is_support:
            continue
        with world.reading(caller) as context:
            is_own = schema.threads.c.owner_id == context.caller.user_id
            sees = make_visibility_condition(context.caller, context.now, verb=Verb.PULL)
            query = select(schema.threads, or_(is_own, sees).label("is_told"))
            rows = context.db.execute(query).all()
            answers |= {row.is_told for row in rows}
            for row in rows:
                place = AccessAttributes(
                    row.owner_id, row.organization_id, row.visibility, get_deletion_state(row)
                )
                assert may_receive_changes(context.caller, place) == row.is_told, (caller, row)
    assert answers == {True, False}


def test_deleted_threads_are_listed_for_their_owner_alone(world: People) -> None:
    for caller in ALL_CALLERS:
        with world.reading(caller) as context:
            found, more = (
                set(
                    context.db.execute(
                        select(schema.threads.c.id).where(
                            make_visibility_condition(
                                context.caller, context.now, include_deleted=wants
                            )
                        )
                    ).scalars()
                )
                for wants in (False, True)
            )
        own = {THREADS[place] for place in PLACES if place[1] is DeletionState.DELETED}
        assert more - found == (own if caller == "owner" else set())
        assert found <= more


def _bytes(refusal: Refusal) -> tuple[object, ...]:
    return refusal.code, json.encode(refusal.problem), refusal.headers


def _missing(people: People, caller: str) -> dict[Verb, tuple[object, ...]]:
    """What this caller is answered about a thread that does not exist, for every verb."""
    found = {}
    with people.reading(caller) as context:
        for verb in Verb:
            letter, refusal = _answer(context, MISSING, verb)
            assert letter == ("U" if caller == "nobody" else "N")
            assert refusal is not None
            found[verb] = _bytes(refusal)
    return found


@for_every_row("name", ["", "T-", "x" * 10_000, "T-\0", "\ud800", "T-%", "'; --", MISSING.upper()])
def test_what_is_no_id_is_answered_like_what_does_not_exist(world: People, name: str) -> None:
    for caller in ("owner", "support", "nobody"):
        with world.reading(caller) as context:
            for verb in Verb:
                _, garbage = _answer(context, name, verb)
                _, missing = _answer(context, MISSING, verb)
                assert garbage is not None
                assert missing is not None
                assert garbage.problem == missing.problem


def test_support_is_out_when_its_days_are_over(world: People) -> None:
    thread_id = THREADS["private", DeletionState.LIVE]
    for moment, letter in ((at(0.999999), "Y"), (at(1), "N"), (shift_time(at(), days=400), "N")):
        with world.reading("support_asked", moment) as context:
            assert _answer(context, thread_id, Verb.GET)[0] == letter
            condition = make_visibility_condition(context.caller, moment, verb=Verb.GET)
            query = select(schema.threads.c.id).where(condition, schema.threads.c.id == thread_id)
            assert (context.db.execute(query).first() is not None) == (letter == "Y")


def test_who_moves_a_thread_to_another_visibility_moves_who_sees_it(world: People) -> None:
    thread_id = THREADS["organization", DeletionState.LIVE]
    for visibility, seeing in (("private", "owner"), ("public", "nobody"), ("private", "owner")):
        with world.writing() as context:
            change = update(schema.threads).where(schema.threads.c.id == thread_id)
            context.db.execute(change.values(visibility=visibility))
        for caller in ("owner", "member", "nobody"):
            with world.reading(caller) as context:
                is_seen = _answer(context, thread_id, Verb.GET)[0] == "Y"
                assert is_seen == (caller == "owner" or seeing == "nobody")


def test_a_thread_may_be_made_by_every_user_and_by_nobody_else(world: People) -> None:
    for caller in ALL_CALLERS:
        if caller != "nobody":
            check_creator(world[caller])
    with pytest.raises(Refusal) as caught:
        check_creator(world["nobody"])
    assert caught.value.code is ErrorCode.UNAUTHORIZED


def test_no_rule_lets_in_more_than_reads_who_is_not_of_the_organization() -> None:
    """Read off the rules, so that a new row is noticed whatever the other tests plant."""
    for rule in ACCESS_RULES:
        if rule.relation.value in ("everyone", "member", "granted"):
            assert rule.verbs <= READ_VERBS
            assert rule.life is DeletionState.LIVE
        if rule.relation.value == "everyone":
            assert rule.visibilities == {"public"}
        if rule.relation.value in ("member", "organization_admin"):
            assert "private" not in rule.visibilities


@pytest.mark.parametrize("fate", ["expired", "revoked", "disabled", "unknown", "malformed"])
def test_a_token_that_is_not_good_opens_not_even_what_is_public(
    people: People, database: Database, fate: str
) -> None:
    """It is not treated like no token at all: who brings one is told that it is not good."""
    token = people.token("owner", expires_at=at(10) if fate == "expired" else None)
    with database.write() as db:
        if fate == "revoked":
            db.execute(update(schema.tokens).values(revoked_at=at()))
        if fate == "disabled":
            db.execute(update(schema.users).values(disabled_at=at()))
    told = {"unknown": tokens.generate_token(tokens.TokenKind.ACCESS), "malformed": token[:-1]}.get(
        fate, token
    )
    with database.read() as db:
        if fate == "expired":
            assert tokens.identify_caller(db, token, at(9.999999)).user == "owner"
        with pytest.raises(Refusal) as caught:
            tokens.identify_caller(db, told, at(10))
    assert caught.value.code is ErrorCode.UNAUTHORIZED
    assert caught.value.headers == {"WWW-Authenticate": "Bearer"}
