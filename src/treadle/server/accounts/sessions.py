"""Sessions: what a browser holds in a cookie once somebody has signed in.

A session is a row beside the tokens, with a secret of its own kind: the API takes none, and pages
take no token. It ends after a month, when it is ended, and with the token it was begun with.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, insert, or_, select, update

from treadle.server.accounts import audit
from treadle.server.accounts.times import shift_time
from treadle.server.accounts.tokens import (
    TokenKind,
    check_scope,
    generate_token,
    hash_token,
    identify_caller,
)
from treadle.server.context import Context, Principal
from treadle.server.data import schema
from treadle.server.refusals import make_unauthorized_refusal
from treadle.thread.safe_text import sanitize_text

SESSION_DAYS: Final = 30
PROVIDER_SESSION_HOURS: Final = 12
"""Of who has signed in at a provider: it says anew who may be let in, with a click."""
SESSION_COUNT_MAX: Final = 50
"""Sessions of a user that are good at a time: of more the oldest end."""
BROWSER_LENGTH_MAX: Final = 60

_BROWSERS: Final = ("Firefox", "Edg", "OPR", "Chrome", "Safari")
_SYSTEMS: Final = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
"""What stands in how browsers call themselves; of several the first one is meant."""
_FULL_NAMES: Final = {"Edg": "Edge", "OPR": "Opera"}


class BrowserSession(Struct, frozen=True):
    """A session of somebody: which browser, since when, until when, and whether it is this one."""

    id: int
    browser: str
    created_at: str
    expires_at: str
    last_used_at: str | None
    is_current: bool


def begin_session(context: Context, browser: str, identity_id: int | None = None) -> str:
    """A session for the caller; what is given back is the only place where its secret stands.

    Args:
        context: whose request it is; its token, if it has one, is what the session ends with.
        browser: how the browser calls itself (`User-Agent`); any text.
        identity_id: what the caller has signed in with at a provider, and the session ends with.

    Raises:
        Refusal: the caller is nobody in particular, or has come with a token that may not all.
    """
    caller = context.caller
    if caller.user_id is None:
        raise make_unauthorized_refusal()
    check_scope(caller, "all")  # a session may all that its user may
    _end_oldest(context, caller.user_id)
    until = shift_time(context.now, days=SESSION_DAYS)
    if identity_id is not None:
        until = shift_time(context.now, seconds=PROVIDER_SESSION_HOURS * 3600)
    if caller.token_expires_at is not None:
        until = min(until, caller.token_expires_at)
    secret = generate_token(TokenKind.SESSION)
    session_id = context.db.execute(
        insert(schema.tokens)
        .values(
            user_id=caller.user_id,
            name=_name_browser(browser),
            hash=hash_token(secret),
            created_at=context.now,
            expires_at=until,
            kind=TokenKind.SESSION.name.lower(),
            made_with=caller.token_id,
            identity_id=identity_id,
        )
        .returning(schema.tokens.c.id)
    ).scalar_one()
    audit.log_action(context, "signed_in", detail=f"session {session_id} of {caller.user}")
    return secret


def identify_session(db: Connection, secret: str, now: str) -> Principal:
    """Whose session this is, as things stand now.

    Raises:
        Refusal: it has ended, or never was; its user is disabled.
    """
    return identify_caller(db, secret, now, TokenKind.SESSION)


def list_sessions(context: Context) -> tuple[BrowserSession, ...]:
    """The caller's sessions that are good, newest first."""
    tokens = schema.tokens.c
    query = select(schema.tokens).where(
        tokens.user_id == context.caller.user_id, *_list_active_conditions(context.now)
    )
    return tuple(
        BrowserSession(
            row.id,
            row.name,
            row.created_at,
            row.expires_at,
            row.last_used_at,
            row.id == context.caller.token_id,
        )
        for row in context.db.execute(query.order_by(tokens.id.desc()))
    )


def make_form_key(secret: str) -> str:
    """What a form must hold that somebody sends from a page of ours: no other site can make it."""
    return hmac.new(secret.encode(), b"form", sha256).hexdigest()


def _name_browser(text: str) -> str:
    """How people call a browser: `Firefox on Linux`; of an unknown one how it calls itself."""
    line = sanitize_text(" ".join(text.split()))
    browser = next((name for name in _BROWSERS if name in line), "")
    system = next((name for name in _SYSTEMS if name in line), "")
    if browser and system:
        return f"{_FULL_NAMES.get(browser, browser)} on {system}"
    return line[:BROWSER_LENGTH_MAX]


def _list_active_conditions(now: str) -> tuple[ColumnElement[bool], ...]:
    tokens = schema.tokens.c
    return (
        tokens.kind == TokenKind.SESSION.name.lower(),
        tokens.revoked_at.is_(None),
        or_(tokens.expires_at.is_(None), tokens.expires_at > now),
    )


def _end_oldest(context: Context, user_id: int) -> None:
    tokens = schema.tokens.c
    query = select(tokens.id).where(tokens.user_id == user_id)
    query = query.where(*_list_active_conditions(context.now)).order_by(tokens.id.desc())
    over = context.db.execute(query.offset(SESSION_COUNT_MAX - 1)).scalars().all()
    if over:
        change = update(schema.tokens).where(tokens.id.in_(over))
        context.db.execute(change.values(revoked_at=context.now))
