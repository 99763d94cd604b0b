"""A scrub on one machine reaches the server and the others, and costs nobody a record."""

from __future__ import annotations

from contextlib import closing

import pytest
from msgspec import Raw

from core.samples import answer, said
from store.shelf import fill
from sync.desk import Desk, Machine, unreachable
from sync.test_engine import machines, pair
from treadle.store.branch_archive import list_archived_branches
from treadle.store.upkeep.scrub import scrub
from treadle.sync import reconciliation, shareable_thread
from treadle.sync.journal_comparison import find_reappeared_records
from treadle.sync.refusals import describe_remote_scrub, describe_resend
from treadle.thread.branches import encode_branch_event, flatten_records
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Annotated, Renamed
from treadle.thread.record import Record


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_scrub_reaches_the_server_and_the_other_machines(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    one.engine.sync()
    two.engine.sync()
    two.go_on(thread, (said("later"),), (answer("fine"),))
    scrub(one.store, [thread], lambda text: text.replace("hunter2", "[REDACTED:x]"))
    assert one.engine.sync().replaced == (thread,)
    assert b"hunter2" not in desk.kept[thread].data
    report = two.engine.sync()
    assert report.sent == (thread,)
    assert "the word is [REDACTED:x]" in two.said(thread)
    assert "later" in two.said(thread)
    one.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    files = b"".join(two.disk.files().values()) + b"".join(one.disk.files().values())
    assert b"hunter2" not in files


def test_what_came_before_a_scrub_was_sent_is_kept_behind_it(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    one.engine.sync()
    two.engine.sync()
    two.go_on(thread, (said("later"),), (answer("fine"),))
    two.engine.sync()
    scrub(one.store, [thread], lambda text: text.replace("hunter2", "[REDACTED:x]"))
    assert one.engine.sync().replaced == (thread,)
    assert one.said(thread) == ["the word is [REDACTED:x]", "I see", "later", "fine"]
    assert b"hunter2" not in desk.kept[thread].data
    two.engine.sync()
    assert two.journal(thread) == one.journal(thread) == desk.kept[thread].data


def test_a_scrub_of_records_that_another_machine_never_saw_doubles_nothing(desk: Desk) -> None:
    one, two, thread = pair(desk)
    two.go_on(thread, (said("the word is hunter2"),))
    two.engine.sync()
    one.engine.sync()
    two.go_on(thread, (answer("only there"),))
    one.go_on(thread, (answer("only here"),))
    scrub(two.store, [thread], lambda text: text.replace("hunter2", "[REDACTED:x]"))
    two.engine.sync()
    one.engine.sync()
    two.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    texts = one.said(thread)
    assert sorted(texts) == sorted({*texts})
    assert {"the word is [REDACTED:x]", "only there", "only here"} <= {*texts}
    assert b"hunter2" not in b"".join(one.disk.files().values())


def take_out(machine: Machine, thread: str, text: str) -> None:
    scrub(machine.store, [thread], lambda found: found.replace(text, "[REDACTED:x]"))


def test_a_scrub_that_another_one_undid_is_told_until_it_is_done_again(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("hunter2 and sesame"),), (answer("I see it"),))
    one.engine.sync()
    two.engine.sync()
    take_out(one, thread, "hunter2")
    take_out(two, thread, "sesame")
    one.engine.sync()
    report = two.engine.sync()
    [problem] = report.held
    assert problem.thread_id == thread
    assert "scrub that text again" in problem.why
    assert not report.is_complete
    assert two.said(thread)[0] == "[REDACTED:x] and sesame"
    [entry] = two.engine.status().pending
    assert (entry.thread_id, entry.parked) == (thread, "held")
    desk.calls.clear()
    assert two.engine.sync(is_wanted=False).held == report.held
    assert desk.calls == ["heads"]
    assert two.engine.sync().held == report.held
    take_out(two, thread, "it")  # another text, which the thread is replaced for too
    assert two.engine.sync().held == report.held
    take_out(two, thread, "sesame")
    report = two.engine.sync()
    assert (report.replaced, report.held) == ((thread,), ())
    assert two.engine.status().pending == ()
    one.engine.sync()
    assert b"sesame" not in desk.kept[thread].data
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    assert one.said(thread)[0] == "[REDACTED:x] and [REDACTED:x]"


@pytest.mark.parametrize("lost_at", [1, 2, 3])
def test_what_arrived_of_a_push_before_a_scrub_is_scrubbed_too_and_not_doubled(
    desk: Desk, lost_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to one of its requests was lost; another machine has gone on from there."""
    monkeypatch.setattr(shareable_thread, "PIECE_SIZE", 1)
    one, two = machines(desk)
    thread = one.begin((said("first"),), (answer("the word is hunter2"),), (said("and"),))
    count = 0

    def lose(what: str, _thread: str) -> None:
        nonlocal count
        count += what == "push"
        if count == lost_at:
            unreachable()

    desk.after = lose
    assert one.engine.sync().unreachable
    desk.after = lambda _what, _thread: None
    assert len(desk.records(thread)) < len(one.hashes(thread))
    two.engine.sync()
    two.go_on(thread, (Annotated("meanwhile"),))
    two.engine.sync()
    take_out(one, thread, "hunter2")
    for machine in (one, two, one):
        machine.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    assert b"hunter2" not in desk.kept[thread].data
    events = [encode_branch_event(record) for record in flatten_records(desk.records(thread))]
    for text in (b'"first"', b"the word is [REDACTED:x]", b'"and"', b"meanwhile"):
        assert sum(text in event for event in events) == 1, text


def long_and_scrubbed(desk: Desk, one: Machine, monkeypatch: pytest.MonkeyPatch) -> str:
    """A thread that the server took in pieces, and will not take at once."""
    monkeypatch.setattr(shareable_thread, "PIECE_SIZE", 1000)
    thread = one.begin(
        (said("the word is hunter2"),),
        *((Annotated(f"{number} " + "x" * 500),) for number in range(8)),
    )
    one.engine.sync()
    desk.body_size_max = 1500
    take_out(one, thread, "hunter2")
    assert len(one.journal(thread)) > desk.body_size_max
    return thread


def test_a_scrubbed_thread_that_is_too_large_to_be_replaced_goes_in_pieces(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines(desk)
    thread = long_and_scrubbed(desk, one, monkeypatch)
    two.engine.sync()
    report = one.engine.sync()
    assert report.replaced == (thread,)
    assert any("too large to be replaced" in note for note in report.notes)
    assert desk.kept[thread].data == one.journal(thread)
    assert two.engine.sync().notes == (describe_remote_scrub(thread),)
    assert two.journal(thread) == one.journal(thread)
    assert one.engine.sync().is_complete


def test_one_that_went_on_elsewhere_is_not_removed_before_that_was_taken_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines(desk)
    thread = long_and_scrubbed(desk, one, monkeypatch)
    two.engine.sync()
    two.go_on(thread, (Annotated("meanwhile"),))
    two.engine.sync()
    one.engine.save_and_sync(thread)
    one.engine.sync()
    two.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    assert one.journal(thread).count(b"meanwhile") == 1
    assert b"hunter2" not in desk.kept[thread].data


@pytest.mark.parametrize("what", ["purge", "push"])
@pytest.mark.parametrize("has_happened", [False, True])
def test_one_that_was_cut_while_it_was_sent_anew_is_sent_by_itself(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, what: str, has_happened: bool
) -> None:
    one, two = machines(desk)
    thread = long_and_scrubbed(desk, one, monkeypatch)
    two.engine.sync()

    def cut(asked: str, _thread: str) -> None:
        if asked == what:
            unreachable()

    setattr(desk, "after" if has_happened else "before", cut)
    assert one.engine.sync().unreachable
    desk.after = desk.before = lambda _what, _thread: None
    one.clock.fixed = one.pending.state().next_try_at
    assert one.engine.sync(is_wanted=False).notes in ((), (one_note(thread),))
    assert desk.kept[thread].data == one.journal(thread)
    two.engine.sync()
    assert two.journal(thread) == one.journal(thread)
    assert two.engine.sync().is_complete


def one_note(thread: str) -> str:
    return describe_resend(thread)


# ---- forks ---------------------------------------------------------------------------------------


def shown(machine: Machine, thread: str) -> str:
    """All that is said in a thread, with what it goes on from."""
    return repr(list(machine.store.load(thread).fold.conversation))


@pytest.mark.parametrize("is_fork_first", [True, False])
def test_a_fork_made_while_its_base_was_scrubbed_elsewhere_is_whole_and_scrubbed_everywhere(
    desk: Desk, is_fork_first: bool
) -> None:
    one, two, three = machines(desk, 3)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    for machine in (one, two):
        machine.engine.sync()
    take_out(one, thread, "hunter2")
    forks: list[str] = []
    for _ in range(2):  # the second is a fork of the first
        writer = two.store.fork(forks[0] if forks else thread, creator="t")
        forks.append(writer.thread_id)
        fill(writer, (Annotated(f"own of {len(forks)}"),))
        writer.close()
    for machine in (two, one) if is_fork_first else (one, two):
        assert machine.engine.sync().is_complete
    for machine in (two, one, three):
        assert machine.engine.sync().is_complete
    for machine in (one, two, three):
        assert b"hunter2" not in b"".join(machine.disk.files().values())
        for fork in forks:
            assert machine.journal(fork) == desk.kept[fork].data
            assert "[REDACTED:x]" in shown(machine, fork)
            machine.store.open(fork).close()


def test_a_kept_branch_is_scrubbed_with_its_thread_and_forks_of_it_stand(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    one.engine.sync()
    two.engine.sync()
    one.go_on(thread, (said("here"),))
    two.go_on(thread, (said("there"),))
    fork = two.store.fork(thread, creator="t")
    fork.close()
    one.engine.sync()
    two.engine.sync()
    assert len(list(list_archived_branches(two.store.folders))) == 1
    one.engine.sync()
    take_out(one, thread, "hunter2")
    one.engine.sync()
    two.engine.sync()
    assert b"hunter2" not in b"".join(two.disk.files().values())
    assert "there" in shown(two, fork.thread_id)
    two.store.open(fork.thread_id).close()


def test_a_scrub_is_not_taken_over_while_a_fork_is_open(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    one.engine.sync()
    two.engine.sync()
    take_out(one, thread, "hunter2")
    one.engine.sync()
    with closing(two.store.fork(thread, creator="t")):
        assert not two.engine.sync().is_complete
        assert "hunter2" in shown(two, thread)
    assert two.engine.sync().is_complete
    assert b"hunter2" not in b"".join(two.disk.files().values())


def test_that_a_scrub_was_lost_is_known_before_it_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines(desk)
    thread = one.begin((said("hunter2 and sesame"),), (answer("I see"),))
    for machine in (one, two):
        machine.engine.sync()
    take_out(one, thread, "hunter2")
    take_out(two, thread, "sesame")
    one.engine.sync()
    seen: list[tuple[str, ...]] = []
    replace = reconciliation.replace_scrubbed

    def die(*given: object) -> None:
        replace(*given)  # type: ignore[arg-type]
        seen.append(two.pending.state().unscrubbed)
        raise KeyboardInterrupt

    monkeypatch.setattr(reconciliation, "replace_scrubbed", die)
    with pytest.raises(KeyboardInterrupt):
        two.engine.sync()
    assert seen == [(thread,)]


def test_what_came_before_a_scrub_was_sent_stays_where_forks_have_found_it(desk: Desk) -> None:
    one, two, three = machines(desk, 3)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    for machine in (one, two):
        machine.engine.sync()
    one.go_on(thread, (said("there"),), (answer("yes"),))
    two.go_on(thread, (said("here"),))
    take_out(one, thread, "hunter2")
    two.engine.sync()
    two.go_on(thread, (answer("fine"),))
    two.engine.sync()
    with closing(two.store.fork(thread, creator="t")) as writer:
        fork = writer.thread_id
    two.engine.sync()
    for machine in (one, two, three):
        assert machine.engine.sync().is_complete
        assert machine.journal(thread) == desk.kept[thread].data
        assert "fine" in shown(machine, fork)
        machine.store.open(fork).close()
    assert desk.kept[thread].data.count(b"there") == 2  # as it was said there, and as it joins
    assert b"hunter2" not in b"".join(two.disk.files().values())


@pytest.mark.parametrize("scrubs", [(), ("hunter0",), ("hunter1",), ("hunter0", "hunter1")])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_fork_stands_when_the_branch_it_is_of_was_merged_again_before_it_was_sent(
    desk: Desk, scrubs: tuple[str, ...], *, goes_on: bool
) -> None:
    one, two, three = machines(desk, 3)
    thread = one.begin((said("the words are hunter0 and hunter1"),), (answer("I see"),))
    for machine in (one, two):
        machine.engine.sync()
    two.go_on(thread, (said("there"),), (answer("yes"),))
    with closing(two.store.fork(thread, creator="t")) as writer:
        fork = writer.thread_id
    two.go_on(thread, (said("and there"),))
    for word in ("hunter0", "hunter1"):
        if word in scrubs:
            take_out(one, thread, word)
        one.go_on(thread, (Annotated("here"),))
        assert one.engine.sync().is_complete
        desk.before = lambda what, _thread: unreachable() if what == "push" else None
        assert two.engine.sync().unreachable  # it is merged, and not sent
        desk.before = lambda _what, _thread: None
        if goes_on:
            two.go_on(thread, (Annotated("behind the merge"),))
    for machine in (two, one, three):
        # A merge that others stand behind is merged with them: its branch is at home alone.
        assert machine.engine.sync().is_complete is (machine is not two or not goes_on)
        assert machine.journal(thread) == desk.kept[thread].data
    for machine in (two,) if goes_on else (one, two, three):
        assert "yes" in shown(machine, fork)
        machine.store.open(fork).close()
    assert (fork in desk.kept) is not goes_on


def test_a_fork_made_right_behind_a_scrub_stands_when_others_have_gone_on(desk: Desk) -> None:
    one, two, three = machines(desk, 3)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    for machine in (one, two):
        machine.engine.sync()
    take_out(one, thread, "hunter2")
    with closing(one.store.fork(thread, creator="t")) as writer:
        fork = writer.thread_id
    two.go_on(thread, (said("there"),))
    two.engine.sync()
    for machine in (one, two, three):
        assert machine.engine.sync().is_complete
        assert machine.journal(thread) == desk.kept[thread].data
        assert machine.journal(fork) == desk.kept[fork].data
        assert "[REDACTED:x]" in shown(machine, fork)
        machine.store.open(fork).close()


def test_a_scrubbed_title_does_not_come_back_in_a_merge_that_says_it_again(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("go"),), (answer("I see"),))
    for machine in (one, two):
        machine.engine.sync()
    two.go_on(thread, (Renamed("earlier"),))
    one.clock.fixed = "2099-01-01T00:00:00.000000Z"
    one.go_on(thread, (Renamed("hunter2"),))
    one.engine.sync()
    two.engine.sync()
    assert desk.kept[thread].data.count(b"hunter2") == 2
    take_out(one, thread, "hunter2")
    for machine in (one, two, one):
        machine.engine.sync()
        assert b"hunter2" not in desk.kept[thread].data
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    assert b"hunter2" not in b"".join(two.disk.files().values())


def test_what_is_shown_again_is_what_only_our_label_hides() -> None:
    rows = [  # ours, theirs, whether theirs shows what ours hides
        ("a b", "a b", False),
        ("a b", "a [REDACTED:x]", False),
        ("a [REDACTED:x]", "a b", True),
        ("[REDACTED:x] b", "a [REDACTED:x]", True),
        ("[REDACTED:x] b", "[REDACTED:x] [REDACTED:x]", False),
        ("[REDACTED:x] [REDACTED:x]", "[REDACTED:x] b", True),
        ("[REDACTED:x] b [REDACTED:x] c", "[REDACTED:x] b d c", True),
        ("[REDACTED:x] a b c", "[REDACTED:x] a [REDACTED:y] c", False),
    ]
    for ours, theirs, shows in rows:
        mine, other = (record_of(text) for text in (ours, theirs))
        assert bool(find_reappeared_records([mine], [other])) is shows, (ours, theirs)


def record_of(text: str) -> Record:
    return Record(1, "12:00", Raw(encode_entry(Annotated(text))[1]), "0" * 32)
