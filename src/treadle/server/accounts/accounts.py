"""Organizations, users, and the tokens of users: who is made, changed and disabled, and by whom.

Names are kept in small letters, so that no two differ in that alone. Nobody is deleted: a user who
is disabled can do nothing, and his threads stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, get_args

from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import Connection, Row, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from treadle.api.error_codes import ErrorCode
from treadle.api.types import (
    Me,
    NewOrganization,
    NewToken,
    NewUser,
    Organization,
    Organizations,
    OrganizationUpdate,
    RoleName,
    Token,
    Tokens,
    User,
    Users,
    UserUpdate,
)
from treadle.server.accounts import audit, tokens
from treadle.server.context import Context, Principal, Quota
from treadle.server.data import schema
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal

OPERATOR: Final = Principal(is_admin=True)
"""Who works on the database itself, on the server's machine: an admin who is no user."""

FIRST_ORGANIZATION: Final = "team"
FIRST_USER: Final = "owner"
FIRST_TOKEN: Final = "first"  # noqa: S105  its name

_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")


def make_first_user(db: Connection, now: str) -> str | None:
    """The token of the first user, an admin; `None` if there are users already.

    Of several processes that start at once on an empty database one makes him.
    """
    if db.execute(select(schema.users.c.id).limit(1)).first() is not None:
        return None
    context = Context(db, OPERATOR, now)
    with suppress(Refusal):  # an operator, or another process, has made it
        make_organization(context, NewOrganization(FIRST_ORGANIZATION))
    try:
        user = NewUser(FIRST_USER, FIRST_ORGANIZATION, "organization_admin", is_admin=True)
        make_user(context, user)
    except Refusal:
        return None
    return make_user_token(context, FIRST_USER, NewToken(FIRST_TOKEN)).token


def find_principal(db: Connection, name: str) -> Principal | None:
    """The user of this name, as if he asked himself; `None` if there is none, or he is disabled."""
    table, organization = schema.users.c, schema.organizations.c
    query = select(
        schema.users,
        organization.name.label("organization"),
        organization.threads_max.label("organization_threads_max"),
        organization.storage_max.label("organization_storage_max"),
    ).where(table.organization_id == organization.id, table.name == name.lower())
    row = db.execute(query).one_or_none()
    if row is None or row.disabled_at is not None:
        return None
    return Principal(
        user_id=row.id,
        user=row.name,
        organization_id=row.organization_id,
        organization=row.organization,
        role=row.role,
        is_admin=row.is_admin,
        is_support=row.is_support,
        quota=Quota(row.threads_max, row.storage_max),
        organization_quota=Quota(row.organization_threads_max, row.organization_storage_max),
    )


def get_current_user(context: Context) -> Me:
    """Who the caller is.

    Raises:
        Refusal: nobody in particular.
    """
    caller = context.caller
    _require_user_id(context)
    return Me(
        caller.user,
        caller.organization,
        caller.role,
        caller.is_admin,
        caller.is_support,
        caller.token_name,
        caller.token_expires_at,
        caller.token_id or 0,
    )


def list_own_tokens(context: Context) -> Tokens:
    """The caller's tokens, newest first.

    Raises:
        Refusal: the caller is nobody in particular.
    """
    return tokens.list_tokens(context, _require_user_id(context))


def make_own_token(context: Context, new: NewToken) -> Token:
    """Another token for the caller; see `tokens.make`.

    Raises:
        Refusal: the caller is nobody in particular; the name or the time is none.
    """
    user_id = _require_user_id(context)
    name = _normalize_name(new.name)
    return tokens.make_token(context, user_id, name, new.expires_at, new.scope)


def revoke_own_token(context: Context, token_id: int) -> None:
    """Make one of the caller's tokens worthless, also the one he asks with.

    Raises:
        Refusal: the caller is nobody in particular, or has no such token.
    """
    tokens.revoke_token(context, token_id, _require_user_id(context))


def list_organizations(context: Context) -> Organizations:
    """All organizations, by name.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    table = schema.organizations
    count = func.count(schema.users.c.id)
    query = (
        select(table, count.label("user_count"))
        .select_from(table.outerjoin(schema.users))
        .group_by(*table.c)
        .order_by(table.c.name)
    )
    return Organizations(tuple(map(_build_organization, context.db.execute(query))))


def make_organization(context: Context, new: NewOrganization) -> Organization:
    """Make an organization.

    Raises:
        Refusal: the caller is no admin; the name is none, or taken.
    """
    check_admin(context)
    name = _normalize_name(new.name)
    insert_unique(
        context.db, insert(schema.organizations).values(name=name, created_at=context.now)
    )
    audit.log_action(context, "organization_made", detail=name)
    return Organization(name, context.now)


def change_organization(context: Context, name: str, change: OrganizationUpdate) -> Organization:
    """Change what the members of an organization may keep together.

    Raises:
        Refusal: the caller is no admin, or there is no such organization.
    """
    check_admin(context)
    listed = list_organizations(context).organizations
    before = next((one for one in listed if one.name == name.lower()), None)
    if before is None:
        raise make_not_found_refusal()
    if values := _make_quota_values(change):
        table = schema.organizations
        context.db.execute(update(table).where(table.c.name == before.name).values(**values))
    after = replace(before, **values)
    if after != before:
        told = " ".join(_format_quota(after)) or "any amount"
        audit.log_action(context, "organization_changed", detail=f"{after.name}: {told}")
    return after


def list_users(context: Context) -> Users:
    """All users, by name.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    rows = context.db.execute(_select_users().order_by(schema.users.c.name))
    return Users(tuple(_build_user(row) for row in rows))


def get_user(context: Context, name: str) -> User:
    """A user.

    Raises:
        Refusal: the caller is no admin, or there is no such user.
    """
    check_admin(context)
    return _build_user(_find_user_row(context.db, name))


def make_user(context: Context, new: NewUser) -> User:
    """Make a user, who can do nothing until he has a token.

    Raises:
        Refusal: the caller is no admin; the name is none, or taken; there is no such organization.
    """
    check_admin(context)
    name, organization = _check_user_name(new.name), _normalize_name(new.organization)
    if name == audit.OPERATOR:
        raise Refusal(ErrorCode.BAD_REQUEST, "that name stands for who runs the server")
    query = select(schema.organizations.c.id).where(schema.organizations.c.name == organization)
    organization_id = context.db.execute(query).scalar_one_or_none()
    if organization_id is None:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"there is no organization {organization!r}",
            hint=f"`treadle admin organizations add {organization}` makes it",
        )
    values = {
        "name": name,
        "organization_id": organization_id,
        "role": check_role(new.role),
        "is_admin": new.is_admin,
        "is_support": new.is_support,
        "created_at": context.now,
    }
    insert_unique(context.db, insert(schema.users).values(**values))
    made = User(name, organization, new.role, new.is_admin, new.is_support, False, context.now)
    audit.log_action(
        context, "user_made", detail=f"{name} in {organization}: {_format_rights(made)}"
    )
    return made


def change_user(context: Context, name: str, change: UserUpdate) -> User:
    """Change what a user is, or disable or enable him; his tokens feel it with their next request.

    The last admin stays one: nobody could make another over HTTP.

    Raises:
        Refusal: the caller is no admin; there is no such user; nobody would be left to manage.
    """
    check_admin(context)
    row = _find_user_row(context.db, name, for_update=True)
    before = _build_user(row)
    values: dict[str, Any] = {}
    if change.role is not UNSET:
        values["role"] = check_role(change.role)
    if change.is_admin is not UNSET:
        values["is_admin"] = change.is_admin
    if change.is_support is not UNSET:
        values["is_support"] = change.is_support
    values |= _make_quota_values(change)
    if change.is_disabled is not UNSET and change.is_disabled != before.is_disabled:
        values["disabled_at"] = context.now if change.is_disabled else None
    if values:
        context.db.execute(update(schema.users).where(schema.users.c.id == row.id).values(**values))
    after = _build_user(_find_user_row(context.db, name))
    if after == before:
        return after
    if (
        _is_active_admin(before)
        and not _is_active_admin(after)
        and not _has_active_admins(context.db)
    ):
        raise Refusal(
            ErrorCode.FORBIDDEN,
            "this is the last admin of the server",
            hint="make another one first",
        )
    audit.log_action(
        context,
        "user_changed",
        detail=f"{after.name}: {_format_rights(before)} -> {_format_rights(after)}",
    )
    return after


def list_user_tokens(context: Context, name: str) -> Tokens:
    """The tokens of a user, newest first.

    Raises:
        Refusal: the caller is no admin, or there is no such user.
    """
    check_admin(context)
    return tokens.list_tokens(context, _find_user_row(context.db, name).id)


def list_all_tokens(context: Context) -> Tokens:
    """Everybody's tokens, newest first.

    Raises:
        Refusal: the caller is no admin.
    """
    check_admin(context)
    return tokens.list_tokens(context)


def make_user_token(context: Context, name: str, new: NewToken) -> Token:
    """A token for a user; see `tokens.make`.

    Raises:
        Refusal: the caller is no admin; there is no such user; the token's name or time is none.
    """
    check_admin(context)
    row = _find_user_row(context.db, name)
    name = _normalize_name(new.name)
    return tokens.make_token(context, row.id, name, new.expires_at, new.scope)


def revoke_token(context: Context, token_id: int) -> None:
    """Make anybody's token worthless.

    Raises:
        Refusal: the caller is no admin, or there is no such token.
    """
    check_admin(context)
    tokens.revoke_token(context, token_id)


def _require_user_id(context: Context) -> int:
    if context.caller.user_id is None:
        raise make_unauthorized_refusal()
    return context.caller.user_id


def check_admin(context: Context) -> None:
    """That the caller is an admin of this server.

    Raises:
        Refusal: he is none.
    """
    if context.caller.is_admin:
        return
    if context.caller.user_id is None:
        raise make_unauthorized_refusal()
    raise Refusal(ErrorCode.FORBIDDEN, "only admins of this server may do this")


def _normalize_name(name: str) -> str:
    """A name as it is kept."""
    if _NAME_PATTERN.fullmatch(name) is None:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "that is no name",
            hint="a name is 1 to 100 letters, digits and . _ @ -; a letter or a digit is first",
        )
    return name.lower()


def _check_user_name(name: str) -> str:
    """The name of a new user as it is kept: one that can stand in a sentence, and in `ID@NAME`.

    Users of before may be called otherwise, and go on.
    """
    kept = _normalize_name(name)
    if "@" in kept or kept.endswith((".", "-")):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "a user's name holds no @, and ends in no . or -",
            hint="threads are called ID@NAME, also where a sentence ends with that",
        )
    return kept


def check_role(role: str) -> str:
    """The role, if it is one. Raises `Refusal`."""
    if role not in get_args(RoleName):
        raise Refusal(ErrorCode.BAD_REQUEST, f"a role is one of {', '.join(get_args(RoleName))}")
    return role


def insert_unique(db: Connection, statement: Any) -> None:
    """Insert a row. Raises `Refusal` if there is one like it."""
    try:
        with db.begin_nested():
            db.execute(statement)
    except IntegrityError:
        raise Refusal(ErrorCode.BAD_REQUEST, "that name is taken") from None


def _select_users() -> Select[Any]:
    table = schema.users.c
    organization = schema.organizations.c.name.label("organization")
    return select(schema.users, organization).where(
        table.organization_id == schema.organizations.c.id
    )


def _find_user_row(db: Connection, name: str, *, for_update: bool = False) -> Row[Any]:
    row = None
    if _NAME_PATTERN.fullmatch(name):
        query = _select_users().where(schema.users.c.name == name.lower())
        query = query.with_for_update(of=schema.users) if for_update else query
        row = db.execute(query).one_or_none()
    if row is None:
        raise make_not_found_refusal()
    return row


def _build_organization(row: Row[Any]) -> Organization:
    return Organization(row.name, row.created_at, row.user_count, row.threads_max, row.storage_max)


def _build_user(row: Row[Any]) -> User:
    return User(
        row.name,
        row.organization,
        row.role,
        row.is_admin,
        row.is_support,
        row.disabled_at is not None,
        row.created_at,
        row.threads_max,
        row.storage_max,
    )


def _format_rights(user: User) -> str:
    flags = {"admin": user.is_admin, "support": user.is_support, "disabled": user.is_disabled}
    told = [user.role, *(name for name, is_set in flags.items() if is_set)]
    return " ".join([*told, *_format_quota(user)])


def _format_quota(one: User | Organization) -> Iterator[str]:
    if one.threads_max is not None:
        yield f"threads<={one.threads_max}"
    if one.storage_max is not None:
        yield f"bytes<={one.storage_max}"


def _make_quota_values(change: UserUpdate | OrganizationUpdate) -> dict[str, int | None]:
    given = {"threads_max": change.threads_max, "storage_max": change.storage_max}
    return {name: value for name, value in given.items() if value is not UNSET}


def _is_active_admin(user: User) -> bool:
    return user.is_admin and not user.is_disabled


def _has_active_admins(db: Connection) -> bool:
    table = schema.users.c
    query = select(table.id).where(table.is_admin, table.disabled_at.is_(None)).limit(1)
    return db.execute(query).first() is not None
