"""The sync engine: what ships records and fetches them. Synchronous; used by one thread at a time.

It knows of no network, clock or chance but through what it is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from treadle.api.types import ThreadHead
from treadle.errors import RemoteUnavailableError
from treadle.store.local import LocalStore
from treadle.sync.backoff import is_due, later, pause_s
from treadle.sync.cursors import Cursors
from treadle.sync.decision import Here, Operation, decide
from treadle.sync.kit import Kit, Looks, OnConflict, Report, Told
from treadle.sync.pending import Conflict, Entry, Pending, State
from treadle.sync.ports import Remote
from treadle.sync.refusals import LOST_SCRUB
from treadle.sync.rounds import Round
from treadle.sync.survey import Survey, Wish


def _sees_nothing(_: Iterable[bytes]) -> list[str]:
    return []


class Status(Struct, frozen=True):
    """How a home stands to its server, as far as this machine knows; asked of nobody.

    `pending` are the entries of what waits, with what went wrong; `unsent` the threads that have
    something the server has not got, `unfetched` those of which it was seen to have more.
    """

    url: str
    user: str
    synced_at: str
    failed_at: str
    last_error: str
    next_try_at: str
    pending: tuple[Entry, ...]
    unsent: tuple[str, ...]
    unfetched: tuple[str, ...]
    private_count: int
    conflicts: tuple[Conflict, ...]


class Engine:
    """Syncs the threads of a store with a server.

    Args:
        store: the threads.
        remote: the server.
        cursors: how far each thread is synced.
        pending: what waits, and what is known of the server.
        now: the clock; UTC in the form of records.
        random: a number from 0 to 1; spreads retries.
        looks: what looks for secrets in what is about to leave.
        host: what people call this machine; by default its name.
    """

    def __init__(
        self,
        store: LocalStore,
        remote: Remote,
        cursors: Cursors,
        pending: Pending,
        *,
        now: Callable[[], str],
        random: Callable[[], float],
        looks: Looks = _sees_nothing,
        host: str | None = None,
    ) -> None:
        name = os.uname().nodename if host is None else host
        self._kit = Kit(store, remote, cursors, pending, now, random, looks, name)

    def sync(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        on_conflict: OnConflict = "merge",
        is_wanted: bool = True,
    ) -> Report:
        """Send and fetch all that there is, or all about some threads and what they hang on.

        A server that cannot be reached is no error: the report says so, and what waits is noted.

        Args:
            thread_ids: full ids; by default all threads, here and on the server.
            on_conflict: what becomes of our branch where two machines have gone on with a thread.
            is_wanted: whether a person has asked for it: then what was held back or refused is
                tried again, and a server that could not be reached is asked at once.

        Raises:
            NotLoggedInError: the server does not know this user.
            DiskError: what is to be sent cannot be noted; nothing was sent.
            StorageBusyError: the same, because of other processes.
        """
        told = Told()
        if not is_wanted and self._is_too_early(told):
            return told.report()
        named = frozenset(thread_ids or ())
        work = Round(self._kit, told, Wish(is_wanted, named), on_conflict)

        def run() -> None:
            heads, change = self._heads()
            if thread_ids is None:
                work.run(self._all(heads), heads)
                url, user = self._kit.cursors.url, self._kit.cursors.user
                self._kit.pending.change_state(
                    lambda state: replace(state, change=change, url=url, user=user)
                )
            else:
                work.run(self._families(thread_ids), heads)

        self._guarded(told, run, is_full=thread_ids is None)
        return told.report()

    def save_and_sync(self, thread_id: str, *, on_conflict: OnConflict = "merge") -> Report:
        """Send one thread, and what it hangs on, and wait for it. Raises as `sync`.

        If another machine has gone on with it, that is taken in first, unless it is open.
        """
        told = Told()
        named = self._families([thread_id])
        work = Round(self._kit, told, Wish(is_wanted=True), on_conflict)
        self._guarded(told, lambda: work.run(named, {}))
        return told.report()

    def send(self, thread_id: str) -> Report:
        """Send one thread, beside a session that has it open; nothing here is changed.

        Does nothing while the server is left alone because it could not be reached. Raises as
        `sync`.
        """
        told = Told()
        if self._is_too_early(told):
            return told.report()
        named = self._families([thread_id])
        work = Round(self._kit, told, Wish(), may_write=False)
        self._guarded(told, lambda: work.run(named, {}))
        return told.report()

    def status(self) -> Status:
        """How this machine stands to the server. Asks nobody.

        Raises:
            DiskError: the disk refused.
        """
        kit = self._kit
        state = kit.pending.state()
        survey = Survey(kit.store)
        unsent: list[str] = []
        unfetched: list[str] = []
        private_count = 0
        for thread_id in self._all({}):
            facts = survey.facts(thread_id, kit.cursors.get(thread_id))
            private_count += facts.here is Here.PRIVATE
            operation = decide(replace(facts, is_busy=False))
            if operation in _SENDS:
                unsent.append(thread_id)
            if operation in _FETCHES:
                unfetched.append(thread_id)
        return Status(
            kit.cursors.url,
            kit.cursors.user,
            state.synced_at,
            state.failed_at,
            state.last_error,
            state.next_try_at,
            _waiting(kit.pending.entries(), state.unscrubbed),
            tuple(unsent),
            tuple(unfetched),
            private_count,
            state.conflicts,
        )

    # ---- inside --------------------------------------------------------------------------------

    def _all(self, heads: Mapping[str, ThreadHead]) -> list[str]:
        """Every thread that is here, on the server, or was synced once."""
        folders = self._kit.store.folders
        found = (*folders.ids(), *folders.ids(in_trash=True), *self._kit.cursors.ids(), *heads)
        return list(dict.fromkeys(found))

    def _families(self, thread_ids: Iterable[str]) -> list[str]:
        survey = Survey(self._kit.store)
        return list(dict.fromkeys(one for name in thread_ids for one in survey.family(name)))

    def _heads(self) -> tuple[dict[str, ThreadHead], int]:
        """Where the server's threads are that have changed since they were looked at."""
        state = self._kit.pending.state()
        is_known = (state.url, state.user) == (self._kit.cursors.url, self._kit.cursors.user)
        # Without cursors nobody knows what was looked at.
        after = state.change if is_known and self._kit.cursors.ids() else 0
        found, change = self._listed(after)
        if change < after:  # the server has lost its end: a backup was put back
            found, change = self._listed(0)
            self._forget_what_is_gone(found)
        return found, change

    def _listed(self, after: int) -> tuple[dict[str, ThreadHead], int]:
        found: dict[str, ThreadHead] = {}
        while True:
            page = self._kit.remote.heads(after)
            found.update((head.thread, head) for head in page.heads)
            if page.is_last or page.change <= after:
                return found, page.change
            after = page.change

    def _forget_what_is_gone(self, heads: Mapping[str, ThreadHead]) -> None:
        cursors = self._kit.cursors
        for thread_id in cursors.ids():
            cursor = cursors.get(thread_id)
            if cursor is not None and thread_id not in heads and not cursor.is_purged:
                cursors.put(thread_id, cursors.new())

    def _is_too_early(self, told: Told) -> bool:
        state = self._kit.pending.state()
        if is_due(self._kit.now(), state.next_try_at):
            return False
        told.unreachable, told.next_try_at = state.last_error, state.next_try_at
        return True

    def _guarded(self, told: Told, act: Callable[[], None], *, is_full: bool = False) -> None:
        """Do it, and note whether the server could be reached."""
        kit = self._kit
        try:
            act()
        except RemoteUnavailableError as error:
            asked_s, why = error.retry_after_s, error.message

            def failed(state: State) -> State:
                count = state.failures + 1
                now = kit.now()
                return replace(
                    state,
                    failures=count,
                    failed_at=now,
                    last_error=why,
                    next_try_at=later(now, pause_s(count, kit.random(), asked_s)),
                )

            state = kit.pending.change_state(failed)
            told.unreachable, told.next_try_at = why, state.next_try_at
            return

        def reached(state: State) -> State:
            new = replace(state, failures=0, failed_at="", last_error="", next_try_at="")
            new = replace(new, url=kit.cursors.url, user=kit.cursors.user)
            if (new.url, new.user) != (state.url, state.user) and not is_full:
                new = replace(new, change=0)
            return replace(new, synced_at=kit.now()) if is_full else new

        kit.pending.change_state(reached)


_SENDS = frozenset((Operation.PUSH, Operation.REPLACE, Operation.MERGE, Operation.PARKED))
_FETCHES = frozenset((Operation.FETCH, Operation.PULL, Operation.MERGE))


def _waiting(entries: Mapping[str, Entry], unscrubbed: Iterable[str]) -> tuple[Entry, ...]:
    """What waits, what waits for a person to scrub it again among it."""
    again = {
        one: Entry(one, "replace", parked="held", last_error=LOST_SCRUB, found=(LOST_SCRUB,))
        for one in unscrubbed
    }
    return tuple({**entries, **again}.values())
