"""Links by which somebody becomes a user of an organization: each for one, and for a while.

An admin invites to any organization, an organization's admin to that one. The link is the only
place where its secret stands; the database keeps a hash of it.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import Row, insert, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.types import (
    Invitation,
    InvitationLine,
    Invitations,
    NewInvitation,
    NewToken,
    NewUser,
)
from treadle.server.accounts import accounts, audit
from treadle.server.accounts.times import parse_time, shift_time
from treadle.server.accounts.tokens import TokenKind, generate_token, hash_token, is_well_formed
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal

INVITATION_DAYS: Final = 7
INVITATION_DAYS_MAX: Final = 90
OPEN_COUNT_MAX: Final = 1000
"""Of one organization, at a time."""
TOKEN_NAME: Final = "invitation"  # noqa: S105  its name


def make_invitation(context: Context, new: NewInvitation, base_url: str) -> Invitation:
    """Make a link by which one person becomes a user.

    Args:
        context: whose request it is.
        new: to which organization, as what, and until when; `INVITATION_DAYS_MAX` at most.
        base_url: where this server is, without a slash at the end.

    Raises:
        Refusal: the caller may not invite there; there is no such organization; the time is none,
            is over or is too far away; too many are open.
    """
    name = (new.organization or context.caller.organization).lower()
    organization_id = _find_organization(context, name)
    until = (
        shift_time(context.now, days=INVITATION_DAYS)
        if new.expires_at is None
        else parse_time(new.expires_at)
    )
    if not context.now < until <= shift_time(context.now, days=INVITATION_DAYS_MAX):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"an invitation is good for {INVITATION_DAYS_MAX} days at most, and not for no time",
        )
    lines = list_invitations(context).invitations
    if sum(one.is_open and one.organization == name for one in lines) >= OPEN_COUNT_MAX:
        raise Refusal(
            ErrorCode.BAD_REQUEST, f"{OPEN_COUNT_MAX} invitations are open", hint="revoke some"
        )
    secret = generate_token(TokenKind.INVITATION)
    made_id = context.db.execute(
        insert(schema.invitations)
        .values(
            hash=hash_token(secret),
            organization_id=organization_id,
            role=accounts.check_role(new.role),
            created_by=context.caller.user_id,
            created_at=context.now,
            expires_at=until,
        )
        .returning(schema.invitations.c.id)
    ).scalar_one()
    detail = f"invitation {made_id} to {name} as {new.role} until {until}"
    audit.log_action(context, "invitation_made", detail=detail)
    return Invitation(made_id, f"{base_url}/join/{secret}", name, new.role, context.now, until)


def list_invitations(context: Context) -> Invitations:
    """The invitations to the organizations to which the caller may invite, newest first.

    Raises:
        Refusal: the caller may invite to none.
    """
    _check_may_invite(context)
    invited, accepting = schema.invitations, schema.users.alias("accepting")
    query = (
        select(
            invited,
            schema.organizations.c.name.label("organization"),
            schema.users.c.name.label("creator"),
            accepting.c.name.label("user"),
        )
        .select_from(invited)
        .join(schema.organizations, schema.organizations.c.id == invited.c.organization_id)
        .outerjoin(schema.users, schema.users.c.id == invited.c.created_by)
        .outerjoin(accepting, accepting.c.id == invited.c.accepted_by)
        .order_by(invited.c.id.desc())
    )
    if not context.caller.is_admin:
        query = query.where(invited.c.organization_id == context.caller.organization_id)
    return Invitations(
        tuple(
            InvitationLine(
                row.id,
                row.organization,
                row.role,
                row.created_at,
                row.expires_at,
                _is_open(row, context.now),
                row.creator,
                row.user,
            )
            for row in context.db.execute(query)
        )
    )


def revoke_invitation(context: Context, invitation_id: int) -> None:
    """Let nobody in by an invitation any more; fine if nobody is.

    Raises:
        Refusal: there is no such invitation to an organization to which the caller may invite.
    """
    lines = {one.id: one for one in list_invitations(context).invitations}
    if invitation_id not in lines:
        raise make_not_found_refusal()
    if lines[invitation_id].is_open:
        change = update(schema.invitations).where(schema.invitations.c.id == invitation_id)
        context.db.execute(change.values(revoked_at=context.now))
        told = f"invitation {invitation_id} to {lines[invitation_id].organization}"
        audit.log_action(context, "invitation_revoked", detail=told)


def read_invitation(context: Context, secret: str) -> InvitationLine:
    """What an open invitation says, to whoever has its link.

    Raises:
        Refusal: there is none, or it has been accepted, revoked, or is over.
    """
    row = _find_open(context, secret)
    return InvitationLine(
        row.id, row.organization, row.role, row.created_at, row.expires_at, is_open=True
    )


def accept_invitation(context: Context, secret: str, name: str) -> tuple[str, str]:
    """Become a user by an invitation, which is used up by that.

    Args:
        context: a transaction that writes, of anybody.
        secret: of the link.
        name: what the user is to be called.

    Returns:
        The user's name as it is kept, and a token of theirs, which is shown this once.

    Raises:
        Refusal: as `read_invitation`; the name is none, or taken.
    """
    row = _find_open(context, secret, for_update=True)
    operator = replace(context, caller=accounts.OPERATOR)
    user = accounts.make_user(operator, NewUser(name, row.organization, row.role))
    table = schema.users
    user_id = context.db.execute(select(table.c.id).where(table.c.name == user.name)).scalar_one()
    context.db.execute(
        update(schema.invitations)
        .where(schema.invitations.c.id == row.id)
        .values(accepted_at=context.now, accepted_by=user_id)
    )
    audit.log_action(context, "invitation_accepted", detail=f"invitation {row.id} by {user.name}")
    token = accounts.make_user_token(operator, user.name, NewToken(TOKEN_NAME))
    return user.name, token.token


def _check_may_invite(context: Context) -> None:
    caller = context.caller
    if caller.is_admin or caller.role == "organization_admin":
        return
    if caller.user_id is None:
        raise make_unauthorized_refusal()
    raise Refusal(ErrorCode.FORBIDDEN, "only admins, of this server or of an organization, invite")


def _find_organization(context: Context, name: str) -> int:
    """The id of an organization to which the caller may invite."""
    _check_may_invite(context)
    table = schema.organizations
    found = context.db.execute(select(table.c.id).where(table.c.name == name)).scalar_one_or_none()
    if not context.caller.is_admin and found != context.caller.organization_id:
        raise Refusal(ErrorCode.FORBIDDEN, "an organization's admin invites to that one alone")
    if found is None:
        raise Refusal(ErrorCode.BAD_REQUEST, f"there is no organization {name!r}")
    return int(found)


def _find_open(context: Context, secret: str, *, for_update: bool = False) -> Row[Any]:
    if not is_well_formed(secret, TokenKind.INVITATION):
        raise make_not_found_refusal()
    hashed, table = hash_token(secret), schema.invitations
    query = (
        select(table, schema.organizations.c.name.label("organization"))
        .join_from(table, schema.organizations)
        .where(table.c.hash == hashed)
    )
    query = query.with_for_update(of=table) if for_update else query
    row = context.db.execute(query).one_or_none()
    if row is None or not compare_digest(row.hash, hashed):
        raise make_not_found_refusal()
    if not _is_open(row, context.now):
        raise Refusal(
            ErrorCode.GONE,
            "this invitation was used, taken back, or is too old",
            hint="ask who has sent it for another one",
        )
    return row


def _is_open(row: Row[Any], now: str) -> bool:
    return row.accepted_at is None and row.revoked_at is None and row.expires_at > now
