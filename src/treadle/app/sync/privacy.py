"""Keeps a thread on this machine with all that hangs on it, or lets it be sent again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.sync.sync_cursors import open_cursors
from treadle.app.sync.thread_descendants import find_descendants
from treadle.errors import TreadleError, UnknownThreadError, UsageError
from treadle.store.local_store import LocalStore
from treadle.store.send_lock import set_private
from treadle.sync.credentials import find_account
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import Visibility
from treadle.thread.fold import ThreadFold


class PrivateThread(Struct, frozen=True):
    """A thread that stays on this machine.

    `is_new` says whether it was not private before, `visibility` who could see what was sent of it.
    `descendants` are the ids of the threads that hang on it and stay too.
    """

    thread_id: str
    is_new: bool
    visibility: Visibility
    descendants: tuple[str, ...]


def keep_private(store: LocalStore, thread_id: str) -> PrivateThread:
    """Make a thread private, durably. Copies that were sent before are not touched.

    Raises:
        UsageError: it is a sub-agent's, and the thread that it works for is here.
        StoreError: it cannot be opened, or the disk refused.
    """
    fold = _load_own(store, thread_id)
    is_new = set_private(store, thread_id)
    family = find_descendants(store, thread_id)
    return PrivateThread(thread_id, is_new, fold.visibility, tuple(family))


class ReleasePlan(Struct, frozen=True):
    """What may be sent once a thread is not private any more.

    With `is_private` false there is nothing to be done, and the rest is empty. `url` is the server;
    empty without a login. `needs_word` says that the server removed it on its owner's word, so that
    only a sync that names it sends it again. `descendants` go with it, each before what it hangs
    on.
    """

    thread_id: str
    is_private: bool
    visibility: Visibility
    message_count: int = 0
    url: str = ""
    needs_word: bool = False
    descendants: Mapping[str, ThreadSummary] = {}


def plan_release(store: LocalStore, thread_id: str) -> ReleasePlan:
    """What would be sent if a thread were not private any more. Changes nothing.

    Raises:
        UsageError: what it works for, or goes on from, is private.
        TreadleError: it cannot be read, or the account cannot.
    """
    fold = _load_own(store, thread_id)
    _refuse_under_private_base(store, fold)
    if not fold.is_private:
        return ReleasePlan(thread_id, is_private=False, visibility=fold.visibility)
    descendants = _find_companions(find_descendants(store, thread_id), thread_id)
    account = find_account(store.places, os.environ)
    cursor = None if account is None else open_cursors(store, account).get(thread_id)
    return ReleasePlan(
        thread_id,
        is_private=True,
        visibility=fold.visibility,
        message_count=fold.summary().message_count,
        url="" if account is None else account.url,
        # What was removed there on its owner's word goes back on that word alone.
        needs_word=cursor is not None and cursor.is_purged and not cursor.is_anew,
        descendants=descendants,
    )


def release(store: LocalStore, plan: ReleasePlan) -> None:
    """Let a thread, and what the plan says goes with it, be sent with the next sync.

    Raises:
        TreadleError: one of them cannot be opened, or the disk refused; the thread stays private.
    """
    # Sub-agents' threads first: they hang on this one, so that nothing goes before all may.
    for one, line in plan.descendants.items():
        if line.is_private:
            set_private(store, one, is_private=False)
    _allow_resend(store, [plan.thread_id, *plan.descendants])
    set_private(store, plan.thread_id, is_private=False)


def _load_own(store: LocalStore, thread_id: str) -> ThreadFold:
    """A thread that has a privacy of its own: a sub-agent's is as private as what it works for.

    Raises:
        UsageError: it is a sub-agent's, and the other is here.
    """
    fold = store.load(thread_id).fold
    parent = fold.header.parent
    if parent is None:
        return fold
    try:
        store.folders.find(parent)
    except UnknownThreadError:
        return fold
    raise UsageError(
        f"thread {fold.header.thread} is a sub-agent's: it is as private as the one it works for",
        hint=f"treadle private {parent}",
    )


def _refuse_under_private_base(store: LocalStore, fold: ThreadFold) -> None:
    """A fork has its history from its base.

    Raises:
        UsageError: that is private.
    """
    base = fold.header.base
    while base is not None:
        try:
            below = store.load(base.thread).fold
        except TreadleError:
            return
        if below.is_private:
            raise UsageError(
                f"thread {fold.header.thread} goes on from {base.thread}, which is private",
                hint=f"treadle private {base.thread} --off",
            )
        base = below.header.base


def _find_companions(
    below: Mapping[str, ThreadSummary], thread_id: str
) -> dict[str, ThreadSummary]:
    """What of all that hangs on a thread may leave with it; each before what it hangs on.

    Sub-agents' threads do. A fork does, unless it was made private by itself.
    """
    found: dict[str, ThreadSummary] = {}
    todo = [thread_id]
    while todo:
        above = todo.pop()
        for one, line in below.items():
            is_its = line.parent == above or (line.forked_from == above and not line.is_private)
            if is_its and one not in found:
                found[one] = line
                todo.append(one)
    return dict(reversed(found.items()))


def _allow_resend(store: LocalStore, thread_ids: Sequence[str]) -> None:
    """Note that these may be sent, though the server says that they were removed there.

    They were, because they were private; nobody else has to be asked about that.
    """
    account = find_account(store.places, os.environ)
    if account is None:
        return
    cursors = open_cursors(store, account)
    for one in thread_ids:
        if cursors.get(one) is None:
            cursors.put(one, replace(cursors.new(), is_purged=True, is_anew=True))
