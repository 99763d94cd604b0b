"""Organizations, users and their tokens: who makes, changes and disables them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any, Final

import pytest
from sqlalchemy import func, select, update

from case_tables import for_every_row
from server.people import People, at
from treadle.api.error_codes import ErrorCode
from treadle.api.types import (
    Me,
    NewIdentity,
    NewOrganization,
    NewToken,
    NewUser,
    OrganizationUpdate,
    UserUpdate,
)
from treadle.server.accounts import accounts, audit, identities, quotas, tokens
from treadle.server.context import Context, Principal
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.refusals import Refusal

ADMINS_WORK: Final[dict[str, Callable[[Context], object]]] = {
    "organizations": accounts.list_organizations,
    "make_organization": lambda c: accounts.make_organization(c, NewOrganization("new")),
    "change_organization": lambda c: accounts.change_organization(
        c, "acme", OrganizationUpdate(threads_max=1)
    ),
    "usage": quotas.read_usage,
    "users": accounts.list_users,
    "user": lambda c: accounts.get_user(c, "owner"),
    "make_user": lambda c: accounts.make_user(c, NewUser("ada", "acme")),
    "change_user": lambda c: accounts.change_user(c, "owner", UserUpdate(is_support=True)),
    "tokens_of": lambda c: accounts.list_user_tokens(c, "owner"),
    "all_tokens": accounts.list_all_tokens,
    "make_token_of": lambda c: accounts.make_user_token(c, "owner", NewToken("t")),
    "revoke_token": lambda c: accounts.revoke_token(c, 1),
    "audit": audit.list_lines,
    "identities": identities.list_identities,
    "add_identity": lambda c: identities.add_identity(c, NewIdentity("owner", "s", "https://p")),
}
USERS_WORK: Final[dict[str, Callable[[Context], object]]] = {
    "me": accounts.get_current_user,
    "own_tokens": accounts.list_own_tokens,
    "make_own_token": lambda c: accounts.make_own_token(c, NewToken("t")),
    "revoke_own_token": lambda c: accounts.revoke_own_token(c, 1),
}


def _refused(people: People, name: str, work: Callable[[Context], Any]) -> Refusal:
    with pytest.raises(Refusal) as caught, people.writing(name) as context:
        work(context)
    return caught.value


@pytest.mark.parametrize("work", ADMINS_WORK.values(), ids=ADMINS_WORK)
def test_only_admins_manage_people(people: People, work: Callable[[Context], object]) -> None:
    """Of fifteen kinds of work each is done by the admin and refused to all others."""
    people.token("owner")
    for name in ("owner", "member", "chief", "outsider", "support"):
        assert _refused(people, name, work).code is ErrorCode.FORBIDDEN
    assert _refused(people, "", work).code is ErrorCode.UNAUTHORIZED
    with people.writing("admin") as context:
        work(context)


@pytest.mark.parametrize("work", USERS_WORK.values(), ids=USERS_WORK)
def test_everybody_manages_his_own_tokens_and_nobody_none(
    people: People, work: Callable[[Context], object]
) -> None:
    people.token("member")
    assert _refused(people, "", work).code is ErrorCode.UNAUTHORIZED
    with people.writing("member") as context:
        work(context)


def test_nobody_revokes_or_sees_a_token_of_somebody_else(people: People) -> None:
    """What is another's is answered like what is not there."""
    people.token("owner")
    theirs = _refused(people, "member", lambda c: accounts.revoke_own_token(c, 1))
    missing = _refused(people, "member", lambda c: accounts.revoke_own_token(c, 999))
    assert theirs.problem == missing.problem
    with people.reading("member") as context:
        assert accounts.list_own_tokens(context).tokens == ()
    with people.reading("owner") as context:
        assert [line.is_revoked for line in accounts.list_own_tokens(context).tokens] == [False]


def test_me_is_what_the_token_says(people: People, database: Database) -> None:
    token = people.token("chief", expires_at=at(9))
    with database.read() as db:
        caller = tokens.identify_caller(db, token, at())
        found = accounts.get_current_user(Context(db, caller, at()))
    assert found == Me(
        "chief", "acme", "organization_admin", False, False, "test", at(9), caller.token_id or 0
    )


def test_names_differ_in_more_than_the_size_of_letters(people: People) -> None:
    for taken in ("owner", "Owner", "OWNER"):
        work = lambda c, name=taken: accounts.make_user(c, NewUser(name, "acme"))  # noqa: E731
        assert "taken" in _refused(people, "admin", work).problem.message
    for taken in ("acme", "ACME"):
        work = lambda c, name=taken: accounts.make_organization(c, NewOrganization(name))  # noqa: E731
        assert "taken" in _refused(people, "admin", work).problem.message
    with people.writing("admin") as context:
        assert accounts.make_user(context, NewUser("Ada.L_x-1", "ACME")).name == "ada.l_x-1"
        assert accounts.get_user(context, "ADA.L_X-1").organization == "acme"


@for_every_row(
    "name",
    ["", " ", "a b", "-a", ".a", "@a", "a\n", "a\0", "é", "\ud800", "a" * 101, "a/b", "²", "İ"],
)
def test_what_is_no_name_names_nothing(people: People, name: str) -> None:
    new: list[Callable[[Context], object]] = [
        lambda c: accounts.make_user(c, NewUser(name, "acme")),
        lambda c: accounts.make_user(c, NewUser("ada", name)),
        lambda c: accounts.make_organization(c, NewOrganization(name)),
        lambda c: accounts.make_own_token(c, NewToken(name)),
    ]
    for work in new:
        assert _refused(people, "admin", work).code is ErrorCode.BAD_REQUEST
    old: list[Callable[[Context], object]] = [
        lambda c: accounts.get_user(c, name),
        lambda c: accounts.change_user(c, name, UserUpdate(is_admin=True)),
        lambda c: accounts.list_user_tokens(c, name),
        lambda c: accounts.make_user_token(c, name, NewToken("t")),
    ]
    for work in old:
        assert _refused(people, "admin", work).code is ErrorCode.NOT_FOUND


def test_a_new_user_is_called_so_that_a_sentence_and_an_address_can_end_with_it(
    people: People,
) -> None:
    for name in ("ada.", "ada-", "a@b", "ada@acme.example", "a.-"):
        work = lambda c, name=name: accounts.make_user(c, NewUser(name, "acme"))  # noqa: E731
        told = _refused(people, "admin", work).problem
        assert (told.error, "holds no @" in told.message) == ("bad_request", True), name
    with people.writing("admin") as context:
        accounts.make_organization(context, NewOrganization("acme.example."))
        accounts.make_own_token(context, NewToken("ada@laptop."))
        owner = schema.users.c.name == "owner"
        context.db.execute(update(schema.users).where(owner).values(name="ada@acme."))
        accounts.change_user(context, "ada@acme.", UserUpdate(is_support=True))
        accounts.make_user_token(context, "Ada@acme.", NewToken("t"))


def test_a_user_belongs_to_an_organization_that_is_there(people: People) -> None:
    work = lambda c: accounts.make_user(c, NewUser("ada", "elsewhere"))  # noqa: E731
    assert _refused(people, "admin", work).code is ErrorCode.BAD_REQUEST
    with people.reading("admin") as context:
        found = {
            one.name: one.user_count for one in accounts.list_organizations(context).organizations
        }
        names = [one.name for one in accounts.list_users(context).users]
    assert found == {"acme": 3, "rivals": 1, "treadle": 2}
    assert names == sorted(names) == sorted(people.principals)


def test_nobody_is_called_like_who_runs_the_server(people: People) -> None:
    """The audit log would name him for what he has not done."""
    work = lambda c: accounts.make_user(c, NewUser("Operator", "acme"))  # noqa: E731
    assert _refused(people, "admin", work).code is ErrorCode.BAD_REQUEST


def test_a_disabled_user_is_refused_with_his_next_request_and_can_be_let_in_again(
    people: People, database: Database
) -> None:
    token = people.token("owner")
    for is_disabled in (True, False, True):
        with people.writing("admin") as context:
            change = UserUpdate(is_disabled=is_disabled)
            assert accounts.change_user(context, "owner", change).is_disabled == is_disabled
        with database.read() as db:
            if is_disabled:
                with pytest.raises(Refusal):
                    tokens.identify_caller(db, token, at())
            else:
                assert tokens.identify_caller(db, token, at()).user == "owner"


def test_a_change_is_felt_by_tokens_that_are_out(people: People, database: Database) -> None:
    token = people.token("member")
    with people.writing("admin") as context:
        accounts.change_user(
            context, "member", UserUpdate(role="organization_admin", is_support=True)
        )
    with database.read() as db:
        found = tokens.identify_caller(db, token, at())
    assert (found.role, found.is_support, found.is_admin) == ("organization_admin", True, False)


def test_the_last_admin_stays_one(people: People) -> None:
    for change in (UserUpdate(is_admin=False), UserUpdate(is_disabled=True)):
        work = lambda c, change=change: accounts.change_user(c, "admin", change)  # noqa: E731
        assert _refused(people, "admin", work).code is ErrorCode.FORBIDDEN
    with people.writing("admin") as context:
        accounts.change_user(context, "owner", UserUpdate(is_admin=True))
        assert accounts.change_user(context, "admin", UserUpdate(is_admin=False)).is_admin is False
    work = lambda c: accounts.change_user(c, "owner", UserUpdate(is_disabled=True))  # noqa: E731
    with pytest.raises(Refusal), people.writing("owner") as context:
        work(Context(context.db, accounts.OPERATOR, at()))


def test_a_role_is_one_of_those_there_are(people: People) -> None:
    change: Any = UserUpdate(role="king")  # type: ignore[arg-type]
    work = lambda c: accounts.change_user(c, "owner", change)  # noqa: E731
    assert _refused(people, "admin", work).code is ErrorCode.BAD_REQUEST


def test_the_first_start_makes_an_owner_and_no_other_start_does(database: Database) -> None:
    with database.write() as db:
        token = accounts.make_first_user(db, at())
    assert token is not None
    with database.write() as db:
        assert accounts.make_first_user(db, at(1)) is None
    with database.read() as db:
        found = tokens.identify_caller(db, token, at())
    assert (found.user, found.organization, found.role, found.is_admin) == (
        "owner",
        "team",
        "organization_admin",
        True,
    )


def test_an_organization_made_before_the_first_start_does_not_stand_in_its_way(
    database: Database,
) -> None:
    with database.write() as db:
        context = Context(db, Principal(is_admin=True), at())
        accounts.make_organization(context, NewOrganization("team"))
    with database.write() as db:
        assert accounts.make_first_user(db, at()) is not None


def test_of_processes_that_start_at_once_one_makes_the_owner(database: Database) -> None:
    barrier, made = Barrier(4), []

    def start() -> None:
        barrier.wait()
        made.append(database.run(lambda db: accounts.make_first_user(db, at()), is_write=True))

    threads = [Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([token for token in made if token is not None]) == 1
    with database.read() as db:
        for table in (schema.users, schema.organizations, schema.tokens):
            assert db.execute(select(func.count()).select_from(table)).scalar_one() == 1
