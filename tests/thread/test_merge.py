"""Merging loses nothing, says nothing twice, and never tears a call from its result."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from core.random_events import check_pairs, random_durable_event
from core.samples import answer, call, ended, said, success
from thread.branching import Sides, behind, gone_on, merge_of, merged, random_sides
from thread.journals import HEADER, branch_record, fold_of, records_of, write
from thread.test_snapshots import assert_same, extended, restored
from thread.test_task_threads import random_journal
from treadle.core.actions import SendLlmRequest
from treadle.core.chat.states import WaitingForUserInput
from treadle.core.config import AgentConfig
from treadle.core.conversation import Compaction, View
from treadle.core.events import (
    Compacted,
    CompactionRequested,
    PostToolsHookCompleted,
    Rewound,
    ToolStarted,
)
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.tools import RiskLevel
from treadle.thread.branches import collect_record_ids, flatten_records
from treadle.thread.codec import Entry, decode_entry, get_usage
from treadle.thread.facts import (
    Annotated,
    BranchRecord,
    Configured,
    GitObserved,
    Granted,
    InputQueued,
    Merged,
    Pinned,
    PrivacySet,
    Renamed,
    Restored,
    Shared,
    Tagged,
    ThreadCreated,
    Trashed,
)
from treadle.thread.fold import TASK, ThreadFold
from treadle.thread.record import Head, JournalScanner, Record, encode_batch
from treadle.thread.snapshot import encode_snapshot

randoms = st.randoms(use_true_random=True)


def fact_of(record: Record) -> Merged:
    entry = decode_entry(record.event)
    assert isinstance(entry, Merged)
    return entry


def merges_in(records: list[Record]) -> list[Merged]:
    entries = [decode_entry(record.event) for record in records]
    return [entry for entry in entries if isinstance(entry, Merged)]


def texts_in_view(fold: ThreadFold) -> list[str]:
    hidden = fold.conversation.hidden
    return [
        message.content
        for index, message in enumerate(fold.conversation)
        if not any(first <= index < last for first, last in hidden)
    ]


# ---- nothing is lost, nothing is there twice -----------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(randoms)
def test_every_record_of_both_sides_is_in_the_result_exactly_once(random: Random) -> None:
    sides = random_sides(random)
    result = merged(sides)
    hashes = Counter(one.hash for one in flatten_records(result))
    wanted = {one.hash for one in flatten_records([*sides.server, *sides.ours])}
    assert wanted == {*hashes}
    nested = Counter(one.hash for one in fact_of(result[-1]).records)
    assert all(count == 1 for count in nested.values())
    assert not {*nested} & collect_record_ids(sides.server)


@settings(max_examples=30, deadline=None)
@given(randoms)
def test_the_records_of_a_branch_stand_in_their_order_as_they_were(random: Random) -> None:
    sides = random_sides(random)
    records = fact_of(merged(sides)[-1]).records
    plain = [
        BranchRecord(one.seq, one.at, one.hash, msgspec.json.decode(one.event))
        for one in sides.ours
        if not isinstance(decode_entry(one.event), Merged)
    ]
    places = [records.index(one) for one in plain]
    assert places == sorted(places)


@settings(max_examples=35, deadline=None)
@given(randoms)
def test_merging_again_gives_nothing_however_far_the_server_has_come(random: Random) -> None:
    sides = random_sides(random)
    result = merged(sides)
    assert merge_of(sides, result) is None
    assert merge_of(sides, [*result, *gone_on(result, random, 5, 7000)]) is None


@settings(max_examples=30, deadline=None)
@given(randoms)
def test_what_one_has_written_since_the_merge_is_merged_alone(random: Random) -> None:
    sides = random_sides(random)
    result = merged(sides)
    more = gone_on([*sides.common, *sides.ours], random, 3, 8000)
    again = merge_of(Sides(sides.common, sides.theirs, [*sides.ours, *more]), result)
    assert again is not None
    lacking = [
        one.hash for one in flatten_records(more) if one.hash not in collect_record_ids(result)
    ]
    assert [one.hash for one in again.records] == lacking


@settings(max_examples=30, deadline=None)
@given(randoms)
def test_a_merge_of_merges_holds_no_merge_and_no_record_twice(random: Random) -> None:
    """Three machines: the second merges the first, the third merges what the second had."""
    sides = random_sides(random, 10)
    second = merged(sides)
    third = gone_on(sides.common, random, 4, 9000)
    ours = second[len(sides.common) :]
    fact = merge_of(Sides(sides.common, third, ours), [*sides.common, *third])
    assert fact is not None
    assert all(one.event["type"] != "merged" for one in fact.records)
    assert [one.hash for one in fact.records] == [one.hash for one in flatten_records(ours)]


def test_ten_machines_in_turn_come_to_one_thread_that_grows_by_their_records_alone() -> None:
    random = Random(5)
    common = records_of(write([(HEADER,), (said("go"),)])[0])
    branches = [gone_on(common, random, 3, 1000 * number) for number in range(1, 11)]
    server = [*common, *branches[0]]
    for branch in branches[1:]:
        fact = merge_of(Sides(common, [], branch), server)
        assert fact is not None
        assert [one.hash for one in fact.records] == [one.hash for one in flatten_records(branch)]
        server += behind(server, [fact], 50_000 + len(server))
    for branch in branches:
        assert merge_of(Sides(common, [], branch), server) is None


# ---- pairs ---------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(randoms, st.integers(0, 40))
def test_every_request_after_a_merge_has_its_pairs_whole(random: Random, length: int) -> None:
    """Whatever was open on either side, and however the thread goes on."""
    records = merged(random_sides(random))
    fold = fold_of(records)
    for number in range(length):
        owed = fold.machine.obligations()
        if isinstance(owed, SendLlmRequest):
            check_pairs(owed.request.messages)
        event = random_durable_event(random, fold.state, number)
        action = fold.apply(fold.version + 1, "2026-11-21T08:15:31.000000Z", event)
        if isinstance(action, SendLlmRequest):
            check_pairs(action.request.messages)
        if isinstance(fold.state, WaitingForUserInput):
            assert fold.joining_messages == ()
            check_pairs(tuple(fold.conversation))


@settings(max_examples=35, deadline=None)
@given(randoms)
def test_the_position_after_a_merge_is_the_servers(random: Random) -> None:
    sides = random_sides(random)
    before, after = fold_of(sides.server), fold_of(merged(sides))
    assert after.machine.state_name == before.machine.state_name
    assert after.machine.config == before.machine.config
    assert (after.context, after.files, after.children) == (
        before.context,
        before.files,
        before.children,
    )
    if not isinstance(before.state, WaitingForUserInput):
        assert after.state == before.state
        assert after.machine.obligations() == before.machine.obligations()


def history(*entries: Entry) -> list[Record]:
    return records_of(write([(HEADER,), *([entry] for entry in entries)])[0])


def two_sides(common: list[Record], theirs: list[Entry], ours: list[Entry]) -> Sides:
    def grown(entries: list[Entry], tick: int) -> list[Record]:
        found = list(common)
        for number, entry in enumerate(entries):
            found += behind(found, [entry], tick + number)
        return found[len(common) :]

    return Sides(common, grown(theirs, 1000), grown(ours, 2000))


ROUND = (answer("", call("a", "edit")), ToolStarted("a"), ended("a", success("a", "done it")))


@pytest.mark.parametrize("open_at", range(1, len(ROUND)))
def test_messages_wait_until_nothing_is_open_and_then_join(open_at: int) -> None:
    sides = two_sides(
        history(said("go")), list(ROUND[:open_at]), [answer("ours"), said("more"), answer("yes")]
    )
    fold = fold_of(merged(sides))
    assert [message.content for message in fold.joining_messages] == ["ours", "more", "yes"]
    assert "ours" not in texts_in_view(fold)
    for entry in (*ROUND[open_at:], answer("over")):
        fold.apply(fold.version + 1, "2026-11-21T08:15:31.000000Z", entry)
    while not isinstance(fold.state, WaitingForUserInput):
        fold.apply(fold.version + 1, "x", PostToolsHookCompleted(False, ""))
        if not isinstance(fold.state, WaitingForUserInput):
            fold.apply(fold.version + 1, "x", answer("over"))
    assert fold.joining_messages == ()
    assert texts_in_view(fold)[-3:] == ["ours", "more", "yes"]
    check_pairs(tuple(fold.conversation))


def test_a_call_that_was_open_on_our_machine_is_answered_that_nobody_knows() -> None:
    sides = two_sides(
        history(said("go")), [answer("theirs")], [answer("", call("a")), ToolStarted("a")]
    )
    fold = fold_of(merged(sides))
    *_, asked, told = tuple(fold.conversation)
    assert (asked.tool_calls[0].id, told.tool_call_id) == ("a", "a")
    assert "may or may not have happened" in told.content
    check_pairs(tuple(fold.conversation))


def test_a_result_of_a_call_that_both_sides_know_becomes_a_note() -> None:
    common = history(said("go"), answer("", call("a")), ToolStarted("a"))
    done: list[Entry] = [ended("a", success("a", "seen there"))]
    sides = two_sides(common, [ended("a", success("a", "seen here"))], done)
    fold = fold_of(merged(sides))
    joined = "\n".join(message.content for message in (*fold.conversation, *fold.joining_messages))
    assert "seen here" in joined
    assert "seen there" in joined


def test_calls_whose_ids_are_taken_get_others_with_their_results() -> None:
    seen = (answer("", call("a")), ended("a", success("a", "one")))
    round_: list[Entry] = [*seen, PostToolsHookCompleted(False, ""), answer("yes")]
    sides = two_sides(history(said("go")), round_, round_)
    result = merged(sides)
    fold = fold_of(result)
    check_pairs(tuple(fold.conversation))
    ids = [call.id for message in fold.conversation for call in message.tool_calls]
    assert len(ids) == len({*ids}) == 2


# ---- snapshots, forks, rewinds, compaction -------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(randoms)
def test_a_snapshot_at_any_cut_around_a_merge_and_the_tail_equal_the_whole_fold(
    random: Random,
) -> None:
    records = merged(random_sides(random, 12))
    records += gone_on(records, random, 8, 9000)
    whole = fold_of(records)
    for cut in range(1, len(records) + 1):
        last = records[cut - 1]
        taken = encode_snapshot(fold_of(records[:cut]), Head(last.seq, last.hash, last.at, 1))
        again = extended(restored(taken), records[cut:])
        assert_same(again, whole)
        assert (again.usage, again.joining_messages, again.queued) == (
            whole.usage,
            whole.joining_messages,
            whole.queued,
        )


@settings(max_examples=25, deadline=None)
@given(randoms)
def test_a_fork_of_a_merged_thread_has_what_was_merged(random: Random) -> None:
    base = fold_of(merged(random_sides(random)))
    header = ThreadCreated(1, "T-01900000-0000-7000-8000-00000000000c", "chat", "t", "/w", "/w")
    fork = base.make_fork(header)
    assert tuple(fork.conversation) == tuple(base.conversation)
    assert fork.joining_messages == base.joining_messages
    for number in range(10):
        event = random_durable_event(random, fork.state, number)
        action = fork.apply(fork.version + 1, "2026-11-21T08:15:31.000000Z", event)
        if isinstance(action, SendLlmRequest):
            check_pairs(action.request.messages)


def test_what_our_side_had_gone_back_from_does_not_come_into_view() -> None:
    ours: list[Entry] = [
        answer("right"),
        said("wrong turn"),
        answer("indeed"),
        Rewound(3, View(2), "12:00"),
        said("another way"),
        answer("gladly"),
    ]
    sides = two_sides(history(said("go")), [answer("theirs")], ours)
    result = merged(sides)
    texts = texts_in_view(fold_of(result))
    assert texts == ["go", "theirs", "right", "another way", "gladly"]
    assert len(fact_of(result[-1]).records) == len(ours), "the records hold all of it"


def test_one_can_go_back_to_before_a_merge_and_the_merge_is_out_of_view() -> None:
    sides = two_sides(history(said("go")), [answer("theirs")], [answer("ours")])
    fold = fold_of(merged(sides))
    before = fold_of(sides.server)
    fold.apply(
        fold.version + 1, "x", Rewound(len(sides.server), View(len(before.conversation)), "12:00")
    )
    assert texts_in_view(fold) == ["go", "theirs"]
    assert [message.content for message in fold.conversation] == ["go", "theirs", "ours"]


def test_a_compaction_on_our_side_does_not_stand_for_what_joins() -> None:
    ours: list[Entry] = [
        answer("ours"),
        CompactionRequested("", "12:00"),
        Compacted(2, "in short", "12:01", Usage(9, 1), "m"),
        said("then"),
        answer("yes"),
    ]
    sides = two_sides(history(said("go")), [answer("theirs")], ours)
    fold = fold_of(merged(sides))
    assert texts_in_view(fold) == ["go", "theirs", "ours", "then", "yes"]
    assert fold.conversation.compaction is None


def test_a_compaction_under_way_on_the_server_ends_before_messages_join() -> None:
    common = history(said("go"), answer("well"))
    sides = two_sides(common, [CompactionRequested("", "12:00")], [said("more"), answer("ours")])
    fold = fold_of(merged(sides))
    assert [message.content for message in fold.joining_messages] == ["more", "ours"]
    fold.apply(fold.version + 1, "x", Compacted(2, "in short", "12:01", Usage(9, 1), "m"))
    assert fold.joining_messages == ()
    assert fold.conversation.compaction == Compaction(2, "in short")
    assert [message.content for message in fold.conversation][-2:] == ["more", "ours"]


# ---- what people and machines said beside the messages -------------------------------------------


@settings(max_examples=35, deadline=None)
@given(randoms)
def test_what_was_used_on_both_sides_is_counted_once(random: Random) -> None:
    result = merged(random_sides(random))
    entries = (
        decode_entry(msgspec.json.encode(one.event))
        for one in {o.hash: o for o in flatten_records(result)}.values()
    )
    spent = sum((get_usage(entry) or Usage() for entry in entries), Usage())
    assert fold_of(result).usage == spent


def test_prompts_that_nobody_has_heard_on_our_side_are_queued_behind_theirs() -> None:
    def later(text: str) -> Entry:
        return InputQueued(Message.user(text))

    sides = two_sides(
        history(said("go"), later("both")),
        [later("theirs")],
        [later("ours"), answer("x"), said("both"), answer("y"), later("ours too")],
    )
    fold = fold_of(merged(sides))
    assert [message.content for message in fold.queued] == ["both", "theirs", "ours", "ours too"]


def test_prompts_that_both_sides_wait_with_are_not_queued_twice() -> None:
    """Those of the common history, and those that a merge which the server has brought to us."""
    later = InputQueued(Message.user("both"))
    sides = two_sides(history(said("go"), later), [answer("theirs")], [later])
    assert len(fold_of(merged(sides)).queued) == 2

    known = Merged(1, "0" * 32, (branch_record(9, later),), THERE, (later.message,))
    ours = two_sides(history(said("go")), [known], [known, Annotated("ours")])
    fold = fold_of(merged(ours))
    assert [message.content for message in fold.queued] == ["both"]
    assert [message.content for message in fold.joining_messages] == ["there"]


def test_messages_that_wait_on_both_sides_join_once() -> None:
    waiting = Merged(1, "0" * 32, (branch_record(9, said("there")),), THERE)
    over: list[Entry] = [answer("over")]
    sides = two_sides(history(said("go"), waiting), over, [*over, said("ours"), answer("yes")])
    assert texts_in_view(fold_of(merged(sides))) == ["go", "over", "there", "over", "ours", "yes"]


THERE = (Message.user("there"),)

SAID: tuple[tuple[Entry, str, object], ...] = (
    (Renamed("The loom"), "title", "The loom"),
    (Tagged(("red",)), "tags", ("red",)),
    (Pinned(), "is_pinned", True),
)


@for_every_row("entry, field, value", SAID)
def test_what_a_person_said_on_our_side_holds(entry: Entry, field: str, value: object) -> None:
    fold = fold_of(merged(two_sides(history(said("go")), [answer("theirs")], [entry])))
    assert getattr(fold.metadata, field) == value


def test_notes_visibility_and_commits_of_our_side_are_there() -> None:
    ours: list[Entry] = [Annotated("ask Ada"), Shared("public", True), GitObserved("b", "beef")]
    sides = two_sides(history(GitObserved("a", "c0ffee")), [GitObserved("a", "dead")], ours)
    fold = fold_of(merged(sides))
    assert [note.text for note in fold.metadata.annotations] == ["ask Ada"]
    assert (fold.visibility, fold.is_shared_with_support) == ("public", True)
    assert fold.git.git_commits == ("c0ffee", "dead", "beef")
    assert (fold.git.git_branch, fold.git.git_current_commit_sha) == ("a", "dead")


def test_what_was_allowed_or_configured_on_our_side_does_not_hold() -> None:
    ours: list[Entry] = [
        Configured(AgentConfig(model_name="ours"), "p"),
        Granted("drop", RiskLevel.HIGH),
    ]
    sides = two_sides(history(said("go")), [answer("theirs")], ours)
    assert fold_of(merged(sides)).machine.config == fold_of(sides.server).machine.config


def test_privacy_is_of_this_machine_and_is_not_merged() -> None:
    sides = two_sides(
        history(said("go")), [answer("theirs")], [PrivacySet(True), PrivacySet(False)]
    )
    assert not fold_of(merged(sides)).is_private
    private = two_sides(history(said("go")), [PrivacySet(True)], [PrivacySet(False)])
    assert fold_of(merged(private)).is_private


@for_every_row(
    "ours, is_trashed",
    [
        ([answer("ours")], False),
        ([Annotated("x")], True),
        ([Trashed()], True),
        ([Restored()], True),
    ],
)
def test_work_on_our_side_brings_a_thread_out_of_the_trash(
    ours: list[Entry], is_trashed: bool
) -> None:
    sides = two_sides(history(said("go")), [Trashed()], ours)
    assert fold_of(merged(sides)).is_trashed == is_trashed


def test_a_task_keeps_what_one_machine_knows_and_counts_what_both_have_used() -> None:
    for seed in range(40):
        random = Random(seed)
        records = records_of(write(random_journal(random, 40))[0])
        cut = random.randrange(2, len(records))
        common, ours = records[:cut], records[cut:]
        theirs = behind(common, [Annotated("theirs")], 9000)
        sides = Sides(common, theirs, ours)
        fact = fact_of(merged(sides)[-1])
        assert (fact.messages, fact.queued) == ((), ())
        fold, before = fold_of(merged(sides)), fold_of(sides.server)
        assert fold.header.machine == TASK
        assert fold.state == before.state
        assert fold.usage.total_tokens == before.usage.total_tokens + sum(
            (get_usage(decode_entry(one.event)) or Usage()).total_tokens for one in ours
        )


def test_what_a_newer_version_wrote_is_kept_and_not_understood() -> None:
    common = history(said("go"))
    strange = b'{"type":"from_the_future","x":1}'
    head = Head(common[-1].seq, common[-1].hash, common[-1].at)
    ours = JournalScanner(head).feed(
        encode_batch(head, "2026-11-21T08:15:31.000000Z", [strange])[0]
    )
    fact = merge_of(Sides(common, [], ours), common)
    assert fact is not None
    assert [one.event for one in fact.records] == [{"type": "from_the_future", "x": 1}]
    merged_into = fold_of([*common, *behind(common, [fact], 9000)])
    assert tuple(merged_into.conversation) == tuple(fold_of(common).conversation)
