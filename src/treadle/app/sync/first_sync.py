"""Threads from before a login: none is sent before a person has said that it may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from treadle.app.sync.sync_cursors import open_cursors
from treadle.app.sync.thread_descendants import list_summaries
from treadle.errors import TreadleError
from treadle.store.local_store import LocalStore
from treadle.sync.credentials import Account
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import Shared


class UnsentThreads(Struct, frozen=True):
    """Threads from before the login that were never sent, and how many others stay private."""

    lines: Sequence[ThreadSummary]
    private_count: int


class FirstSync(Struct, frozen=True):
    """What would be sent for the first time, and to which server.

    `readers` counts the threads by who could read them there; `private_count` others stay here.
    """

    url: str
    count: int
    readers: Mapping[str, int]
    private_count: int


ConfirmFirstSync: TypeAlias = Callable[[FirstSync], bool | None]
"""Asks a person whether these threads may be sent; `None` if nobody can be asked."""


class NothingSent(Struct, frozen=True):
    """A person did not want a first sync; or `problem` says what was in its way."""

    problem: str = ""


def find_unsent(store: LocalStore, account: Account) -> UnsentThreads:
    """What would be sent for the first time. What hangs on a private thread is private."""
    found = list_summaries(store)
    lines = {one.id: one for one in found}
    cursors = open_cursors(store, account)
    private = {one for one in lines if _depends_on_private(lines, one)}
    never = [
        line
        for line in found
        if line.id not in private
        and line.created_at < account.logged_in_at
        and not line.problem
        and cursors.get(line.id) is None
        and not store.adopted.is_borrowed(line.id, line.version, account.url)
    ]
    return UnsentThreads(never, len(private))


def choose_excluded_threads(
    store: LocalStore, account: Account, ask: ConfirmFirstSync
) -> tuple[str, ...] | NothingSent:
    """The threads from before the login that are left alone, as nobody can be asked about them."""
    found = find_unsent(store, account)
    if not found.lines:
        return ()
    # A person who wants to be alone with new threads does not want the old ones to be seen more.
    is_alone = account.visibility == "private"
    readers = Counter[str]("private" if is_alone else one.visibility for one in found.lines)
    may_go = ask(FirstSync(account.url, len(found.lines), readers, found.private_count))
    if may_go is None:
        return tuple(line.id for line in found.lines)
    if not may_go:
        return NothingSent()
    if is_alone:
        try:
            _restrict_visibility(store, found.lines)
        except TreadleError as error:
            return NothingSent(error.message)
    return ()


def _restrict_visibility(store: LocalStore, lines: Sequence[ThreadSummary]) -> None:
    """Record that their user alone may see them, before anything is sent."""
    for line in lines:
        if line.visibility == "private":
            continue
        writer = store.open_including_trash(line.id)
        try:
            writer.stage(Shared("private"))
            writer.commit()
        finally:
            writer.close()


def _depends_on_private(lines: Mapping[str, ThreadSummary], thread_id: str) -> bool:
    seen: set[str] = set()
    todo = [thread_id]
    while todo:
        one = todo.pop()
        line = lines.get(one)
        if line is None or one in seen:
            continue
        if line.is_private:
            return True
        seen.add(one)
        todo += [above for above in (line.parent, line.forked_from) if above is not None]
    return False
