"""Bugs, each a small change of one function, that the simulation of sync must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec.structs import replace

from sync.simulated_network import Request
from sync.simulated_server import SimulatedServer
from treadle.core.messages import Message
from treadle.server import search
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.store import record_adoption
from treadle.sync import reconciliation, shareable_thread, sync_round
from treadle.sync.cursors import Cursors
from treadle.thread import merge as merging
from treadle.thread.facts import Merged
from treadle.thread.record import GENESIS, Head, Record, encode_batch, scan_journal
from treadle.thread.scrub import ScrubbedJournal


@contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """With another value of an attribute."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _merge_drops_a_record() -> Iterator[None]:
    merge = reconciliation.make_merge_record

    def shorter(*given: Any) -> Merged | None:
        found = merge(*given)
        return found and replace(found, records=found.records[:-1])

    with changed(reconciliation, "make_merge_record", shorter):
        yield


@contextmanager
def _merge_is_forgotten() -> Iterator[None]:
    with changed(reconciliation, "make_merge_record", lambda *given: None):
        yield


@contextmanager
def _branch_out_of_order() -> Iterator[None]:
    merge = reconciliation.make_merge_record

    def backwards(*given: Any) -> Merged | None:
        found = merge(*given)
        return found and replace(found, records=found.records[::-1])

    with changed(reconciliation, "make_merge_record", backwards):
        yield


@contextmanager
def _branch_is_merged_twice() -> Iterator[None]:
    behind = reconciliation._append_event

    def twice(kit: Any, data: bytes, last: Record, event: bytes | None) -> bytes:
        once = behind(kit, data, last, event)
        return once if event is None else behind(kit, once, scan_journal(once).records[-1], event)

    with changed(reconciliation, "_append_event", twice):
        yield


@contextmanager
def _chain_is_broken() -> Iterator[None]:
    def beside(kit: Any, data: bytes, last: Record, event: bytes | None) -> bytes:
        head = Head(last.seq, GENESIS, last.at)
        return data if event is None else data + encode_batch(head, kit.now(), [event])[0]

    with changed(reconciliation, "_append_event", beside):
        yield


@contextmanager
def _scrubbed_text_stands() -> Iterator[None]:
    """What the server has stays as it is when a scrub of ours is put behind it."""
    rechained = reconciliation.replace_events

    def unchanged(data: bytes, _changed: Any) -> ScrubbedJournal:
        return rechained(data, lambda one, _before, _after: bytes(one.event))

    with changed(reconciliation, "replace_events", unchanged):
        yield


@contextmanager
def _result_comes_as_a_note_too() -> Iterator[None]:
    """What both sides have of a round is told again with what only one of them has."""
    messages = merging._Branch.list_messages

    def all_of_them(self: Any) -> list[Message]:
        self._answered = set()
        return messages(self)

    with changed(merging._Branch, "list_messages", all_of_them):
        yield


@contextmanager
def _private_is_not_looked_at() -> Iterator[None]:
    """Whoever sends believes what was planned, and does not look under the lock."""
    with (
        changed(shareable_thread, "_refuse_private", lambda store, thread_id, one: None),
        changed(
            sync_round.ThreadComparer, "is_private", lambda self, thread_id, is_acked=False: False
        ),
    ):
        yield


@contextmanager
def _acknowledged_before_the_commit() -> Iterator[None]:
    """The server answers a push first, and dies before it has committed."""
    handle = SimulatedServer.handle

    def hasty(self: SimulatedServer, request: Request, *rest: Any) -> Any:
        if request.name != "push" or self.ticks % 7:
            return handle(self, request, *rest)
        self.ticks += 1
        said: list[Any] = []

        def work(connection: Any) -> None:
            context = threads_context(self, connection)
            said.append(threads.push_records(context, request.thread, request.mark, request.body))
            raise _Never

        try:
            self.database.run(work, is_write=True)
        except _Never:
            return said[0]
        except Refusal:
            return handle(self, request, *rest)

    with changed(SimulatedServer, "handle", hasty):
        yield


class _Never(Exception):  # noqa: N818
    pass


def threads_context(server: SimulatedServer, connection: Any) -> Any:
    """The owner's request."""
    from server.people import at
    from treadle.server.context import Context

    return Context(connection, server.people["owner"], at(server.ticks))


@contextmanager
def _cursor_ahead_of_the_acknowledgement() -> Iterator[None]:
    """The cursor says at once that all there is was acknowledged."""
    push = sync_round.SyncRound._OPERATION_METHODS

    def hasty(self: Any, thread_id: str, head: Any) -> None:
        with shareable_thread.open_shareable(self._context.store, thread_id) as thread:
            cursor = self._context.cursors.get(thread_id) or self._context.cursors.new()
            end = thread.head
            self._context.cursors.put(
                thread_id,
                replace(cursor, seq=end.seq, hash=end.hash, size=end.size, seen_seq=end.seq,
                        seen_hash=end.hash) if hasattr(cursor, "seen_seq")
                else replace(cursor, seq=end.seq, hash=end.hash, size=end.size),
            )  # fmt: skip
        push[sync_round.SyncOperation.PUSH](self, thread_id, head)

    acts = {**push, sync_round.SyncOperation.PUSH: hasty}
    with changed(sync_round.SyncRound, "_OPERATION_METHODS", acts):
        yield


@contextmanager
def _cursor_is_never_written() -> Iterator[None]:
    with changed(Cursors, "put", lambda self, thread_id, cursor: None):
        yield


@contextmanager
def _pull_leaves_the_last_write_out() -> Iterator[None]:
    writes_of = record_adoption.split_writes
    with changed(record_adoption, "split_writes", lambda data: list(writes_of(data))[:-1]):
        yield


@contextmanager
def _scrub_lets_ids_go() -> Iterator[None]:
    """What names a record for good names it by the hash it has now."""
    with changed(Record, "id", property(lambda self: self.hash)):
        yield


@contextmanager
def _fork_loses_its_last_record() -> Iterator[None]:
    ensure_thread = reconciliation.ensure_thread

    def shorter(store: Any, fork: str, data: bytes, **how: Any) -> None:
        ensure_thread(store, fork, b"".join(data.splitlines(keepends=True)[:-1]), **how)

    with changed(reconciliation, "ensure_thread", shorter):
        yield


@contextmanager
def _search_keeps_scrubbed_texts() -> Iterator[None]:
    with changed(search, "erase_texts", lambda *_: None):
        yield


PLANTED: Final[dict[str, Callable[[], Any]]] = {
    "merge drops a record": _merge_drops_a_record,
    "merge is forgotten": _merge_is_forgotten,
    "branch out of order": _branch_out_of_order,
    "branch is merged twice": _branch_is_merged_twice,
    "chain is broken": _chain_is_broken,
    "scrubbed text stands": _scrubbed_text_stands,
    "result comes as a note too": _result_comes_as_a_note_too,
    "private is not looked at": _private_is_not_looked_at,
    "acknowledged before the commit": _acknowledged_before_the_commit,
    "cursor ahead of the acknowledgement": _cursor_ahead_of_the_acknowledgement,
    "cursor is never written": _cursor_is_never_written,
    "pull leaves the last write out": _pull_leaves_the_last_write_out,
    "scrub lets ids go": _scrub_lets_ids_go,
    "fork loses its last record": _fork_loses_its_last_record,
    "search keeps scrubbed texts": _search_keeps_scrubbed_texts,
}
"""Each is found by some run of `Simulation`; as what, the test of it prints."""

HEALED: Final = frozenset({"acknowledged before the commit"})
"""The next syncs heal these: they are seen near the end of runs, so in many short ones."""
