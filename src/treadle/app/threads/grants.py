"""What a person has allowed for the rest of a thread: read, and taken back."""

from __future__ import annotations

from msgspec import Struct

from treadle.app.threads.annotations import annotate
from treadle.core.approval import Grant
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore
from treadle.thread.facts import Revoked
from treadle.thread.fold import ThreadFold
from treadle.thread.grants import list_grants
from treadle.thread.question_text import escape_name


class ThreadGrants(Struct, frozen=True):
    """The grants of a thread; none of those that were given on `elsewhere` machines hold here."""

    thread: str
    grants: tuple[Grant, ...]
    elsewhere: tuple[Grant, ...] = ()


def read_grants(store: LocalStore, thread: str) -> ThreadGrants:
    """What is allowed for the rest of a thread.

    Raises:
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        StoreError: it cannot be read.
    """
    fold = store.load(store.resolve(thread)).fold
    grants = list_grants(fold.machine.config)
    if store.adopted.is_foreign(fold.header.thread):
        return ThreadGrants(fold.header.thread, (), grants)
    return ThreadGrants(fold.header.thread, grants)


def revoke_grant(store: LocalStore, thread: str, name: str) -> ThreadFold:
    """Take back a kind, or all of a tool, by the name that `grant_name` gives it.

    Raises:
        UsageError: nothing of that name is allowed, or several tools have a kind of that name.
        UnknownThreadError, AmbiguousThreadError: there is no one thread of that name.
        StoreError: the thread is busy, damaged, newer or in the trash, or the disk refused.
    """
    return annotate(store, thread, lambda fold: _make_revocation(fold, name))


def grant_name(grant: Grant) -> str:
    """What a grant is for, as `revoke_grant` takes it."""
    tool = escape_name(grant.tool_name)
    return f"{tool}: {escape_name(grant.kind)}" if grant.kind else tool


def _make_revocation(fold: ThreadFold, name: str) -> Revoked:
    grants = list_grants(fold.machine.config)
    if any(one.tool_name == name for one in grants):
        return Revoked(name)
    found = [one for one in grants if name in (one.kind, grant_name(one))]
    if len(found) == 1:
        return Revoked(found[0].tool_name, found[0].kind)
    known = ", ".join(grant_name(one) for one in found or grants) or "nothing is"
    why = "several tools have" if found else "nothing is allowed by"
    raise UsageError(f"{why} the name {name!r} in this thread", hint=f"allowed: {known}")
