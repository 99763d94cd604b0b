"""What another branch holds, as a merge keeps it."""

from __future__ import annotations

import json

from case_tables import for_every_row
from core.samples import answer, call, ended, said, success
from thread.branching import Sides, behind, merge_of, merged
from thread.journals import EVERY_ENTRY, HEADER, branch_record, records_of, write
from thread.test_merge import history, merges_in, two_sides
from treadle.core.events import PostToolsHookCompleted
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.thread.branches import (
    MetadataFact,
    collect_merged_branch,
    collect_record_ids,
    decode_merged_entries,
    encode_branch_event,
    flatten_records,
    read_branch_contents,
)
from treadle.thread.codec import Entry, decode_entry, encode_entry
from treadle.thread.facts import Annotated, BranchRecord, GitObserved, Merged, Renamed

START = records_of(write([(HEADER,)])[0])


def merge_with(*records: BranchRecord) -> Merged:
    return Merged(1, "0" * 32, records)


@for_every_row("entry", EVERY_ENTRY)
def test_every_entry_says_within_a_branch_what_it_says_by_itself(entry: Entry) -> None:
    (record,) = behind(START, [entry], 1)
    (fact,) = behind(START, [merge_with(*flatten_records([record]))], 2)
    kept = decode_entry(fact.event)
    assert isinstance(kept, Merged)
    if isinstance(entry, Merged):
        assert kept.records == entry.records
        return
    assert [*decode_merged_entries(kept)] == [entry]
    assert decode_entry(encode_branch_event(kept.records[0])) == entry
    assert (kept.records[0].seq, kept.records[0].at) == (record.seq, record.at)
    assert kept.records[0].hash == record.hash


def test_a_merge_among_the_records_is_what_it_merged_in_its_place() -> None:
    inner = [branch_record(5, said("a")), branch_record(6, said("b"))]
    records = behind(START, [said("before"), merge_with(*inner), said("after")], 1)
    found = [*flatten_records(records)]
    assert found[1:3] == inner
    assert [one.hash for one in found[::3]] == [records[0].hash, records[2].hash]


def test_all_hashes_are_known_those_within_merges_too() -> None:
    inner = branch_record(5, said('"merged"'))
    records = behind(START, [merge_with(inner), said('"merged"')], 1)
    assert collect_record_ids(records) == {inner.hash, *(record.hash for record in records)}
    assert collect_record_ids([]) == set()


def test_a_record_that_only_speaks_of_merging_is_none() -> None:
    records = behind(START, [said('{"type":"merged"}')], 1)
    assert [one.event for one in flatten_records(records)] == [
        json.loads(encode_entry(said('{"type":"merged"}'))[1])
    ]


def test_a_merge_of_a_newer_form_is_kept_as_it_is() -> None:
    strange = BranchRecord(2, "x", "0" * 32, {"type": "merged", "records": "elsewhere"})
    assert [*decode_merged_entries(merge_with(strange, branch_record(3, said("x"))))] == [said("x")]


def test_what_a_branch_brings_is_what_it_used_and_saw_and_what_people_said_there() -> None:
    brought = read_branch_contents(
        merge_with(
            branch_record(2, Renamed("t", "model", Usage(9, 1))),
            branch_record(3, Annotated("note")),
            branch_record(4, GitObserved("main", "beef")),
            branch_record(5, GitObserved()),
            branch_record(6, said("x")),
        )
    )
    assert brought.heads == ("beef",)
    assert brought.usage == Usage(), "a title brings its own usage when it is taken in"
    assert brought.said == (Renamed("t", "model", Usage(9, 1)), Annotated("note"))
    assert all(isinstance(one, MetadataFact) for one in brought.said)


def test_prompts_of_a_merge_come_back_as_they_were() -> None:
    fact = Merged(1, "0" * 32, (), (Message.user("a"),), (Message.user("b"),), "loom")
    assert decode_entry(encode_entry(fact)[1]) == fact


def test_a_branch_that_was_merged_is_known_up_to_each_of_its_records() -> None:
    ours = behind(START, [said("a"), said("b"), said("c")], 1)
    theirs = [*START, *behind(START, [said("other")], 2)]
    merged = Merged(1, START[0].hash, tuple(flatten_records(ours)))
    whole = [*theirs, *behind(theirs, [merged], 3)]
    for last in ours:
        found = collect_merged_branch(whole, last.seq, last.hash)
        assert found == [*START, *ours[: last.seq - 1]]
    for version, chain_hash in ((1, START[0].hash), (2, ours[1].hash), (5, "0" * 32), (0, "")):
        assert collect_merged_branch(whole, version, chain_hash) is None
    other_start = Merged(1, "0" * 32, merged.records)
    assert (
        collect_merged_branch([*theirs, *behind(theirs, [other_start], 3)], 3, ours[1].hash) is None
    )


def test_a_branch_of_which_a_part_is_elsewhere_is_not_put_together() -> None:
    ours = behind(START, [said("a"), said("b"), said("c")], 1)
    gapped = Merged(1, START[0].hash, tuple(flatten_records([ours[0], ours[2]])))
    whole = [*START, *behind(START, [gapped], 2)]
    assert collect_merged_branch(whole, 4, ours[2].hash) is None
    assert collect_merged_branch(whole, 2, ours[0].hash) == [*START, ours[0]]


def test_a_result_that_both_sides_have_does_not_come_as_a_note_too() -> None:
    """It joins the conversation with that of the last call, which only one side has."""
    asked = answer("", call("a"), call("b"))
    first, second = (ended(one, success(one, f"seen by {one}")) for one in "ab")
    rest: list[Entry] = [second, PostToolsHookCompleted(False, ""), answer("fine")]
    [fact] = merges_in(merged(two_sides(history(said("go"), asked, first), [], rest)))
    assert "seen by a" not in repr(fact.messages)
    sides = two_sides(history(said("go"), asked), [], [first])
    server = merged(sides)
    ours = [*sides.ours, *behind([*sides.common, *sides.ours], rest, 100)]
    fact = merge_of(Sides(sides.common, [], ours), server)
    assert fact is not None
    assert "seen by b" in repr(fact.messages)
    assert "seen by a" not in repr(fact.messages)
