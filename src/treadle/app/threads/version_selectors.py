"""Which version of a thread a person means: by turn, by time, by commit."""

from __future__ import annotations

from msgspec import Struct

from treadle.app.threads.times import local_time, parse_moment_end
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import GitObserved
from treadle.thread.history import Rest, find_rest_after_turn


class VersionSelector(Struct, frozen=True):
    """Which version is meant: at most one of these is set; none is the newest.

    `moment` is a time as people write it, `commit` the beginning of a hash.
    """

    version: int | None = None
    turn: int | None = None
    moment: str | None = None
    commit: str | None = None


def select_version(store: LocalStore, thread_id: str, wanted: VersionSelector) -> int | None:
    """The version that is meant; `None` for the newest.

    Raises:
        TimeTextError: what is to be a time is none.
        UsageError: there is no such version.
    """
    if wanted.turn is not None:
        return find_turn_end(store, thread_id, wanted.turn).version
    if wanted.moment is not None:
        return find_version_at_time(store, thread_id, parse_moment_end(wanted.moment, store.now()))
    if wanted.commit is not None:
        return find_version_at_commit(store, thread_id, wanted.commit)
    return wanted.version


def find_turn_end(store: LocalStore, thread_id: str, turn: int) -> Rest:
    """Where a turn had ended; 0 is before the first prompt.

    Raises:
        UsageError: there is no such turn, or it has not ended.
    """
    found = store.list_rests(thread_id)
    rest = find_rest_after_turn(found, turn)
    if rest is None:
        turns = sorted({one.turn for one in found})
        known = f"turns {turns[0]} to {turns[-1]}" if turns else "none yet"
        raise UsageError(
            f"thread {thread_id} has no turn {turn} that has ended; those that have: {known}"
        )
    return rest


def find_version_at_time(store: LocalStore, thread_id: str, at: str) -> int:
    """The version that stood at a time, in the form of records.

    Raises:
        UsageError: the thread began later.
    """
    records = store.scan(thread_id).records
    seqs = [record.seq for record in records if record.at <= at]
    if not seqs:
        began = local_time(records[0].at) if records else "never"
        raise UsageError(f"thread {thread_id} began later: at {began}")
    return seqs[-1]


def find_version_at_commit(store: LocalStore, thread_id: str, commit: str) -> int:
    """The last version at which this commit was checked out.

    Raises:
        UsageError: the thread has not seen that commit, or several begin like this.
    """
    head, found = "", dict[str, int]()
    for record in store.scan(thread_id).records:
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            break
        if isinstance(entry, GitObserved):
            head = entry.head or ""
        if head.startswith(commit.lower()):
            found[head] = record.seq
    if len(found) == 1:
        return found.popitem()[1]
    if found:
        raise UsageError(
            f"several commits of thread {thread_id} begin with {commit}: {', '.join(found)}"
        )
    raise UsageError(
        f"thread {thread_id} has not seen the commit {commit}",
        hint="`treadle show` lists those it has seen",
    )
