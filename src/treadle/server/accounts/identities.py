"""Identities: who at a provider of OpenID Connect is which user here.

Somebody is known by the provider's name and the subject that it gives them, for ever the same one.
An e-mail address says nothing of who somebody is here: it can be given to somebody else.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sqlalchemy import Row, delete, insert, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Identities, IdentityLine, NewIdentity, NewUser
from treadle.server.accounts import accounts, audit
from treadle.server.context import Context, Principal
from treadle.server.data import kept_settings, schema
from treadle.server.refusals import Refusal, make_not_found_refusal

SUBJECT_LENGTH_MAX: Final = 255
EMAIL_LENGTH_MAX: Final = 254
IDENTITY_COUNT_MAX: Final = 20
"""Of one user."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9._-]+")


def list_own_identities(context: Context) -> Identities:
    """The caller's identities, newest first."""
    return _list(context, schema.identities.c.user_id == context.caller.user_id)


def list_identities(context: Context) -> Identities:
    """Everybody's identities, newest first.

    Raises:
        Refusal: the caller is no admin.
    """
    accounts.check_admin(context)
    return _list(context)


def add_identity(context: Context, new: NewIdentity) -> IdentityLine:
    """Say who at a provider is a user, as an admin.

    Raises:
        Refusal: the caller is no admin; there is no such user; the server knows no provider and
            none is named; it is somebody's already.
    """
    accounts.check_admin(context)
    issuer = new.issuer or kept_settings.read_setting(context.db, kept_settings.OIDC_ISSUER)
    if not issuer:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "this server was started without a provider",
            hint="name the issuer, or start it with --oidc-issuer",
        )
    user = accounts.get_user(context, new.user)
    table = schema.users.c
    user_id = context.db.execute(select(table.id).where(table.name == user.name)).scalar_one()
    return _link(context, user_id, user.name, issuer, new.subject, "")


def link_identity(context: Context, issuer: str, subject: str, email: str) -> IdentityLine:
    """Say that who has just proved to be this subject is the caller.

    Raises:
        Refusal: it is somebody else's already; the caller has too many.
    """
    caller = context.caller
    assert caller.user_id is not None
    return _link(context, caller.user_id, caller.user, issuer, subject, email)


def remove_identity(context: Context, identity_id: int) -> None:
    """Let nobody in by an identity any more; browsers that it signed in are signed out.

    Raises:
        Refusal: there is no such identity, or it is neither the caller's nor the caller an admin.
    """
    table = schema.identities.c
    row = context.db.execute(_select().where(table.id == identity_id)).one_or_none()
    caller = context.caller
    if row is None or not (caller.is_admin or row.user_id == caller.user_id):
        raise make_not_found_refusal()
    context.db.execute(delete(schema.identities).where(table.id == identity_id))
    tokens = schema.tokens.c
    over = update(schema.tokens).where(tokens.identity_id == identity_id)
    context.db.execute(over.where(tokens.revoked_at.is_(None)).values(revoked_at=context.now))
    audit.log_action(context, "identity_removed", detail=f"identity {identity_id} of {row.user}")


def remove_any_identity(context: Context, identity_id: int) -> None:
    """The same, of whomever.

    Raises:
        Refusal: the caller is no admin, or there is no such identity.
    """
    accounts.check_admin(context)
    remove_identity(context, identity_id)


def find_user(context: Context, issuer: str, subject: str) -> tuple[Principal, int] | None:
    """Whose identity this is, and its number; `None` if it is nobody's.

    Raises:
        Refusal: the user is disabled.
    """
    table = schema.identities.c
    query = _select().where(table.issuer == issuer, table.subject == subject)
    row = context.db.execute(query.with_for_update(of=schema.identities)).one_or_none()
    if row is None:
        return None
    if row.disabled_at is not None:
        raise Refusal(ErrorCode.FORBIDDEN, f"the user {row.user} is disabled on this server")
    return Principal(row.user_id, row.user), row.id


def make_user_of_domain(
    context: Context, issuer: str, subject: str, email: str, organization: str
) -> tuple[Principal, int]:
    """A new user, called as the address begins, of the organization of its domain.

    Nobody who is here already is taken for them, whatever their address: that is said by linking.

    Args:
        context: a transaction that writes.
        issuer: the provider.
        subject: who it is there.
        email: an address that the provider has verified.
        organization: where addresses of that domain belong.

    Raises:
        Refusal: the name is taken, or none; there is no such organization.
    """
    name = _NOT_IN_NAMES.sub("-", email.partition("@")[0].lower()).strip("._-")
    operator = Context(context.db, accounts.OPERATOR, context.now)
    try:
        user = accounts.make_user(operator, NewUser(name, organization))
    except Refusal as refusal:
        raise Refusal(
            ErrorCode.FORBIDDEN,
            f"no user {name!r} can be made for this address: {refusal.problem.message}",
            hint="who has an account here signs in with its token, and links this login on the "
            "page of the account; else an admin of the server helps",
        ) from None
    table = schema.users.c
    user_id = context.db.execute(select(table.id).where(table.name == user.name)).scalar_one()
    line = _link(operator, user_id, user.name, issuer, subject, email)
    return Principal(user_id, user.name), line.id


def _link(
    context: Context, user_id: int, user: str, issuer: str, subject: str, email: str
) -> IdentityLine:
    table = schema.identities
    held = context.db.execute(
        _select().where(table.c.issuer == issuer, table.c.subject == subject)
    ).one_or_none()
    if held is not None and held.user_id == user_id:
        return _build(held)
    count = len(context.db.execute(select(table.c.id).where(table.c.user_id == user_id)).all())
    if held is not None or count >= IDENTITY_COUNT_MAX:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "that login belongs to another user of this server"
            if held is not None
            else f"a user has {IDENTITY_COUNT_MAX} logins at most",
            hint="an admin can remove it there",
        )
    values = {
        "user_id": user_id,
        "issuer": issuer,
        "subject": subject,
        "email": email[:EMAIL_LENGTH_MAX],
        "created_at": context.now,
    }
    accounts.insert_unique(context.db, insert(table).values(**values))
    row = context.db.execute(
        _select().where(table.c.issuer == issuer, table.c.subject == subject)
    ).one()
    audit.log_action(context, "identity_linked", detail=f"identity {row.id} of {user} at {issuer}")
    return _build(row)


def _list(context: Context, *conditions: Any) -> Identities:
    query = _select().where(*conditions).order_by(schema.identities.c.id.desc())
    return Identities(tuple(_build(row) for row in context.db.execute(query)))


def _select() -> Any:
    users = schema.users.c
    return select(schema.identities, users.name.label("user"), users.disabled_at).join(schema.users)


def _build(row: Row[Any]) -> IdentityLine:
    return IdentityLine(row.id, row.user, row.issuer, row.subject, row.email, row.created_at)
