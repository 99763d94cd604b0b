"""Tokens: how they are made, why most wrong ones cost nothing, and whose they are.

A token is a prefix that says what it is, 43 base62 digits of 256 random bits, and 6 of their CRC32:
the scheme that scanners for lost secrets know. The database keeps the SHA-256 of it, which is
worth nothing to who reads it there: 256 random bits cannot be guessed.
"""

from __future__ import annotations

import re
import secrets
from binascii import crc32
from collections.abc import Collection
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, get_args

from sqlalchemy import Connection, Row, Select, bindparam, func, insert, or_, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Scope, Token, TokenLine, Tokens
from treadle.server.accounts import audit
from treadle.server.accounts.times import parse_time, shift_time
from treadle.server.context import ANONYMOUS, Context, Principal, Quota
from treadle.server.data import round_trips, schema
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal
from treadle.thread.safe_text import sanitize_text

_BASE62_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LENGTH: Final = 43
"""62**43 is just over 2**256."""
_CHECKSUM_LENGTH: Final = 6

USE_RECORD_INTERVAL_S: Final = 60
"""A use is noted if the last one noted is older: a read is not to become a write each time."""

_USE_COUNT_MAX: Final = 10_000

MACHINE_LENGTH_MAX: Final = 60

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
"""Each may what those before it may."""

LIVE_COUNT_MAX: Final = 100
"""Tokens of a user that are good at a time."""


class TokenKind(Enum):
    """What a token opens. The value is what it begins with."""

    ACCESS = "trd_"
    """All that its user may do."""
    SHARE = "trs_"
    """One thread, to read; the end of a link."""
    INVITATION = "tri_"
    """One new user, of one organization; the end of a link."""
    FEED = "trf_"
    """What waits for its user, to read; in the address of a feed."""
    SESSION = "trw_"
    """All that its user may do, on the pages; a cookie of a browser."""


def generate_token(kind: TokenKind) -> str:
    """A new token, of 256 random bits."""
    body = _encode_base62(secrets.randbits(256), _RANDOM_LENGTH)
    return f"{kind.value}{body}{_compute_checksum(body)}"


def is_well_formed(text: str, kind: TokenKind) -> bool:
    """Whether a text can be a token of this kind; what was mistyped or cut off is not."""
    found = re.fullmatch(r"(tr[dfisw]_)([0-9A-Za-z]{43})([0-9A-Za-z]{6})", text)
    return found is not None and found[1] == kind.value and found[3] == _compute_checksum(found[2])


def hash_token(token: str) -> str:
    """What the database keeps of a token."""
    return sha256(token.encode()).hexdigest()


def _compute_checksum(body: str) -> str:
    return _encode_base62(crc32(body.encode()), _CHECKSUM_LENGTH)


def _encode_base62(number: int, length: int) -> str:
    found = ""
    for _ in range(length):
        number, digit = divmod(number, 62)
        found = _BASE62_DIGITS[digit] + found
    return found


_SELECT_PRINCIPAL: Final[Select[Any]] = select(
    schema.tokens.c.id,
    schema.tokens.c.hash,
    schema.tokens.c.name,
    schema.tokens.c.expires_at,
    schema.tokens.c.revoked_at,
    schema.tokens.c.scope,
    schema.users.c.id.label("user_id"),
    schema.users.c.name.label("user"),
    schema.users.c.role,
    schema.users.c.is_admin,
    schema.users.c.is_support,
    schema.users.c.disabled_at,
    schema.users.c.organization_id,
    schema.organizations.c.name.label("organization"),
    schema.users.c.threads_max,
    schema.users.c.storage_max,
    schema.organizations.c.threads_max.label("organization_threads_max"),
    schema.organizations.c.storage_max.label("organization_storage_max"),
).select_from(schema.tokens.join(schema.users).join(schema.organizations))

# Made once: every request executes it, and making it costs more than executing it.
_IDENTIFY: Final = _SELECT_PRINCIPAL.where(schema.tokens.c.hash == bindparam("hashed"))
_IDENTIFY_SQL: Final = round_trips.compile_postgresql(_IDENTIFY)
IDENTITY_QUERY: Final = "identify"
_IDENTIFY_ALL: Final = _SELECT_PRINCIPAL.where(
    schema.tokens.c.id.in_(bindparam("ids", expanding=True))
)


def identify_caller(
    db: Connection, bearer: str | None, now: str, kind: TokenKind = TokenKind.ACCESS
) -> Principal:
    """Whose token this is, as things stand now: what was revoked a moment ago is refused.

    Args:
        db: a transaction that may be one that only reads.
        bearer: the token, without the word `Bearer`; `None` if there is none.
        now: the time.
        kind: what it must open.

    Raises:
        Refusal: there is such a token no more, or never was; its user is disabled.
    """
    if bearer is None:
        return ANONYMOUS
    if not is_well_formed(bearer, kind):
        raise make_unauthorized_refusal()
    hashed = hash_token(bearer)
    asked = round_trips.pop_query_rows(db, IDENTITY_QUERY, hashed)
    row: Any = (
        db.execute(_IDENTIFY, {"hashed": hashed}).one_or_none()
        if asked is None
        else next(iter(asked), None)
    )
    if row is None or not compare_digest(row.hash, hashed):
        raise make_unauthorized_refusal()
    if not _is_active(row, now):
        raise make_unauthorized_refusal()
    return _make_principal(row)


def make_identity_query(hashed: str) -> round_trips.PreliminaryQuery:
    """Whose token this is, by its digest: as a transaction of PostgreSQL begins."""
    return round_trips.PreliminaryQuery(IDENTITY_QUERY, hashed, _IDENTIFY_SQL, {"hashed": hashed})


def identify_callers(db: Connection, token_ids: Collection[int], now: str) -> dict[int, Principal]:
    """Whose these tokens are, as things stand now; those that are not good are left out."""
    if not token_ids:
        return {}
    found = db.execute(_IDENTIFY_ALL, {"ids": list(token_ids)})
    return {row.id: _make_principal(row) for row in found if _is_active(row, now)}


def _is_active(row: Row[Any], now: str) -> bool:
    is_over = row.expires_at is not None and row.expires_at <= now
    return not is_over and row.revoked_at is None and row.disabled_at is None


def _make_principal(row: Row[Any]) -> Principal:
    return Principal(
        user_id=row.user_id,
        user=row.user,
        organization_id=row.organization_id,
        organization=row.organization,
        role=row.role,
        is_admin=row.is_admin,
        is_support=row.is_support,
        token_id=row.id,
        token_name=row.name,
        token_expires_at=row.expires_at,
        scope=row.scope,
        quota=Quota(row.threads_max, row.storage_max),
        organization_quota=Quota(row.organization_threads_max, row.organization_storage_max),
    )


def allows(scope: Scope, wanted: Scope) -> bool:
    """Whether what has one scope may do what needs another."""
    return SCOPES.index(scope) >= SCOPES.index(wanted)


def check_scope(caller: Principal, wanted: Scope) -> None:
    """That the caller's token may do what needs this scope; what its user may is not asked.

    Raises:
        Refusal: it may not.
    """
    if not allows(caller.scope, wanted):
        raise Refusal(
            ErrorCode.FORBIDDEN,
            f"this token has the scope {caller.scope!r}, and that needs {wanted!r}",
            hint="a token with more is made on the page of the account",
        )


class TokenUses:
    """When this process last noted the use of each token, so that it asks nobody in between."""

    def __init__(self) -> None:
        self._recorded_at: dict[tuple[int, bool], str] = {}

    def mark_if_due(self, caller: Principal, now: str, *, listens: bool = False) -> bool:
        """Whether the caller's use is to be noted now with `record_use`; says so once a minute."""
        if caller.token_id is None:
            return False
        noted = self._recorded_at.get((caller.token_id, listens))
        if noted is not None and noted <= now < shift_time(noted, seconds=USE_RECORD_INTERVAL_S):
            return False
        if len(self._recorded_at) >= _USE_COUNT_MAX:
            self._recorded_at.clear()
        self._recorded_at[caller.token_id, listens] = now
        return True

    def unmark(self, token_id: int) -> None:
        """The use was not noted after all: the next one is due."""
        for listens in (False, True):
            self._recorded_at.pop((token_id, listens), None)


def record_use(
    db: Connection, token_id: int, now: str, machine: str = "", *, listens: bool = False
) -> None:
    """Note that a token was used, unless another process did so less than a minute ago.

    Args:
        db: a transaction of its own that writes; what the token is used for does not wait for it.
        token_id: the token.
        now: the time.
        machine: what the machine calls itself that has used it; any text, empty if it does not say.
        listens: whether it has asked what is asked of it elsewhere.
    """
    tokens = schema.tokens.c
    name = sanitize_text(" ".join(machine.split()))[:MACHINE_LENGTH_MAX]
    before = shift_time(now, seconds=-USE_RECORD_INTERVAL_S)
    noted = tokens.listened_at if listens else tokens.last_used_at
    heard = {"listened_at": now} if listens else {}
    db.execute(
        update(schema.tokens)
        .where(tokens.id == token_id)
        .where(or_(noted.is_(None), noted <= before))
        .values(last_used_at=now, machine=name or None, **heard)
    )


def make_token(
    context: Context,
    user_id: int,
    name: str,
    expires_at: str | None = None,
    scope: Scope = "all",
) -> Token:
    """Make a token for a user; the answer is the only place where it stands.

    One that is made with a token does not outlive it: who has got hold of a token for a day must
    not make another one of it that is good for ever. Nor may it more.

    Args:
        context: whose request it is; who may do it for whom is the caller's business.
        user_id: whose token it becomes.
        name: what people call it.
        expires_at: from when on it is refused; by default never.
        scope: what it may.

    Raises:
        Refusal: the time is none, or is over; the user has too many tokens; the scope is none, or
            is more than the caller's.
    """
    if scope not in SCOPES:
        raise Refusal(ErrorCode.BAD_REQUEST, f"a scope is one of {', '.join(SCOPES)}")
    check_scope(context.caller, scope)
    until = None if expires_at is None else parse_time(expires_at)
    if until is not None and until <= context.now:
        raise Refusal(ErrorCode.BAD_REQUEST, "that time is over: the token would never be good")
    if _count_active(context, user_id) >= LIVE_COUNT_MAX:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"this user has {LIVE_COUNT_MAX} tokens that are good",
            hint="revoke one that is not used any more",
        )
    limit = find_limit(context)
    if limit is not None and (until is None or until > limit):
        until = limit
    token = generate_token(TokenKind.ACCESS)
    token_id = context.db.execute(
        insert(schema.tokens)
        .values(
            user_id=user_id,
            name=name,
            hash=hash_token(token),
            created_at=context.now,
            expires_at=until,
            scope=scope,
        )
        .returning(schema.tokens.c.id)
    ).scalar_one()
    owner = _find_user_name(context.db, user_id)
    by = context.caller.token_id
    detail = f"token {token_id} of {owner}, until {until or '-'}"
    detail += "" if scope == "all" else f", to {scope}"
    audit.log_action(
        context, "token_made", detail=detail if by is None else f"{detail}, made with token {by}"
    )
    return Token(token_id, name, token, context.now, until, scope)


def find_limit(context: Context) -> str | None:
    """When what the caller makes ends: with the token that he asks with, or has signed in with.

    A session's own end is none: who has signed in has shown that he is the user.
    """
    tokens = schema.tokens.c
    query = select(tokens.kind, tokens.made_with).where(tokens.id == context.caller.token_id)
    row = context.db.execute(query).one_or_none()
    if row is None or row.kind == "access":
        return context.caller.token_expires_at
    until = select(tokens.expires_at).where(tokens.id == row.made_with)
    return context.db.execute(until).scalar_one_or_none()


def _count_active(context: Context, user_id: int) -> int:
    tokens = schema.tokens.c
    query = select(func.count()).where(
        tokens.user_id == user_id,
        tokens.kind == "access",
        tokens.revoked_at.is_(None),
        or_(tokens.expires_at.is_(None), tokens.expires_at > context.now),
    )
    return int(context.db.execute(query).scalar_one())


def list_tokens(context: Context, user_id: int | None = None) -> Tokens:
    """The tokens of a user, or of all; newest first, those that were revoked among them."""
    tokens, users = schema.tokens.c, schema.users.c
    query = (
        select(
            tokens.id,
            tokens.name,
            users.name.label("user"),
            tokens.created_at,
            tokens.expires_at,
            tokens.last_used_at,
            tokens.revoked_at,
            tokens.scope,
            tokens.machine,
            tokens.listened_at,
        )
        .select_from(schema.tokens.join(schema.users))
        .where(tokens.kind == "access")
        .order_by(tokens.id.desc())
    )
    if user_id is not None:
        query = query.where(tokens.user_id == user_id)
    return Tokens(
        tuple(
            TokenLine(
                row.id,
                row.name,
                row.user,
                row.created_at,
                row.expires_at,
                row.last_used_at,
                row.revoked_at is not None,
                row.scope,
                row.machine,
                row.listened_at,
            )
            for row in context.db.execute(query)
        )
    )


def revoke_token(context: Context, token_id: int, user_id: int | None = None) -> None:
    """Make a token or a session worthless, with the next request; fine if it is already.

    What was signed in with it ends too.

    Args:
        context: whose request it is.
        token_id: the token.
        user_id: whose it must be; by default anybody's.

    Raises:
        Refusal: there is no such token, or it is somebody else's.
    """
    tokens = schema.tokens.c
    query = select(tokens.user_id, tokens.revoked_at).where(tokens.id == token_id)
    row = context.db.execute(query.with_for_update()).one_or_none()
    if row is None or (user_id is not None and row.user_id != user_id):
        raise make_not_found_refusal()
    if row.revoked_at is None:
        is_over = or_(tokens.id == token_id, tokens.made_with == token_id)
        change = update(schema.tokens).where(is_over, tokens.revoked_at.is_(None))
        context.db.execute(change.values(revoked_at=context.now))
        owner = _find_user_name(context.db, row.user_id)
        audit.log_action(context, "token_revoked", detail=f"token {token_id} of {owner}")


def _find_user_name(db: Connection, user_id: int) -> str:
    query = select(schema.users.c.name).where(schema.users.c.id == user_id)
    return str(db.execute(query).scalar_one())
