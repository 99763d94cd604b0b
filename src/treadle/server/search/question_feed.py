"""An Atom feed of what waits for a user: read by a program that knows its address, and no more.

A reader of feeds sends no token, so the address holds the secret. It tells titles and which tools
are asked about, never a command, a file or a word of a thread: who hosts the reader sees it too.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from msgspec.structs import replace
from sqlalchemy import Connection, insert, update

from treadle.api.error_codes import ErrorCode
from treadle.api.types import ListedThread
from treadle.server.accounts import audit
from treadle.server.accounts.tokens import (
    TokenKind,
    find_limit,
    generate_token,
    hash_token,
    identify_caller,
)
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.refusals import Refusal, make_unauthorized_refusal
from treadle.server.search.thread_lists import Filters, list_threads
from treadle.thread.safe_text import sanitize_text

ENTRY_COUNT_MAX: Final = 50
_ATOM: Final = "http://www.w3.org/2005/Atom"
_TITLE_LENGTH_MAX: Final = 200


def make_feed(context: Context, base_url: str) -> str:
    """The address of a feed of the caller's, in place of the one before it, which ends.

    It does not outlive the token that its maker has signed in with.

    Args:
        context: a transaction that writes.
        base_url: where this server is, without a slash at the end.

    Raises:
        Refusal: the caller is nobody in particular.
    """
    caller = context.caller
    if caller.user_id is None:
        raise make_unauthorized_refusal()
    end_feed(context)
    secret = generate_token(TokenKind.FEED)
    context.db.execute(
        insert(schema.tokens).values(
            user_id=caller.user_id,
            name="feed",
            hash=hash_token(secret),
            created_at=context.now,
            expires_at=find_limit(context),
            kind=TokenKind.FEED.name.lower(),
        )
    )
    audit.log_action(context, "feed_made", detail=f"of {caller.user}")
    return f"{base_url}/feeds/{secret}/questions.atom"


def end_feed(context: Context) -> None:
    """Have no address open the caller's feed any more; fine if none does."""
    tokens = schema.tokens.c
    change = update(schema.tokens).where(
        tokens.user_id == context.caller.user_id,
        tokens.kind == TokenKind.FEED.name.lower(),
        tokens.revoked_at.is_(None),
    )
    context.db.execute(change.values(revoked_at=context.now))


def render_feed(db: Connection, secret: str, now: str, base_url: str) -> bytes:
    """The questions that wait for the user of a feed, those that changed last first, as Atom.

    Args:
        db: a transaction.
        secret: of the address.
        now: the time.
        base_url: where this server is, without a slash at the end.

    Raises:
        Refusal: there is no such feed any more, or its user is disabled.
    """
    try:
        caller = identify_caller(db, secret, now, TokenKind.FEED)
    except Refusal:  # nobody signs in for a feed: a program reads it
        raise Refusal(
            ErrorCode.GONE,
            "this feed has ended",
            hint="the page of your account makes another address",
        ) from None
    # Whatever else the user may do, this secret reads the own threads.
    context = Context(db, replace(caller, is_admin=False, is_support=False), now)
    filters = Filters(state="waiting", owner=caller.user)
    waiting = list_threads(context, filters, ENTRY_COUNT_MAX, 0).threads
    feed = ElementTree.Element("feed", xmlns=_ATOM)
    _add(feed, "id", f"{base_url}/feeds/of/{caller.user}")
    _add(feed, "title", f"Treadle: what waits for {caller.user}")
    _add(feed, "updated", max((one.summary.updated_at for one in waiting), default=now))
    ElementTree.SubElement(feed, "link", href=f"{base_url}/?state=waiting")
    for one in waiting:
        _add_entry(feed, one, base_url)
    text: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text


def _add_entry(feed: ElementTree.Element, one: ListedThread, base_url: str) -> None:
    summary = one.summary
    title = sanitize_text(" ".join((summary.title or "a thread").split()))[:_TITLE_LENGTH_MAX]
    count = summary.questions
    link = f"{base_url}/threads/{summary.id}"
    entry = ElementTree.SubElement(feed, "entry")
    # Each question is another one: the version tells them apart.
    _add(entry, "id", f"{link}#{summary.version}")
    _add(entry, "title", f"{title}: {count} {'question waits' if count == 1 else 'questions wait'}")
    _add(entry, "updated", summary.updated_at)
    ElementTree.SubElement(entry, "link", href=link)
    author = ElementTree.SubElement(entry, "author")
    _add(author, "name", one.owner)


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text
