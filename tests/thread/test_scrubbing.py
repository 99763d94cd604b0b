"""A text is taken out of what was merged as it is out of the thread's own records."""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from core.samples import answer, call, said
from thread.branching import behind
from thread.journals import HEADER, branch_record, fold_of, records_of, write
from treadle.core.messages import Message
from treadle.errors import UsageError
from treadle.thread.branches import collect_record_ids, decode_merged_entries
from treadle.thread.codec import decode_entry
from treadle.thread.facts import BranchRecord, ExtraSet, Merged
from treadle.thread.record import Head
from treadle.thread.scrub import RecordChange, ScrubbedJournal, scrub_journal

SECRET = "hunter2 \U0001f9f5"


def without(secret: str, **rest: dict[str, str]) -> RecordChange:
    return RecordChange(lambda text: text.replace(secret, "[SCRUBBED]"), **rest)  # type: ignore[arg-type]


def merged(*records: BranchRecord, message: str = "x") -> bytes:
    fact = Merged(1, "0" * 32, records, (Message.user(message),), (Message.user(message),), message)
    return write([(HEADER,), (fact,), (said("after"),)])[0]


def fact_in(done: ScrubbedJournal) -> Merged:
    fact = decode_entry(done.records[1].event)
    assert isinstance(fact, Merged)
    return fact


def test_a_text_is_taken_out_of_merged_records_and_messages() -> None:
    data = merged(
        branch_record(2, said(f"it is {SECRET}!")),
        branch_record(3, answer("", call("a", "edit", f'{{"key":"{SECRET}"}}'))),
        branch_record(4, ExtraSet({SECRET: [SECRET]})),
        message=SECRET,
    )
    done = scrub_journal(data, without(SECRET))
    assert done.count == 1
    assert b"hunter2" not in done.data
    assert records_of(done.data) == done.records
    fact = fact_in(done)
    assert [*decode_merged_entries(fact)] == [
        said("it is [SCRUBBED]!"),
        answer("", call("a", "edit", '{"key":"[SCRUBBED]"}')),
        ExtraSet({"[SCRUBBED]": ["[SCRUBBED]"]}),
    ]
    assert fact.messages == fact.queued == (Message.user("[SCRUBBED]"),)
    assert [message.content for message in fold_of(done.records).conversation] == [
        *("[SCRUBBED]", "after")
    ]


def test_merged_records_are_known_by_their_hashes_as_before() -> None:
    record = branch_record(2, said(SECRET))
    done = scrub_journal(merged(record), without(SECRET))
    assert record.hash in collect_record_ids(done.records)


@for_every_row("word", ["user_input", "content", "edit", "llm_completed", "role"])
def test_a_text_that_is_a_part_of_how_merged_records_are_written_stays(word: str) -> None:
    data = merged(
        branch_record(2, said("x")), branch_record(3, answer("", call("a", "edit"))), message="y"
    )
    with pytest.raises(UsageError):
        scrub_journal(data, without(word))


def test_a_blob_that_moved_is_named_anew_within_a_merge() -> None:
    old, new = "a" * 64, "b" * 64
    data = merged(branch_record(2, ExtraSet({"blob": {"sha256": old, "size": 3}})))
    done = scrub_journal(data, without("nothing", moved={old: new}))
    assert old.encode() not in done.data
    assert [*decode_merged_entries(fact_in(done))] == [
        ExtraSet({"blob": {"sha256": new, "size": 3}})
    ]


def test_what_a_newer_version_wrote_loses_its_texts_and_keeps_its_words() -> None:
    record = BranchRecord(2, "x", "0" * 32, {"type": "from_the_future", "said": SECRET})
    done = scrub_journal(merged(record), without(SECRET))
    assert fact_in(done).records[0].event == {"type": "from_the_future", "said": "[SCRUBBED]"}


def test_a_thread_goes_on_behind_a_scrubbed_merge() -> None:
    done = scrub_journal(merged(branch_record(2, said(SECRET))), without(SECRET))
    head = done.head
    assert head == Head(3, done.records[-1].hash, done.records[-1].at, len(done.data))
    more = behind(done.records, [answer("gladly")], 9)
    assert fold_of([*done.records, *more]).version == 4
