"""Who may see a thread on the server: visibility, links and support's access, given and ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.api.audit_types import ReadLine
from treadle.app.sync.sync_engine import open_engine
from treadle.errors import (
    HeldBackError,
    PrivateThreadError,
    RemoteRefusedError,
    RemoteUnavailableError,
    TreadleError,
)
from treadle.runtime.defaults import make_user_redactor
from treadle.store.local_store import LocalStore
from treadle.sync.client import HttpRemote
from treadle.sync.credentials import Account, require_account
from treadle.sync.cursors import Cursors
from treadle.sync.engine import SyncEngine
from treadle.sync.shareable_thread import hold_for_request
from treadle.sync.thread_comparison import ThreadComparer
from treadle.thread.facts import Shared, Visibility
from treadle.thread.fold import ThreadFold

READER_PAGE_COUNT: Final = 1000
READER_COUNT_MAX: Final = 100_000
"""Lines that are fetched at a time, and at most."""


class ShareTarget(Struct, frozen=True):
    """A thread that may leave this machine, and the server that is asked about it."""

    thread_id: str
    account: Account

    @property
    def url(self) -> str:
        """Where the server has the thread."""
        return f"{self.account.url}/api/threads/{self.thread_id}"


def find_share_target(store: LocalStore, text: str) -> ShareTarget:
    """The thread that is meant, if it may be spoken of to the server.

    Args:
        store: the threads.
        text: the beginning or the end of its id.

    Raises:
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        NotLoggedInError: there is no server.
        PrivateThreadError: the thread is private, or hangs on one that is. Nothing of it leaves,
            not even the question whether it may.
    """
    thread_id = store.resolve(text)
    account = require_account(store.places, os.environ)
    survey = ThreadComparer(store)
    if survey.is_private(thread_id):
        above = survey.find_private_dependency(thread_id)
        why = "" if above is None else f", as {above} is, which it hangs on"
        raise PrivateThreadError(
            f"thread {thread_id} is private{why}: it never leaves this machine; nothing was sent",
            hint=f"`treadle private {above or thread_id} --off` takes that back",
        )
    return ShareTarget(thread_id, account)


class SharedAddress(Struct, frozen=True):
    """Where others read a thread, and until when; `None` if that has no end."""

    url: str
    expires_at: str | None = None


def share_thread(
    store: LocalStore,
    target: ShareTarget,
    *,
    visibility: Visibility | None = None,
    with_support: bool = False,
    expires_at: str | None = None,
) -> SharedAddress:
    """Bring a thread to the server, and share it in one way: by a link, unless another is named.

    Args:
        store: the threads.
        target: the thread.
        visibility: who may see it from now on, which is recorded in it.
        with_support: whether the server's support may read it for a time; this is recorded too.
        expires_at: when a link ends; `None` leaves that to the server. The link before it ends.

    Raises:
        HeldBackError: a secret was found in it, or it has become private.
        RemoteRefusedError: the server says no.
        RemoteUnavailableError: it cannot be reached; it is tried again with the next sync.
        StoreError: the thread is busy or damaged, or the disk refused.
    """
    thread_id = target.thread_id
    with open_engine(store, target.account) as (engine, cursors, remote):
        # What was sent before is looked at as well: more is known today.
        engine.check_for_secrets(thread_id)
        if visibility is not None or with_support:
            _record_fact(store, thread_id, Shared(visibility, with_support or None))
        _send_thread(store, engine, cursors, thread_id)
        with hold_for_request(store, thread_id):
            if visibility is not None:
                return SharedAddress(target.url)
            if with_support:
                return SharedAddress(target.url, remote.grant_support(thread_id).expires_at or "")
            link = remote.share(thread_id, expires_at)
            return SharedAddress(link.url, link.expires_at)


def list_readers(store: LocalStore, text: str) -> Sequence[ReadLine]:
    """Who else has read a thread on the server, newest first: a line for each reader and hour.

    Args:
        store: the threads.
        text: the beginning or the end of its id.

    Raises:
        UnknownThreadError, AmbiguousThreadError, NotLoggedInError, PrivateThreadError: as
            `find_share_target`.
        RemoteError: the server has no such thread of this user's, or cannot be reached.
    """
    target = find_share_target(store, text)
    found: list[ReadLine] = []
    with hold_for_request(store, target.thread_id), HttpRemote(target.account) as remote:
        while len(found) < READER_COUNT_MAX:
            before = found[-1].id if found else None
            page = remote.readers(target.thread_id, READER_PAGE_COUNT, before).reads
            found += page
            if len(page) < READER_PAGE_COUNT:
                break
    return found


class EndedAccess(Struct, frozen=True):
    """What was ended at the server: so many links (`None` if that was not wanted).

    `problem` says why the end of support's access could not be recorded in the thread.
    """

    link_count: int | None
    problem: str = ""


def end_access(
    store: LocalStore, target: ShareTarget, *, ends_links: bool, ends_support: bool
) -> EndedAccess:
    """End the links to a thread, and support's access.

    Raises:
        RemoteError: the server refuses, or cannot be reached.
    """
    count, problem = None, ""
    with open_engine(store, target.account) as (engine, _, remote):
        with hold_for_request(store, target.thread_id):
            if ends_links:
                count = sum(one.is_active for one in remote.shares(target.thread_id).shares)
                remote.unshare(target.thread_id)
            if ends_support:
                remote.revoke_support(target.thread_id)
        if ends_support:
            problem = _record_support_end(engine, store, target.thread_id)
    return EndedAccess(count, problem)


def _record_support_end(engine: SyncEngine, store: LocalStore, thread_id: str) -> str:
    """Say in the thread too that support cannot read it, if the server has not said it there.

    It has ended it already. Why it could not be recorded; empty if it is.
    """
    try:
        engine.save_and_sync(thread_id)
        fold = _record_fact(store, thread_id, Shared(with_support=False))
        if not fold.is_private:
            engine.save_and_sync(thread_id)
    except TreadleError as error:
        return error.message
    return ""


def _record_fact(store: LocalStore, thread_id: str, fact: Shared) -> ThreadFold:
    """Say it in the thread, where every machine reads it, unless it is so already; the thread."""
    writer = store.open(thread_id)
    try:
        fold = writer.fold
        is_seen_so = fact.visibility in (None, fold.visibility)
        if not (is_seen_so and fact.with_support in (None, fold.is_shared_with_support)):
            writer.stage(fact, make_user_redactor().redact)
            writer.commit()
        return writer.fold
    finally:
        writer.close()


def _send_thread(store: LocalStore, engine: SyncEngine, cursors: Cursors, thread_id: str) -> None:
    """Bring the thread to the server, and wait for it.

    Raises:
        HeldBackError: a secret was found in it, or it has become private.
        RemoteRefusedError: the server says no.
        RemoteUnavailableError: it cannot be reached; it is tried again.
    """
    report = engine.save_and_sync(thread_id)
    for problem in report.held:
        if problem.thread_id == thread_id:
            what = "; ".join(problem.found)
            raise HeldBackError(
                f"thread {thread_id} was not sent: a secret was found in it"
                + (f" ({what})" if what else f": {problem.why}"),
                hint=f"`treadle scrub {thread_id} --found` takes it out for good",
            )
    for problem in report.refused:
        if problem.thread_id == thread_id:
            raise RemoteRefusedError(f"thread {thread_id} was not taken: {problem.why}")
    why = next((one.why for one in report.waiting if one.thread_id == thread_id), "")
    if why or report.unreachable:
        raise RemoteUnavailableError(
            f"thread {thread_id} is not shared yet: {why or report.unreachable}",
            hint="who may see it is recorded; it is sent with the next sync",
        )
    cursor = cursors.get(thread_id)
    if cursor is None or cursor.is_purged or not cursor.seq:
        note = next((one for one in report.notes if one.startswith(thread_id)), "")
        if store.adopted.find_loan(thread_id) is not None:
            note = f"it is another user's there; `treadle sync {thread_id}` sends a copy as yours"
        raise HeldBackError(
            f"thread {thread_id} was not sent, so that nothing of it is shared",
            hint=note or f"`treadle sync {thread_id}` says why",
        )
