"""One round of a sync: what is known of each thread, what follows from it, and doing that.

One thread's trouble is no other's: only a server that cannot be reached, or does not know its
caller, ends a round. What can be asked for again is safe to be asked for again, so that a round
that was stopped anywhere is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from threading import Lock
from typing import Final

from msgspec.structs import replace

from treadle.api.codes import Code
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.errors import (
    NotLoggedInError,
    PrivateThreadError,
    RemoteBrokenError,
    RemoteConflictError,
    RemoteRefusedError,
    RemoteUnavailableError,
    SecretFoundError,
    StorageBusyError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
)
from treadle.sync.conflicts import bring_together, forget_scrub, note_scrubbed
from treadle.sync.context import Kit, OnConflict, Problem, Told
from treadle.sync.cursors import Cursor
from treadle.sync.decision import Here, Operation, decide
from treadle.sync.failures import Notes
from treadle.sync.heads import is_purged
from treadle.sync.journal_comparison import Relation
from treadle.sync.pulling import Taken, put_away, take_in
from treadle.sync.pushing import push_all, refuse_secrets, replace_all, send_anew
from treadle.sync.read_ahead import ReadAhead
from treadle.sync.refusals import LOST_SCRUB, removed_with, why_refused
from treadle.sync.send_queue import Conflict, Entry, Sending, with_conflict
from treadle.sync.shareable import ShareableThread, shareable
from treadle.sync.survey import Survey, Wish, end_of
from treadle.sync.sync_order import in_order
from treadle.thread.record import Head

TRIES: Final = 5
"""So often a thread is brought together with the server's within a round, while that goes on."""

BROKEN_MAX: Final = 3
"""So many answers may break off in a round, each for its own thread; then it is the server."""

_SENDING: Final[Mapping[Operation, Sending]] = {
    Operation.PUSH: "upsert",
    Operation.REPLACE: "replace",
    Operation.PURGE: "delete",
    Operation.MERGE: "upsert",
}
_GOES_ON: Final = "another machine has gone on with it; it is brought together when it is not open"


class Round:
    """One round.

    Args:
        kit: the parts.
        told: what is reported.
        wish: how it was asked for.
        on_conflict: what becomes of our branch where both have gone on.
        may_write: whether threads here may be changed; otherwise they are only sent.
    """

    def __init__(
        self,
        kit: Kit,
        told: Told,
        wish: Wish,
        on_conflict: OnConflict = "merge",
        *,
        may_write: bool = True,
    ) -> None:
        self._kit = kit
        self._told = told
        self._wish = wish
        self._how = on_conflict
        self._may_write = may_write
        self._survey = Survey(kit.store)
        self._notes = Notes(kit, told)
        self._entries: dict[str, Entry] = {}
        self._broken_count = 0
        self._left: frozenset[str] = frozenset()
        self._at = ""
        """The thread that is being worked on."""
        self._arrivals: ReadAhead[list[Taken]]

    def leave(self, thread_ids: Iterable[str]) -> None:
        """These are left alone in this round; what hangs on them waits."""
        self._left = frozenset(thread_ids)
        self._notes.failed |= self._left

    def run(self, thread_ids: Iterable[str], heads: Mapping[str, ThreadHead]) -> None:
        """Do what is to be done about these threads.

        Args:
            thread_ids: the threads.
            heads: where the server says that threads are, if it has just said so.

        Raises:
            RemoteUnavailableError: the server cannot be reached; what is left is noted.
            NotLoggedInError: the server does not know the caller.
            DiskError: what is to be sent cannot be noted.
        """
        self._entries = self._kit.pending.entries()
        plan = self._plan((one for one in thread_ids if one not in self._left), heads)
        busy = [one for one, what in plan.items() if what is not Operation.NOTHING]
        wanted = {one: _SENDING[what] for one, what in plan.items() if what in _SENDING}
        self._notes.begin(wanted)
        for one, what in plan.items():
            if what is Operation.NOTHING:
                self._notes.done(one)
        folders = self._kit.store.folders
        here = {*folders.ids(), *folders.ids(in_trash=True)}
        order = list(in_order(plan, here, self._survey))
        fetched = [one for one in order if plan[one] is Operation.FETCH]
        take = partial(take_in, self._kit, dict[str, Lock]())
        self._arrivals = ReadAhead(take, fetched, self._kit.fetches_at_a_time)
        done = 0
        try:
            with self._arrivals:
                for thread_id in order:
                    self._at = thread_id
                    self._attempt(thread_id, plan[thread_id], heads.get(thread_id))
                    if plan[thread_id] is not Operation.NOTHING:
                        done += 1
                        self._kit.progress(done, len(busy))
            self._tell_unscrubbed(plan)
        except RemoteUnavailableError as error:
            self._notes.fail(self._at, error.message)
            raise
        finally:
            self._notes.end()

    def _plan(
        self, thread_ids: Iterable[str], heads: Mapping[str, ThreadHead]
    ) -> dict[str, Operation]:
        plan: dict[str, Operation] = {}
        unscrubbed = self._kit.pending.state().unscrubbed
        for thread_id in dict.fromkeys(thread_ids):
            cursor = self._kit.cursors.get(thread_id)
            entry = self._entries.get(thread_id)
            facts = self._survey.facts(thread_id, cursor, heads.get(thread_id), entry, self._wish)
            plan[thread_id] = decide(facts)
            # What was refused when it was to be fetched is not asked for again by itself.
            is_refused = cursor is not None and cursor.is_refused and thread_id not in heads
            if plan[thread_id] is Operation.FETCH and is_refused and not self._wish.is_wanted:
                plan[thread_id] = Operation.NOTHING
            # What was scrubbed in vain is sent on nobody's word but a person's.
            is_held = thread_id in unscrubbed and not self._wish.is_wanted
            if plan[thread_id] is Operation.PUSH and is_held:
                plan[thread_id] = Operation.NOTHING
            if facts.here is Here.PRIVATE:
                self._told.private_count += 1
        return plan

    # ---- one thread --------------------------------------------------------------------------

    def _attempt(self, thread_id: str, operation: Operation, head: ThreadHead | None) -> None:
        act = self._ACTS.get(operation)
        if act is None:
            return
        try:
            if operation in _SENDING:
                self._refuse_orphan(thread_id)
            act(self, thread_id, head)
        except RemoteBrokenError as error:
            self._broken_count += 1
            if self._broken_count > BROKEN_MAX:
                raise
            self._remember(thread_id, head)
            self._notes.wait(thread_id, error.message)
        except (RemoteUnavailableError, NotLoggedInError):
            raise
        except PrivateThreadError:
            self._told.private_count += 1
            self._notes.done(thread_id)
        except SecretFoundError as error:
            self._notes.park(thread_id, "held", error.message, self._end(thread_id), error.found)
        except RemoteRefusedError as error:
            self._remember(thread_id, head, is_refused=operation is Operation.FETCH)
            why = why_refused(error, self._survey.relatives(thread_id).base)
            self._notes.park(thread_id, "refused", why, self._end(thread_id))
        except (ThreadBusyError, StorageBusyError) as error:
            self._remember(thread_id, head)
            self._notes.wait(thread_id, error.message, is_failure=False)
        except TreadleError as error:
            self._remember(thread_id, head)
            self._notes.wait(thread_id, error.message)
        except Exception as error:  # noqa: BLE001  a fault of ours in one thread is no other's
            self._remember(thread_id, head)
            self._notes.wait(thread_id, f"a fault in Treadle: {type(error).__name__}: {error}")

    def _refuse_orphan(self, thread_id: str) -> None:
        """What a thread hangs on goes first: without it the server cannot fold the thread."""
        for one in self._survey.relatives(thread_id).ids:
            if one in self._notes.failed:
                raise StorageBusyError(f"it is sent after {one}, which it hangs on")

    def _push(self, thread_id: str, head: ThreadHead | None = None) -> None:
        for _ in range(TRIES):
            cursor = self._kit.cursors.get(thread_id) or self._kit.cursors.new()
            try:
                self._push_once(thread_id, cursor)
                self._told.add("sent", thread_id)
                self._notes.done(thread_id)
                return
            except RemoteConflictError as error:
                if not error.seq and cursor.seq:
                    if not self._begins_anew(thread_id):
                        return
                    continue
                seen = replace(cursor, seen_seq=error.seq, seen_hash=error.hash)
                self._kit.cursors.put(thread_id, replace(seen, is_purged=False))
            except UnknownThreadError:
                pass  # the journal was replaced meanwhile
            if not self._may_write or self._kit.store.find_holder(thread_id) is not None:
                raise StorageBusyError(_GOES_ON)
            if not self._bring(thread_id):
                return
        raise StorageBusyError("other machines go on with it all the time")

    def _push_once(self, thread_id: str, cursor: Cursor) -> None:
        known = Head(cursor.seq, cursor.hash, "", cursor.size) if cursor.size else Head()
        with shareable(self._kit.store, thread_id, known) as thread:
            refuse_secrets(self._kit, thread, cursor.acked)
            self._tell_all(push_all(self._kit, thread, cursor))

    def _replace(self, thread_id: str, head: ThreadHead | None = None) -> None:
        kit = self._kit
        for _ in range(TRIES):
            cursor = kit.cursors.get(thread_id) or kit.cursors.new()
            try:
                with shareable(kit.store, thread_id) as thread:
                    refuse_secrets(kit, thread, Mark())
                    self._tell_all(_replaced(kit, thread, cursor))
                self._told.add("replaced", thread_id)
                self._notes.done(thread_id)
                note_scrubbed(self._kit, thread_id)
                return
            except RemoteConflictError as error:
                if not error.seq and cursor.seq:
                    if self._begins_anew(thread_id):
                        self._push(thread_id)
                    return
                seen = replace(cursor, seen_seq=error.seq, seen_hash=error.hash)
                kit.cursors.put(thread_id, seen)
                if not self._may_write or kit.store.find_holder(thread_id) is not None:
                    raise StorageBusyError(_GOES_ON) from error
                if not self._bring(thread_id):
                    return
        raise StorageBusyError("other machines go on with it all the time")

    def _purge(self, thread_id: str, head: ThreadHead | None = None) -> None:
        self._kit.remote.purge(thread_id)
        self._kit.cursors.remove(thread_id)
        forget_scrub(self._kit, thread_id)
        if (private := self._survey.private_above(thread_id)) is not None:
            self._told.add("notes", removed_with(thread_id, private))
        self._told.add("removed", thread_id)
        self._notes.done(thread_id)

    def _fetch(self, thread_id: str, head: ThreadHead | None = None) -> None:
        taken = self._arrivals.take(thread_id)
        if any(one.is_trashed for one in taken):
            self._arrivals.wait()
        for one in taken:
            self._tell_all(one.notes)
            self._told.add("received", one.thread_id)
        for one in filter(lambda one: one.is_trashed, taken):
            put_away(self._kit, one)

    def _pull(self, thread_id: str, head: ThreadHead | None = None) -> None:
        if not self._may_write:
            raise StorageBusyError(_GOES_ON)
        try:
            has_more = self._bring(thread_id)
        except RemoteRefusedError as error:
            if error.code != Code.NOT_FOUND.value:
                raise
            has_more = self._begins_anew(thread_id)
        if has_more:
            self._push(thread_id)

    def _begins_anew(self, thread_id: str) -> bool:
        """The server has nothing of what it had. Unless it was removed, all of it is sent again.

        An older backup that was put back has not got it; only its head says that it was removed.
        """
        if is_purged(self._kit, thread_id):
            self._tell_purged(thread_id)
            return False
        self._kit.cursors.put(thread_id, self._kit.cursors.new())
        return True

    def _bring(self, thread_id: str) -> bool:
        """Bring a thread together with the server's; whether ours has more then."""
        kit = self._kit
        cursor = kit.cursors.get(thread_id) or kit.cursors.new()
        found = bring_together(kit, thread_id, cursor, self._how)
        self._tell_all(found.notes)
        self._survey = Survey(kit.store)
        if found.received_count:
            self._told.add("received", thread_id)
        if found.conflict is not None:
            self._note_conflict(found.conflict, is_again=found.is_again)
        if found.relation is Relation.SCRUBBED_HERE:
            new = replace(cursor, seen_seq=found.server.seq, seen_hash=found.server.hash)
            kit.cursors.put(thread_id, new)
            self._replace(thread_id)
            return False
        is_deleted = kit.store.load(thread_id).fold.is_trashed
        kit.cursors.put(
            thread_id,
            replace(
                kit.cursors.new(),
                seq=found.server.seq,
                hash=found.server.hash,
                size=found.size,
                is_deleted=is_deleted,
            ),
        )
        if found.has_lost_scrub:
            return False
        if found.conflict is not None and found.conflict.fork:
            self._push_fork(found.conflict.fork)
        has_more = found.relation is Relation.AHEAD or (
            found.conflict is not None and not found.conflict.fork
        )
        if not has_more:
            self._notes.done(thread_id)
        return has_more

    def _push_fork(self, fork: str) -> None:
        """What became a thread of its own is sent too; if that fails, with the next round."""
        self._notes.begin({fork: "upsert"})
        self._attempt(fork, Operation.PUSH, None)

    def _tell_purged(self, thread_id: str, head: ThreadHead | None = None) -> None:
        cursor = replace(self._kit.cursors.new(), is_purged=True)
        self._kit.cursors.put(thread_id, cursor)
        self._notes.done(thread_id)
        self._told.add(
            "notes",
            f"{thread_id} was removed from the server for good; it stays here, and is sent again "
            f"by `treadle sync {thread_id}` only",
        )

    def _tell_unreadable(self, thread_id: str, head: ThreadHead | None = None) -> None:
        why = f"it cannot be read: `treadle verify {thread_id}` says why"
        self._told.add("waiting", Problem(thread_id, why))

    def _tell_waiting(self, thread_id: str, head: ThreadHead | None = None) -> None:
        self._remember(thread_id, head)
        self._told.add("waiting", Problem(thread_id, _GOES_ON))

    def _tell_parked(self, thread_id: str, head: ThreadHead | None = None) -> None:
        entry = self._entries[thread_id]
        self._notes.failed.add(thread_id)
        problem = Problem(thread_id, entry.last_error, entry.found)
        self._told.add("held" if entry.parked == "held" else "refused", problem)

    # ---- what is noted -----------------------------------------------------------------------

    def _end(self, thread_id: str) -> Head:
        try:
            path, _ = self._kit.store.folders.find(thread_id)
        except UnknownThreadError:
            return Head()
        return end_of(self._kit.store.folders.disk, path) or Head()

    def _remember(
        self, thread_id: str, head: ThreadHead | None, *, is_refused: bool = False
    ) -> None:
        """Where the server was seen to be, for the next round: it is not told again."""
        cursor = self._kit.cursors.get(thread_id) or self._kit.cursors.new()
        if head is None or head.is_purged:
            if is_refused:
                self._kit.cursors.put(thread_id, replace(cursor, is_refused=True))
            return
        seen = replace(
            cursor,
            seen_seq=head.version,
            seen_hash=head.hash,
            is_deleted=head.is_deleted,
            is_purged=False,
            is_refused=is_refused,
        )
        self._kit.cursors.put(thread_id, seen)

    def _note_conflict(self, conflict: Conflict, *, is_again: bool) -> None:
        state = self._kit.pending.change_state(lambda one: with_conflict(one, conflict, is_again))
        told = self._told.lists.setdefault("conflicts", [])
        told[:] = [one for one in told if not is_again or one.thread_id != conflict.thread_id]
        self._told.add("conflicts", state.conflicts[-1])

    def _tell_unscrubbed(self, thread_ids: Container[str]) -> None:
        for one in self._kit.pending.state().unscrubbed:
            if one in thread_ids:
                self._told.add("held", Problem(one, LOST_SCRUB, (LOST_SCRUB,)))

    def _tell_all(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._told.add("notes", note)

    _ACTS: Final[Mapping[Operation, Callable[[Round, str, ThreadHead | None], None]]] = {
        Operation.PUSH: _push,
        Operation.REPLACE: _replace,
        Operation.PURGE: _purge,
        Operation.FETCH: _fetch,
        Operation.PULL: _pull,
        Operation.MERGE: _pull,
        Operation.TELL_PURGED: _tell_purged,
        Operation.TELL_UNREADABLE: _tell_unreadable,
        Operation.WAIT: _tell_waiting,
        Operation.PARKED: _tell_parked,
    }


def _replaced(kit: Kit, thread: ShareableThread, cursor: Cursor) -> tuple[str, ...]:
    """Put a scrubbed journal in the place of the server's, in pieces if it must be."""
    try:
        return replace_all(kit, thread, cursor)
    except RemoteConflictError:
        raise
    except RemoteRefusedError as error:
        if error.code != Code.TOO_LARGE.value:
            raise
        return send_anew(kit, thread, cursor)
