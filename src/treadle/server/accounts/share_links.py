"""Links that show one thread to whoever holds them, until they expire or are revoked.

A thread has one link that works: a new one revokes the one before it. A link shows the
conversation as it stands when it is opened, and nothing of the machine it was had on. Its token is
in the link alone; the database keeps a hash of it. That a thread becomes private revokes its
links; one that the owner makes after that is his word, and works.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Any, Final

from sqlalchemy import Row, insert, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewShare, Share, SharedThread, ShareLine, Shares
from treadle.server.accounts import access, audit
from treadle.server.accounts.shared_view import encode_conversation, read_shared_thread, render_page
from treadle.server.accounts.times import parse_time, shift_time
from treadle.server.accounts.tokens import TokenKind, generate_token, hash_token, is_well_formed
from treadle.server.context import Context, Verb
from treadle.server.data import schema
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.thread.facts import Visibility

LINK_DAYS: Final = 30
"""How long a link is good if nobody says how long."""
LINK_DAYS_MAX: Final = 365


def create_link(context: Context, thread_id: str, new: NewShare, base_url: str) -> Share:
    """Make a link, and revoke the one before it.

    Args:
        context: whose request it is.
        thread_id: the thread.
        new: until when it is good; `LINK_DAYS_MAX` at most.
        base_url: where this server is, without a slash at the end.

    Raises:
        Refusal: the caller is not the owner; the thread is deleted; the time is none, is over or is
            too far away.
    """
    key = access.find_thread(context, thread_id, Verb.SHARE, for_update=True).key
    until = (
        shift_time(context.now, days=LINK_DAYS)
        if new.expires_at is None
        else parse_time(new.expires_at)
    )
    if not context.now < until <= shift_time(context.now, days=LINK_DAYS_MAX):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"a link is good for {LINK_DAYS_MAX} days at most, and not for no time",
        )
    revoke_links_unchecked(context, key)
    token = generate_token(TokenKind.SHARE)
    context.db.execute(
        insert(schema.shares).values(
            thread_id=key,
            hash=hash_token(token),
            created_by=context.caller.user_id,
            created_at=context.now,
            expires_at=until,
        )
    )
    audit.log_action(context, "share_made", key, f"until {until}")
    return Share(f"{base_url}/share/{token}", context.now, until)


def list_links(context: Context, thread_id: str) -> Shares:
    """The links a thread has had, newest first.

    Raises:
        Refusal: the caller is not the owner.
    """
    key = access.find_thread(context, thread_id, Verb.SHARE).key
    shares = schema.shares.c
    query = select(schema.shares).where(shares.thread_id == key).order_by(shares.id.desc())
    return Shares(
        tuple(
            ShareLine(row.created_at, row.expires_at, not _has_ended(row, context.now), row.id)
            for row in context.db.execute(query)
        )
    )


def revoke_links(context: Context, thread_id: str) -> None:
    """Revoke every link of a thread; fine if there is none.

    Raises:
        Refusal: the caller is neither the owner nor an admin of the organization who sees it.
    """
    revoke_links_unchecked(
        context, access.find_thread(context, thread_id, Verb.UNSHARE, for_update=True).key
    )


def revoke_links_unchecked(context: Context, key: str) -> int:
    """Revoke every link of a thread that becomes private; asks nobody whether the caller may.

    Those that have expired are among them: by a clock that is put right they may not have.

    Returns:
        How many there were.
    """
    shares = schema.shares.c
    over = (
        update(schema.shares)
        .where(shares.thread_id == key, shares.revoked_at.is_(None))
        .values(revoked_at=context.now)
    )
    count = context.db.execute(over).rowcount
    if count:
        audit.log_action(context, "share_revoked", key)
    return count


def apply_visibility_change(
    context: Context, key: str, before: Visibility, after: Visibility
) -> None:
    """Do what follows from a thread's new visibility, wherever it was said: note it, end links."""
    if after == before:
        return
    audit.log_action(context, "visibility_set", key, f"{before} -> {after}")
    if after == "private":
        revoke_links_unchecked(context, key)


def open_link(context: Context, token: str, thread_id: str | None = None) -> SharedThread:
    """What the holder of a link sees.

    Args:
        context: the request, whoever asks.
        token: the end of the link; any text.
        thread_id: the thread it must be a link of, if that is said.

    Raises:
        Refusal: there is no such link, or its thread is gone; it has expired or was revoked.
    """
    thread = _find_linked_thread(context, token, thread_id)
    story = read_shared_thread(context.db, thread)
    document = story.document
    return SharedThread(
        document.id,
        document.metadata.title,
        document.created_at,
        document.updated_at,
        encode_conversation(story),
    )


def render_link_page(context: Context, token: str, page: int = 1) -> str:
    """The same, as a page of HTML.

    Args:
        context: the request, whoever asks.
        token: the end of the link; any text.
        page: which page of the conversation, from 1.

    Raises:
        Refusal: as `open_link`; or there is no such page.
    """
    thread = _find_linked_thread(context, token, None)
    query = select(schema.users.c.name).where(schema.users.c.id == thread.owner_id)
    author: str = context.db.execute(query).scalar_one()
    return render_page(read_shared_thread(context.db, thread), author, page)


def _find_linked_thread(context: Context, token: str, thread_id: str | None) -> Row[Any]:
    """The row of the thread that a link leads to."""
    if not is_well_formed(token, TokenKind.SHARE):
        raise make_not_found_refusal()
    hashed = hash_token(token)
    shares = schema.shares.c
    link = context.db.execute(select(schema.shares).where(shares.hash == hashed)).one_or_none()
    if link is None or not compare_digest(link.hash, hashed):
        raise make_not_found_refusal()
    query = select(schema.threads).where(schema.threads.c.key == link.thread_id)
    thread = context.db.execute(query).one()
    if thread_id is not None and thread_id != thread.id:
        raise make_not_found_refusal()
    if access.get_deletion_state(thread) is not access.DeletionState.LIVE:
        raise make_not_found_refusal()
    if _has_ended(link, context.now):
        raise Refusal(
            ErrorCode.GONE,
            "this link does not work any more",
            hint="ask who gave it to you for another one",
        )
    context.note_read(thread.key, thread.owner_id, link.id)
    return thread


def _has_ended(link: Row[tuple[object, ...]], now: str) -> bool:
    return link.revoked_at is not None or link.expires_at <= now
