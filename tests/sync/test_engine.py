"""What the engine sends and fetches, thread by thread, with a server that keeps the contract."""

from __future__ import annotations

import pytest

from core.samples import answer, call, ended, said
from core.samples import success as outcome
from store.shelf import CREATOR, fill
from sync.desk import Desk, Machine, unreachable
from treadle.api.marks import Mark
from treadle.core.events import ToolStarted
from treadle.core.messages import BlobRef
from treadle.core.tools import ToolExecutionOutcome
from treadle.errors import RemoteRefusedError
from treadle.store.send_lock import set_private
from treadle.store.upkeep.trash import Trash
from treadle.sync.engine import SyncEngine
from treadle.sync.send_queue import SyncState
from treadle.thread.branches import collect_record_ids
from treadle.thread.facts import Annotated, PrivacySet, Renamed
from treadle.thread.record import scan_journal

TALK = ((said("one"),), (answer("first"),))
MORE = ((said("two"),), (answer("second"),))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def machines(desk: Desk, count: int = 2) -> list[Machine]:
    return [Machine(desk.remote(), number) for number in range(1, count + 1)]


def pair(desk: Desk) -> tuple[Machine, Machine, str]:
    """Two machines that have one thread."""
    one, two = machines(desk)
    thread = one.begin(*TALK)
    assert one.engine.sync().sent == (thread,)
    assert two.engine.sync().received == (thread,)
    return one, two, thread


def test_a_thread_gets_to_the_server_and_to_another_machine_byte_for_byte(desk: Desk) -> None:
    one, two, thread = pair(desk)
    assert desk.kept[thread].data == one.journal(thread) == two.journal(thread)
    assert two.store.adopted.is_foreign(thread)
    assert not one.store.adopted.is_foreign(thread)
    assert one.pending.entries() == {}


def test_a_sync_with_nothing_new_asks_once_and_writes_one_file(desk: Desk) -> None:
    one, _, _ = pair(desk)
    desk.calls.clear()
    assert one.engine.sync().is_complete
    assert desk.calls == ["heads"]


def test_more_of_a_thread_is_sent_and_appended_and_nothing_else(desk: Desk) -> None:
    one, two, thread = pair(desk)
    before = len(one.journal(thread))
    desk.received.clear()
    one.go_on(thread, *MORE)
    assert one.engine.save_and_sync(thread).sent == (thread,)
    assert b"".join(desk.received) == thread.encode() + one.journal(thread)[before:]
    assert two.engine.sync().received == (thread,)
    assert two.journal(thread) == one.journal(thread)
    assert two.said(thread) == ["one", "first", "two", "second"]


def test_two_branches_become_one_everywhere_and_nothing_is_lost(desk: Desk) -> None:
    one, two, thread = pair(desk)
    one.go_on(thread, (said("mine"),), (answer("yes"),))
    two.go_on(thread, (said("other"),), (answer("no"),))
    lost = two.hashes(thread)
    one.engine.sync()
    report = two.engine.sync()
    assert [conflict.how for conflict in report.conflicts] == ["merge"]
    assert report.sent == (thread,)
    assert lost <= collect_record_ids(desk.records(thread))
    kept = report.conflicts[0].kept
    assert {record.hash for record in scan_journal(two.disk.read(kept)).records} == lost
    one.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    assert one.said(thread) == ["one", "first", "mine", "yes", "other", "no"]
    assert two.engine.status().conflicts == report.conflicts


def test_a_branch_becomes_a_thread_of_its_own_where_that_is_wanted(desk: Desk) -> None:
    one, two, thread = pair(desk)
    one.go_on(thread, (said("mine"),), (answer("yes"),))
    two.go_on(thread, (said("other"),), (answer("no"),))
    one.engine.sync()
    report = two.engine.sync(on_conflict="fork")
    [conflict] = report.conflicts
    assert conflict.how == "fork"
    assert two.journal(thread) == one.journal(thread)
    assert two.said(conflict.fork) == ["one", "first", "other", "no"]
    assert conflict.fork in report.sent
    assert one.engine.sync().received == (conflict.fork,)
    assert one.journal(conflict.fork) == two.journal(conflict.fork)


def test_a_fork_of_a_branch_that_gave_way_finds_its_base_in_what_was_kept(desk: Desk) -> None:
    one, two, thread = pair(desk)
    one.go_on(thread, (said("mine"),), (answer("yes"),))
    two.go_on(thread, (said("other"),), (answer("no"),))
    writer = two.store.fork(thread, creator=CREATOR)
    fork = writer.thread_id
    fill(writer, (said("on"),), (answer("and on"),))
    writer.close()
    one.engine.sync()
    report = two.engine.sync()
    for name in (f"{fork}.json", f"{thread}.json"):
        if name in two.disk.list("/home/data/threads"):
            two.disk.unlink(f"/home/data/threads/{name}")
    whole = ["one", "first", "other", "no", "on", "and on"]
    assert two.said(fork) == whole
    assert report.sent == (thread, fork)
    assert set(one.engine.sync().received) == {thread, fork}
    assert one.said(fork) == whole
    for machine in (one, two):
        machine.go_on(fork, (said("still"),))
        machine.engine.sync()
    assert one.engine.sync().refused == ()


def test_a_private_thread_is_never_spoken_of(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin((said("hush"),), is_private=True)
    for act in (lambda: one.engine.send(thread), lambda: one.engine.save_and_sync(thread)):
        report = act()
        assert (report.private_count, report.sent) == (1, ())
        assert desk.calls == []
    report = one.engine.sync()
    assert (desk.calls, report.private_count) == (["heads"], 1)
    assert one.pending.entries() == {}
    assert thread.encode() not in b"".join(desk.received)


def test_what_hangs_on_a_private_thread_stays_too(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin(*TALK)
    writer = one.store.fork(thread, creator=CREATOR)
    writer.close()
    child = one.store.create(CREATOR, parent=(writer.thread_id, "call", 1))
    child.close()
    assert set_private(one.store, thread)
    assert not set_private(one.store, thread)
    report = one.engine.sync()
    assert (report.private_count, desk.kept) == (3, {})
    assert set_private(one.store, thread, False)
    assert len(one.engine.sync().sent) == 3


def test_what_was_sent_is_removed_when_it_becomes_private(desk: Desk) -> None:
    one, two, thread = pair(desk)
    two.go_on(thread, *MORE)
    set_private(one.store, thread)
    assert one.engine.sync().removed == (thread,)
    assert desk.kept[thread].data == b""
    assert one.cursors.get(thread) is None
    report = two.engine.sync()
    assert report.sent == ()
    assert "removed from the server" in report.notes[0]
    assert two.engine.sync().notes == ()
    assert desk.kept[thread].data == b""
    assert two.engine.sync([thread]).sent == (thread,)
    assert desk.kept[thread].data == two.journal(thread)


def test_what_may_have_arrived_without_an_answer_is_removed_too(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin(*TALK)
    desk.after = unreachable
    assert one.engine.sync([thread]).unreachable
    assert one.engine.save_and_sync(thread).unreachable
    assert thread in desk.kept
    desk.after = lambda _what, _thread: None
    set_private(one.store, thread)
    assert one.engine.save_and_sync(thread).removed == (thread,)
    assert desk.kept[thread].data == b""


def test_the_trash_is_the_same_everywhere(desk: Desk) -> None:
    one, two, thread = pair(desk)
    Trash(one.store).put([thread])
    one.engine.sync()
    assert desk.kept[thread].is_deleted
    two.engine.sync()
    assert Trash(two.store).ids() == [thread]
    Trash(two.store).restore([thread])
    two.engine.sync()
    one.engine.sync()
    assert Trash(one.store).ids() == []
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data


def test_the_trash_comes_along_and_what_was_removed_from_it_here_does_not(desk: Desk) -> None:
    one, two, thread = pair(desk)
    Trash(one.store).put([thread])
    one.engine.sync()
    three = Machine(desk.remote(), 3)
    assert three.engine.sync().received == (thread,)
    assert Trash(three.store).ids() == [thread]
    for name in three.disk.list("/home/data/trash"):
        if name.startswith(thread):
            three.disk.unlink(f"/home/data/trash/{name}")
    three.pending.change_state(lambda _: SyncState())
    assert three.engine.sync().received == ()
    Trash(one.store).restore([thread])
    one.engine.sync()
    assert three.engine.sync().received == (thread,)
    assert two.engine.sync().is_complete


def test_a_thread_and_its_sub_agents_go_to_the_trash_without_a_conflict(desk: Desk) -> None:
    from treadle.thread.facts import ChildStarted

    one, two = machines(desk)
    thread = one.begin(*TALK)
    child = one.store.create(CREATOR, parent=(thread, "c", 1))
    child.close()
    one.go_on(thread, (ChildStarted("c", child.thread_id),))
    one.engine.sync()
    two.engine.sync()
    Trash(one.store).put([thread])
    one.engine.sync()
    report = two.engine.sync()
    assert (report.conflicts, report.sent) == ((), ())
    assert set(Trash(two.store).ids()) == {thread, child.thread_id}


def test_what_was_trashed_before_it_was_ever_sent_is_not_sent(desk: Desk) -> None:
    one, _ = machines(desk)
    Trash(one.store).put([one.begin(*TALK)])
    assert one.engine.sync().sent == ()
    assert desk.kept == {}


def test_large_outputs_travel_before_what_names_them_and_a_missing_one_stops_nothing(
    desk: Desk,
) -> None:
    one, two = machines(desk)
    writer = one.store.create(CREATOR)
    ref = writer.keep(b"x" * 1000)
    gone = BlobRef("0" * 64, 5)
    result = outcome("a", "cut", "f")
    fill(
        writer,
        (said("do"),),
        (
            answer("", call("a", "edit"), call("b", "edit")),
            ToolStarted("a", "t"),
        ),
        (ended("a", _with(result, ref)),),
        (ToolStarted("b", "t"), ended("b", _with(outcome("b", "cut", "f"), gone))),
    )
    writer.close()
    report = one.engine.sync()
    assert report.sent == (writer.thread_id,)
    assert any("0000" in note for note in report.notes)
    kinds = [name.split()[0] for name in desk.calls]
    assert kinds == ["heads", "push", "put_blob", "push"]
    assert two.engine.sync().received == (writer.thread_id,)
    assert two.store.read_blob(ref) == b"x" * 1000


def _with(result: ToolExecutionOutcome, ref: BlobRef) -> ToolExecutionOutcome:
    from msgspec.structs import replace

    return replace(result, blob=ref)


def test_forks_arrive_after_their_bases_and_bring_them(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin(*TALK)
    writer = one.store.fork(thread, creator=CREATOR)
    fill(writer, *MORE)
    writer.close()
    assert one.engine.save_and_sync(writer.thread_id).sent == (thread, writer.thread_id)
    assert set(two.engine.sync().received) == {thread, writer.thread_id}
    assert two.said(writer.thread_id) == ["one", "first", "two", "second"]


def test_a_thread_that_is_held_or_refused_blocks_no_other_and_is_not_tried_by_itself(
    desk: Desk,
) -> None:
    one, _ = machines(desk)
    one.secrets = (b"hunter2",)
    held = one.begin((said("it is hunter2"),))
    bad = one.begin(*TALK)
    good = one.begin(*TALK)

    def refuse(what: str, thread_id: str) -> None:
        if thread_id == bad:
            raise RemoteRefusedError("too large", code="too_large", status=413)

    desk.before = refuse
    report = one.engine.sync()
    assert report.sent == (good,)
    assert [problem.thread_id for problem in report.held] == [held]
    assert report.held[0].found == ("kind 0",)
    assert [problem.thread_id for problem in report.refused] == [bad]
    assert b"hunter2" not in b"".join(desk.received)
    assert held.encode() not in b"".join(desk.received)
    desk.calls.clear()
    again = one.engine.sync(is_wanted=False)
    assert (again.held, again.refused) == (report.held, report.refused)
    assert desk.calls == ["heads"]
    one.secrets = ()
    assert one.engine.sync().sent == (held,)
    one.go_on(bad, *MORE)
    desk.before = lambda _what, _thread: None
    assert one.engine.sync(is_wanted=False).sent == (bad,)
    assert one.pending.entries() == {}


def test_a_server_that_cannot_be_reached_is_asked_ever_less(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin(*TALK)
    desk.before = unreachable
    report = one.engine.send(thread)
    assert report.unreachable
    assert one.pending.entries()[thread].retry_count == 1
    one.clock.fixed = one.clock()
    desk.calls.clear()
    assert one.engine.send(thread).unreachable
    assert one.engine.sync(is_wanted=False).next_try_at == report.next_try_at
    assert desk.calls == []
    one.clock.fixed = report.next_try_at
    assert one.engine.send(thread).unreachable
    assert desk.calls == [f"push {thread}"]
    desk.before = lambda _what, _thread: None
    assert one.engine.save_and_sync(thread).sent == (thread,)
    assert one.pending.state().failures == 0
    assert one.pending.entries() == {}


def test_a_journal_that_has_lost_its_end_gets_it_back(desk: Desk) -> None:
    one, _, thread = pair(desk)
    one.go_on(thread, *MORE)
    one.engine.sync()
    whole = one.journal(thread)
    path, _ = one.store.folders.find(thread)
    handle = one.disk.open_append(path)
    one.disk.truncate(handle, len(b"".join(whole.splitlines(keepends=True)[:2])))
    one.disk.close(handle)
    assert one.engine.sync().received == (thread,)
    assert one.journal(thread) == whole
    one.store.open(thread).close()


def test_a_store_that_was_lost_comes_back_from_the_server(desk: Desk) -> None:
    one, _, thread = pair(desk)
    whole = one.journal(thread)
    for name in (f"{thread}.json", f"{thread}.jsonl"):
        one.disk.unlink(f"/home/data/threads/{name}")
    assert one.engine.sync().received == (thread,)
    assert one.journal(thread) == whole


def test_a_lost_cursor_costs_a_question_and_nothing_else(desk: Desk) -> None:
    one, _, thread = pair(desk)
    one.go_on(thread, *MORE)
    one.cursors.remove(thread)
    assert one.engine.save_and_sync(thread).is_complete
    assert one.journal(thread) == desk.kept[thread].data
    assert one.engine.save_and_sync(thread).sent == ()


def test_a_server_that_was_put_back_from_a_backup_gets_what_it_lost(desk: Desk) -> None:
    one, two, thread = pair(desk)
    other = one.begin(*TALK)
    one.go_on(thread, *MORE)
    put_back = desk.backup()
    one.engine.sync()
    two.engine.sync()
    put_back()
    one.engine.sync()
    two.engine.sync()
    assert desk.kept[thread].data == one.journal(thread) == two.journal(thread)
    assert desk.kept[other].data == one.journal(other) == two.journal(other)


def test_what_another_machine_sends_meanwhile_waits_while_a_session_is_open(desk: Desk) -> None:
    one, two, thread = pair(desk)
    two.go_on(thread, *MORE)
    two.engine.sync()
    writer = one.store.open(thread)
    fill(writer, (Annotated("mine"),))
    before = one.journal(thread)
    assert [problem.thread_id for problem in one.engine.send(thread).waiting] == [thread]
    assert [problem.thread_id for problem in one.engine.sync().waiting] == [thread]
    assert one.journal(thread) == before
    writer.close()
    assert one.engine.sync().is_complete
    two.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data


def test_the_server_s_own_records_come_like_those_of_another_machine(desk: Desk) -> None:
    one, two, thread = pair(desk)
    two.go_on(thread, (Renamed("named"),))
    two.engine.sync()
    assert one.engine.sync(is_wanted=False).received == (thread,)
    assert one.store.load(thread).fold.title() == "named"


def test_a_later_title_is_not_replaced_by_an_earlier_one_that_is_merged_after_it(
    desk: Desk,
) -> None:
    one, two, thread = pair(desk)
    two.clock.tick = one.clock.tick + 100
    one.go_on(thread, (Renamed("earlier"),))
    two.go_on(thread, (Renamed("later"),))
    two.engine.sync()
    assert one.engine.sync().is_complete
    two.engine.sync()
    assert {each.store.load(thread).fold.title() for each in (one, two)} == {"later"}


def test_a_damaged_thread_is_told_and_blocks_nothing(desk: Desk) -> None:
    one, _, thread = pair(desk)
    path, _ = one.store.folders.find(thread)
    data = bytearray(one.disk.read(path))
    data[300] ^= 1
    one.disk.unlink(path)
    handle = one.disk.create(path)
    one.disk.write(handle, bytes(data))
    one.disk.close(handle)
    good = one.begin(*TALK)
    report = one.engine.sync()
    assert good in report.sent
    assert thread not in report.sent
    assert desk.kept[thread].mark != Mark()


def test_a_fact_about_privacy_that_is_the_last_word_counts(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin(*TALK, (PrivacySet(True),), (PrivacySet(False),))
    assert one.engine.sync().sent == (thread,)
    one.go_on(thread, (PrivacySet(True),))
    assert one.engine.sync().removed == (thread,)


def test_what_hangs_on_a_thread_that_is_held_waits_for_it(desk: Desk) -> None:
    one, _ = machines(desk)
    one.secrets = (b"hunter2",)
    held = one.begin((said("it is hunter2"),))
    fork = one.store.fork(held, creator=CREATOR)
    fork.close()
    report = one.engine.sync()
    assert [problem.thread_id for problem in report.held] == [held]
    assert [problem.thread_id for problem in report.waiting] == [fork.thread_id]
    assert desk.calls == ["heads"]
    one.secrets = ()
    assert one.engine.sync().sent == (held, fork.thread_id)


def test_two_processes_of_one_home_sync_at_once_and_nothing_is_sent_twice(desk: Desk) -> None:
    """The other one begins whenever this one has asked the server for something."""
    one, _ = machines(desk)
    threads = [one.begin(*TALK) for _ in range(3)]
    other = SyncEngine(
        one.store, desk.remote(), one.cursors, one.pending, now=one.clock, random=lambda: 0.5
    )
    depth = 0

    def meanwhile(_what: str, _thread: str) -> None:
        nonlocal depth
        if not depth:
            depth += 1
            other.sync()
            depth -= 1

    desk.before = meanwhile
    one.engine.sync()
    desk.before = lambda _what, _thread: None
    assert one.engine.sync().is_complete
    assert one.pending.entries() == {}
    for thread in threads:
        assert desk.kept[thread].data == one.journal(thread)
