"""What every `Remote` must do: asserted of the server in memory, and of the real one on a socket.

So what the engine is tested with is no kinder than what it meets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any, Final

import pytest

from core.samples import answer, call, ended, said, success
from store.shelf import CREATOR, fill
from sync.desk import Machine
from sync.planted import changed
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.core.events import ToolStarted
from treadle.errors import RemoteConflictError, RemoteRefusedError, UnknownThreadError
from treadle.store.upkeep.scrub import scrub
from treadle.sync import client
from treadle.sync import shareable_thread as sending
from treadle.sync.ports import Remote, Sendable
from treadle.sync.shareable_thread import ShareableThread, open_shareable
from treadle.thread.facts import Annotated, PrivacySet
from treadle.thread.record import scan_journal

TALK: Final = ((said("one"),), (answer("first"),))
MORE: Final = ((said("two"),), (answer("second"),))
SECRET: Final = "hunter2"
BODY_SIZE_MAX: Final = 100_000
"""What the servers take at a time."""


def sent(machine: Machine, thread: str) -> AbstractContextManager[ShareableThread]:
    return open_shareable(machine.store, thread)


def push(remote: Remote, machine: Machine, thread: str, base: Mark | None = None) -> ThreadHead:
    with sent(machine, thread) as found:
        return remote.push(found, base or Mark())


def mark_of(head: ThreadHead) -> Mark:
    return Mark(head.version, head.hash)


def own_mark(machine: Machine, thread: str) -> Mark:
    end = scan_journal(machine.journal(thread)).head
    return Mark(end.seq, end.hash)


def stored(remote: Remote, thread: str, after: Mark | None = None) -> bytes:
    return b"".join(remote.records(thread, after or Mark()))


def copy_of(machine: Machine, thread: str, remote: Remote, number: int) -> Machine:
    """Another machine that has a thread as it stands."""
    other = Machine(remote, number)
    other.store.adopt(machine.journal(thread), is_mine=True)
    return other


def conflict(act: Callable[[], object]) -> Mark:
    with pytest.raises(RemoteConflictError) as caught:
        act()
    return Mark(caught.value.seq, caught.value.hash)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(RemoteRefusedError) as caught:
        act()
    assert not isinstance(caught.value, RemoteConflictError)
    return caught.value.code


def what_is_pushed_is_there_byte_for_byte_and_again_is_the_same(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(*TALK)
    head = push(remote, one, thread)
    assert mark_of(head) == own_mark(one, thread)
    assert stored(remote, thread) == one.journal(thread)
    assert mark_of(push(remote, one, thread)) == mark_of(head)
    one.go_on(thread, *MORE)
    longer = push(remote, one, thread, mark_of(head))
    assert stored(remote, thread, mark_of(head)) == one.journal(thread)[-len(_tail(one, head)) :]
    assert longer.change > head.change
    assert mark_of(push(remote, one, thread)) == mark_of(longer), "its first answer was lost"
    assert mark_of(push(remote, one, thread, mark_of(longer))) == mark_of(longer), "nothing to send"


def _tail(machine: Machine, head: ThreadHead) -> bytes:
    return b"".join(machine.journal(head.thread).splitlines(keepends=True)[head.version :])


def who_is_behind_hears_where_the_thread_is(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(*TALK)
    base = mark_of(push(remote, one, thread))
    two = copy_of(one, thread, remote, 2)
    one.go_on(thread, *MORE)
    stands = mark_of(push(remote, one, thread, base))
    two.go_on(thread, (said("other"),))
    assert conflict(lambda: push(remote, two, thread, base)) == stands
    assert conflict(lambda: push(remote, two, thread)) == stands
    assert conflict(lambda: stored(remote, thread, own_mark(two, thread))) == stands
    assert stored(remote, thread) == one.journal(thread)


def a_thread_that_the_server_has_not_got_is_at_the_beginning(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(*TALK)
    other = one.begin(*TALK)
    first = Mark(1, scan_journal(one.journal(thread)).records[0].hash)
    assert conflict(lambda: push(remote, one, thread, first)) == Mark()
    assert refusal(lambda: stored(remote, other)) == "not_found"
    remote.purge(other)


def what_was_scrubbed_replaces_what_was_there(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin((said(f"it is {SECRET}"),), (answer("I see"),))
    base = mark_of(push(remote, one, thread))
    scrub(one.store, [thread], lambda text: text.replace(SECRET, "[REDACTED:x]"))
    with sent(one, thread) as found:
        other = Mark(base.seq, "0" * 31 + "1")
        assert conflict(lambda: remote.replace(found, other)) == base
        head = remote.replace(found, base)
        assert mark_of(remote.replace(found, base)) == mark_of(head)
    assert stored(remote, thread) == one.journal(thread)
    assert conflict(lambda: stored(remote, thread, base)) == mark_of(head)


def what_was_purged_is_gone_and_can_be_sent_again(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(*TALK)
    base = mark_of(push(remote, one, thread))
    before = remote.heads(0).change
    remote.purge(thread)
    remote.purge(thread)
    [head] = remote.heads(before).heads
    assert (head.thread, head.is_purged) == (thread, True)
    assert refusal(lambda: stored(remote, thread)) == "not_found"
    one.go_on(thread, *MORE)
    assert conflict(lambda: push(remote, one, thread, base)) == Mark()
    assert mark_of(push(remote, one, thread)) == own_mark(one, thread)
    [head] = remote.heads(before).heads
    assert not head.is_purged


def changes_are_listed_once_each_in_their_order(remote: Remote) -> None:
    one = Machine(remote)
    threads = [one.begin((said("hello"),)) for _ in range(7)]
    heads = [push(remote, one, thread) for thread in threads]
    one.go_on(threads[0], (answer("hi"),))
    last = push(remote, one, threads[0], mark_of(heads[0]))
    found: list[ThreadHead] = []
    after = 0
    while True:
        page = remote.heads(after)
        found += page.heads
        after = page.change
        if page.is_last:
            break
    assert [one.thread for one in found] == [*threads[1:], threads[0]]
    assert mark_of(found[-1]) == mark_of(last)
    assert [one.change for one in found] == sorted({one.change for one in found})
    assert after >= found[-1].change
    assert remote.heads(after).heads == ()


def the_trash_is_told(remote: Remote) -> None:
    from treadle.store.upkeep.trash import Trash

    one = Machine(remote)
    thread = one.begin(*TALK)
    base = mark_of(push(remote, one, thread))
    Trash(one.store).put([thread])
    push(remote, one, thread, base)
    assert [head.is_deleted for head in remote.heads(0).heads] == [True]
    assert stored(remote, thread) == one.journal(thread)


def a_fork_needs_its_base_there(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(*TALK)
    writer = one.store.fork(thread, creator=CREATOR)
    fill(writer, *MORE)
    writer.close()
    fork = writer.thread_id
    assert refusal(lambda: push(remote, one, fork)) == "unfoldable"
    push(remote, one, thread)
    push(remote, one, fork)
    assert stored(remote, fork) == one.journal(fork)


def large_outputs_are_kept_with_their_thread(remote: Remote) -> None:
    one = Machine(remote)
    writer = one.store.create(CREATOR)
    thread = writer.thread_id
    ref = writer.keep(b"x" * 3000)
    from msgspec.structs import replace

    result = replace(success("a", "cut"), blob=ref)
    batches: tuple[tuple[Any, ...], ...] = (
        (said("do"),),
        (answer("", call("a", "edit")), ToolStarted("a", "t")),
        (ended("a", result),),
    )
    fill(writer, *batches)
    writer.close()
    name = sha256(b"x" * 3000).hexdigest()
    with sent(one, thread) as found:
        assert refusal(lambda: remote.put_blob(found, name)) == "not_found"
        remote.push(found, Mark())
        assert remote.get_blob(thread, name) is None
        remote.put_blob(found, name)
        remote.put_blob(found, name)
    assert remote.get_blob(thread, name) == b"x" * 3000


class Private:
    """What nothing in this program would send: a thread that says that it is private."""

    def __init__(self, machine: Machine, thread: str) -> None:
        self.thread_id = thread
        self._data = machine.journal(thread)

    def lines(self, after: Mark) -> Any:
        yield self._data

    def blob(self, sha256: str) -> bytes:
        raise UnknownThreadError(sha256)


def what_says_that_it_is_private_is_refused(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(is_private=True)
    unlawful: Sendable = Private(one, thread)
    assert refusal(lambda: remote.push(unlawful, Mark())) == "is_private"
    assert refusal(lambda: stored(remote, thread)) == "not_found"


def two_machines_come_together(remote: Remote) -> None:
    one, two = Machine(remote, 1), Machine(remote, 2)
    thread = one.begin(*TALK)
    one.engine.sync()
    two.engine.sync()
    one.go_on(thread, (said("mine"),), (answer("yes"),))
    two.go_on(thread, (said("other"),), (answer("no"),))
    one.engine.sync()
    assert two.engine.sync().is_complete
    one.engine.sync()
    assert one.journal(thread) == two.journal(thread) == stored(remote, thread)
    assert one.said(thread) == ["one", "first", "mine", "yes", "other", "no"]


@contextmanager
def small_pieces() -> Iterator[None]:
    """Records leave in requests of a few kilobytes."""
    with changed(sending, "PIECE_SIZE", 4000), changed(client, "PUSH_SIZE", 4000):
        yield


def what_was_private_is_sent_to_where_it_is_not_and_no_piece_ends_before(remote: Remote) -> None:
    one, two = Machine(remote, 1), Machine(remote, 2)
    notes = tuple((Annotated(f"{number} " + "x" * 500),) for number in range(20))
    began = one.begin(*notes, is_private=True)
    one.go_on(began, (PrivacySet(False),), *notes, (PrivacySet(True),), *notes)
    one.go_on(began, (PrivacySet(False),), *notes)
    with small_pieces():
        report = one.engine.sync()
        assert (report.sent, report.refused) == ((began,), ())
        one.go_on(began, (PrivacySet(True),), *notes, (PrivacySet(False),), *notes)
        assert one.engine.sync().sent == (began,)
    assert stored(remote, began) == one.journal(began)
    assert two.engine.sync().received == (began,)


def a_scrubbed_thread_that_is_longer_than_a_body_may_be_goes_in_pieces(remote: Remote) -> None:
    one, two = Machine(remote, 1), Machine(remote, 2)
    notes = tuple((Annotated(f"{number} " + "x" * 900),) for number in range(BODY_SIZE_MAX // 600))
    thread = one.begin((said(f"it is {SECRET}"),), *notes)
    with small_pieces():
        assert one.engine.sync().sent == (thread,)
        two.engine.sync()
        scrub(one.store, [thread], lambda text: text.replace(SECRET, "[REDACTED:x]"))
        report = one.engine.sync()
        assert (report.replaced, report.unreachable) == ((thread,), "")
        assert stored(remote, thread) == one.journal(thread)
        assert SECRET.encode() not in stored(remote, thread)
        two.engine.sync()
    assert two.journal(thread) == one.journal(thread)


def a_write_that_is_longer_than_a_body_may_be_is_refused(remote: Remote) -> None:
    one = Machine(remote)
    thread = one.begin(*TALK, (Annotated("x" * BODY_SIZE_MAX),))
    with small_pieces():
        [problem] = one.engine.sync().refused
    assert problem.thread_id == thread
    assert "--body-max" in problem.why


RULES: Final[tuple[Callable[[Remote], None], ...]] = (
    what_is_pushed_is_there_byte_for_byte_and_again_is_the_same,
    who_is_behind_hears_where_the_thread_is,
    a_thread_that_the_server_has_not_got_is_at_the_beginning,
    what_was_scrubbed_replaces_what_was_there,
    what_was_purged_is_gone_and_can_be_sent_again,
    changes_are_listed_once_each_in_their_order,
    the_trash_is_told,
    a_fork_needs_its_base_there,
    large_outputs_are_kept_with_their_thread,
    what_says_that_it_is_private_is_refused,
    what_was_private_is_sent_to_where_it_is_not_and_no_piece_ends_before,
    a_scrubbed_thread_that_is_longer_than_a_body_may_be_goes_in_pieces,
    a_write_that_is_longer_than_a_body_may_be_is_refused,
    two_machines_come_together,
)
"""Each is given a `Remote` of a server that has nothing."""
