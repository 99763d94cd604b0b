"""The copies that servers have of threads: found, removed, or replaced after a scrub."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.sync.sync_cursors import open_cursors
from treadle.app.sync.thread_descendants import find_descendants
from treadle.errors import DiskError, TreadleError
from treadle.sync.credentials import Account, find_account, require_account

if TYPE_CHECKING:
    from treadle.store.local_store import LocalStore
    from treadle.sync.client import HttpRemote
    from treadle.sync.context import SyncProblem, SyncReport
    from treadle.sync.cursors import Cursors

_SCRUB_FINDING: Final = "a text that is being scrubbed"


class ServerCopies(Struct, frozen=True):
    """Who may have copies: the threads of which the server has one, how many others have.

    `url` is the server; empty without a login. `problem` says why it is not known of all threads
    what that has, if it is not.
    """

    url: str
    here: tuple[str, ...]
    elsewhere: Mapping[str, int]
    problem: str = ""


def find_copies(store: LocalStore, thread_ids: Sequence[str]) -> ServerCopies:
    """Who may have copies of threads: as far as this machine has noted, and the server says.

    No thread is named to the server. What has been private from its beginning is nowhere.

    Raises:
        ConfigError, NotLoggedInError: the account cannot be used.
        DiskError: the disk refused.
    """
    account = find_account(store.places, os.environ)
    cursors = open_cursors(store, account)
    elsewhere: Counter[str] = Counter()
    for one in thread_ids:
        others = cursors.list_other_cursors(one)
        elsewhere.update(f"{it.url} as {it.user}" if it.user else it.url for it in others)
    if account is None:
        return ServerCopies("", (), elsewhere)
    sent = _select_sent(cursors, thread_ids)
    doubtful = [one for one in thread_ids if one not in sent and _may_have_been_sent(store, one)]
    problem = ""
    try:
        there = _fetch_server_ids(account) if doubtful else frozenset[str]()
    except DiskError:
        raise
    except TreadleError as error:
        there = frozenset()
        # With cursors it is known what was sent; without any they may have been lost.
        if not cursors.ids():
            problem = f"{account.url} has a copy is not known: {error.message}; say this again"
    for one in doubtful:
        if one in there:
            cursors.put(one, cursors.new())
            sent.append(one)
    return ServerCopies(account.url, tuple(sent), elsewhere, problem)


class CopyRemoval(Struct, frozen=True):
    """What became of copies that a server was to remove.

    `done_count` are gone there. With `is_complete` false the next sync goes on with the others;
    `why` may say what is in the way, and `is_refused` that the server said no.
    """

    done_count: int
    is_complete: bool
    why: str = ""
    is_refused: bool = False


def remove_copies(store: LocalStore, thread_ids: Sequence[str]) -> CopyRemoval:
    """Have the server remove its copies of private threads now; what cannot be done now waits.

    Raises:
        NotLoggedInError: there is no server any more, or it does not know this user.
        TreadleError: the disk refused, or another process syncs.
    """
    from treadle.app.sync.sync_engine import open_engine
    from treadle.sync.send_queue import PendingSyncStore

    account = require_account(store.places, os.environ)
    # Noted before the first attempt, so that it is known to wait whatever becomes of that.
    PendingSyncStore(store.folders.disk, store.places).add_entries(
        dict.fromkeys(thread_ids, "delete")
    )
    with open_engine(store, account) as (engine, cursors, _):
        report = engine.sync(thread_ids)
        left = _select_sent(cursors, thread_ids)
    problems = (*report.waiting, *report.refused, *report.held)
    return CopyRemoval(
        len(thread_ids) - len(left),
        not left,
        report.unreachable or next((one.why for one in problems), ""),
        bool(report.refused) and not report.unreachable,
    )


class CopyFetch(Struct, frozen=True):
    """Whether a server has, or may have, a copy of one of the threads; what could not be fetched.

    `problems` are lines for people.
    """

    has_copies: bool
    problems: tuple[str, ...] = ()


def fetch_before_scrub(store: LocalStore, thread_ids: Sequence[str]) -> CopyFetch:
    """Take in what other machines have sent of these threads, so that a scrub sees that too.

    Nothing is sent meanwhile: it is not scrubbed yet. A failure is a part of what is returned.
    """
    try:
        account = find_account(store.places, os.environ)
        if account is None:
            return CopyFetch(has_copies=False)
        from treadle.app.sync.sync_engine import open_engine

        with open_engine(store, account, looks=lambda _: [_SCRUB_FINDING]) as (engine, cursors, _):
            sent = _select_sent(cursors, thread_ids)
            if not sent:
                return CopyFetch(has_copies=False)
            report = engine.sync(sent)
    except TreadleError as error:
        why = f"what other machines have sent was not looked at: {error.message}"
        return CopyFetch(has_copies=True, problems=(why,))
    problems = _list_problems(report, (*report.refused, *report.waiting))
    return CopyFetch(has_copies=True, problems=problems)


class ForkCopy(Struct, frozen=True):
    """The server's copy of a fork of `base`; it is removed, unless `problem` says why not."""

    thread_id: str
    base: str
    problem: str = ""


class CopyReplacement(Struct, frozen=True):
    """What became of a server's copies after a scrub.

    `replaced` are new there; `left` may hold the scrubbed text still. `forks` had their history
    from a thread that the server has no more. `problems` are lines for people, `failure` says what
    broke off all of it.
    """

    replaced: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    forks: tuple[ForkCopy, ...] = ()
    problems: tuple[str, ...] = ()
    failure: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether no server is known to hold what was taken out."""
        return not (self.left or self.failure or any(one.problem for one in self.forks))


def replace_copies(store: LocalStore, thread_ids: Sequence[str]) -> CopyReplacement:
    """Have the server's copies replaced by what the threads are now.

    Threads that were never sent are left to a sync. A failure is a part of what is returned.
    """
    forks: list[ForkCopy] = []
    try:
        account = find_account(store.places, os.environ)
        if account is None:
            return CopyReplacement()
        from treadle.app.sync.sync_engine import open_engine

        with open_engine(store, account) as (engine, cursors, remote):
            known = {thread_id: cursors.get(thread_id) for thread_id in thread_ids}
            removed = [one for one, cursor in known.items() if cursor and cursor.is_purged]
            for one in removed:
                forks += _remove_forks(store, cursors, remote, one)
                if any(fork.problem for fork in forks):
                    break
            sent = [one for one, cursor in known.items() if cursor and not cursor.is_purged]
            if not sent:
                return CopyReplacement(forks=tuple(forks))
            report = engine.sync(sent)
    except TreadleError as error:
        return CopyReplacement(forks=tuple(forks), failure=error.message)
    done = {*report.replaced, *report.removed}
    return CopyReplacement(
        tuple(one for one in sent if one in done),
        tuple(one for one in sent if one not in done),
        tuple(forks),
        _list_problems(report, (*report.held, *report.refused, *report.waiting)),
    )


def _list_problems(report: SyncReport, problems: Sequence[SyncProblem]) -> tuple[str, ...]:
    lines = [f"thread {one.thread_id}: {one.why}" for one in problems]
    return (*lines, report.unreachable) if report.unreachable else tuple(lines)


def _remove_forks(
    store: LocalStore, cursors: Cursors, remote: HttpRemote, base: str
) -> list[ForkCopy]:
    """Have the server remove what goes on from a scrubbed thread that it has not got any more.

    Such a fork stands by itself there, with the history that it shared: no scrub of the thread it
    went on from reaches that, and it cannot be replaced without that thread.
    """
    done: list[ForkCopy] = []
    for one in _select_sent(cursors, list(find_descendants(store, base))):
        try:
            remote.purge(one)
        except TreadleError as error:
            done.append(ForkCopy(one, base, error.message))
            continue
        cursors.put(one, replace(cursors.new(), is_purged=True))
        done.append(ForkCopy(one, base))
    return done


def _select_sent(cursors: Cursors, thread_ids: Sequence[str]) -> list[str]:
    """Those of which the server has a copy, as far as this machine has noted."""
    known = {one: cursors.get(one) for one in thread_ids}
    return [one for one, cursor in known.items() if cursor is not None and not cursor.is_purged]


def _may_have_been_sent(store: LocalStore, thread_id: str) -> bool:
    """Whether a thread was not private at some time."""
    path, _ = store.folders.find(thread_id)
    data = store.folders.disk.read(path)
    return b'"is_private":true' not in data.partition(b"\n")[0] or b'"privacy_set"' in data


def _fetch_server_ids(account: Account) -> frozenset[str]:
    """All threads of which the server has records of this user."""
    from treadle.sync.client import HttpRemote

    found: dict[str, bool] = {}
    after = 0
    with HttpRemote(account) as remote:
        while True:
            page = remote.heads(after)
            found.update((one.thread, one.is_purged) for one in page.heads)
            if page.is_last or page.change <= after:
                return frozenset(one for one, is_purged in found.items() if not is_purged)
            after = page.change
