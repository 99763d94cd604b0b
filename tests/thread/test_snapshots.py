"""A snapshot is a cache: with the tail it equals the whole fold, and damaged it is nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from core.samples import EVENTS_TRIED
from thread.journals import ID, PLAIN, fold_of, large, random_batches, records_of, write
from treadle.thread.codec import decode_entry
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, Record
from treadle.thread.snapshot import Snapshot, decode_snapshot, encode_snapshot, restore_fold


def head_of(data: bytes, count: int) -> Head:
    """The head after the first records of a journal."""
    record = records_of(data)[count - 1]
    size = sum(map(len, data.splitlines(keepends=True)[:count]))
    return Head(record.seq, record.hash, record.at, size)


def extended(fold: ThreadFold, records: list[Record]) -> ThreadFold:
    for record in records:
        fold.apply(record.seq, record.at, decode_entry(record.event))
    return fold


def restored(data: bytes) -> ThreadFold:
    snapshot = decode_snapshot(data)
    assert snapshot is not None
    fold = restore_fold(snapshot)
    assert fold is not None
    return fold


def assert_same(one: ThreadFold, other: ThreadFold) -> None:
    assert one.state == other.state
    assert one.machine.obligations() == other.machine.obligations()
    assert one.machine.config == other.machine.config
    assert one.document() == other.document()
    assert encode_snapshot(one, Head()) == encode_snapshot(other, Head())


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(1, 40))
def test_a_snapshot_at_any_cut_and_the_tail_equal_the_whole_fold(
    random: Random, count: int
) -> None:
    data, head = write(random_batches(random, count))
    records = records_of(data)
    whole = fold_of(records)
    for cut in range(1, head.seq + 1):
        taken = encode_snapshot(fold_of(records[:cut]), head_of(data, cut))
        assert_same(restored(taken), fold_of(records[:cut]))
        assert_same(extended(restored(taken), records[cut:]), whole)


def test_random_journals_hold_every_state_when_the_snapshot_is_taken() -> None:
    kinds = set()
    for seed in range(60):
        records = records_of(write(random_batches(Random(seed), 40))[0])
        fold = fold_of(records[:1])
        for record in records[1:]:
            extended(fold, [record])
            kinds.add((fold.document().agent_state.kind, bool(fold.queued), bool(fold.observed)))
    states = ("waiting_for_user_input", "calling_llm", "executing_tools", "post_tools_hook")
    for kind in (*states, "error", "waiting_for_approval", "compacting"):
        assert {(kind, True, True), (kind, True, False)} & kinds
        assert any(found[0] == kind and not found[1] for found in kinds)


PLAIN_DATA: Final = write(PLAIN)[0]
TAKEN: Final = encode_snapshot(
    fold_of(records_of(PLAIN_DATA)[:6]), head_of(PLAIN_DATA, len(records_of(PLAIN_DATA)[:6]))
)


def test_the_file_is_json_of_a_message_a_line_that_ends_with_its_checksum() -> None:
    told = json.loads(TAKEN)
    lines = TAKEN.splitlines()
    messages = told["thread"]["conversation"]["messages"]
    assert [json.loads(line.rstrip(b",")) for line in lines[1 : len(messages) + 1]] == messages
    assert list(told)[-1] == "checksum"
    assert told["thread"]["id"] == ID
    assert told["format"] == 1
    sealed = TAKEN[: TAKEN.rindex(b",\n")]
    assert told["checksum"] == sha256(sealed).hexdigest()


def test_the_snapshot_names_the_record_it_stands_on() -> None:
    snapshot = decode_snapshot(TAKEN)
    assert snapshot is not None
    assert snapshot.head == head_of(PLAIN_DATA, 6)


def test_a_flipped_bit_makes_it_nothing() -> None:
    good = decode_snapshot(TAKEN)
    for place in range(len(TAKEN)):
        for bit in range(8):
            data = bytearray(TAKEN)
            data[place] ^= 1 << bit
            assert decode_snapshot(bytes(data)) is None, (place, bit)
    assert good is not None


def test_a_cut_or_a_longer_file_is_nothing() -> None:
    for size in range(len(TAKEN)):
        assert decode_snapshot(TAKEN[:size]) is None
    for tail in (b"\n", b"\0", b"{}", TAKEN):
        assert decode_snapshot(TAKEN + tail) is None
    assert decode_snapshot(TAKEN[1:]) is None


def sealed(told: Any) -> bytes:
    """A file whose checksum is right, whatever it holds."""
    text = json.dumps(told, indent=2).encode()
    body = text[: text.rindex(b"}")].rstrip()
    return body + b',\n  "checksum": "%b"\n}\n' % sha256(body).hexdigest().encode()


def changed(change: Callable[[Any], Any]) -> bytes:
    told = json.loads(TAKEN)
    del told["checksum"]
    change(told)
    return sealed(told)


def test_a_right_checksum_over_the_same_content_is_the_same_snapshot() -> None:
    assert decode_snapshot(changed(lambda told: None)) == decode_snapshot(TAKEN)


def test_a_newer_or_older_format_is_nothing() -> None:
    for number in (0, 3, 99, -1):
        assert decode_snapshot(changed(lambda told, n=number: told.update(format=n))) is None


def test_fields_of_a_newer_program_are_passed_over() -> None:
    def change(told: Any) -> None:
        told["later"] = {"x": [1]}
        told["thread"]["mood"] = "good"

    assert decode_snapshot(changed(change)) == decode_snapshot(TAKEN)


def _state(told: Any) -> Any:
    return told["thread"]["agent_state"]


def _deep(told: Any) -> None:
    nested: Any = 0
    for _ in range(900):
        nested = [nested]
    told["thread"]["metadata"] = {"extra": {"x": nested}}


def _error_state(told: Any, **rest: Any) -> None:
    told["thread"]["agent_state"] = {"kind": "error", **rest}


HOSTILE: Final[dict[str, Callable[[Any], Any]]] = {
    "a state to come": lambda told: _state(told).update(kind="dreaming"),
    "a state never stored": lambda told: _state(told).update(kind="shutting_down"),
    "a state never seen": lambda told: _state(told).update(kind="processing_llm_response"),
    "an origin to come": lambda told: _error_state(told, origin="weather"),
    "an error without a failure": _error_state,
    "no open calls": lambda told: _state(told).update(executions=[]),
    "one call too many": lambda told: _state(told)["executions"].append(
        {"status": "pending", "call_id": "z", "tool_name": "look", "requested_at": ""}
    ),
    "calls of another round": lambda told: [
        status.update(call_id="z") for status in _state(told)["executions"]
    ],
    "no conversation": lambda told: told["thread"]["conversation"].update(messages=[]),
    "a foreign machine": lambda told: told["header"].update(machine="task"),
    "a newer thread": lambda told: told["header"].update(format=2),
    "negative size": lambda told: told["head"].update(size=-1),
    "size beyond 64 bits": lambda told: told["head"].update(size=10**30),
    "negative seq": lambda told: told["head"].update(seq=-1),
    "another version than its record": lambda told: told["thread"].update(version=3),
    "deep": _deep,
    "retries as text": lambda told: _state(told).update(retries="3"),
    "a list": lambda told: told.update(thread=[]),
    "nothing": lambda told: told.clear(),
}


@for_every_row("name", HOSTILE)
def test_a_forged_snapshot_gives_nothing_or_a_thread_that_can_go_on(name: str) -> None:
    snapshot = decode_snapshot(changed(HOSTILE[name]))
    if snapshot is None:
        return
    assert 0 <= snapshot.head.size < 2**63
    fold = restore_fold(snapshot)
    if fold is None:
        return
    assert fold.version == snapshot.head.seq
    fold.document()
    fold.machine.obligations()
    for event in EVENTS_TRIED:
        fold.machine.with_state(fold.state).handle_event(event)


def test_the_forgeries_are_taken_for_what_they_are() -> None:
    harmless = {"an error without a failure", "deep"}
    for name, change in HOSTILE.items():
        snapshot = decode_snapshot(changed(change))
        fold = None if snapshot is None else restore_fold(snapshot)
        assert (fold is not None) == (name in harmless), name


def test_taking_a_snapshot_changes_nothing() -> None:
    fold = fold_of(records_of(large()))
    before = fold.document()
    assert encode_snapshot(fold, Head()) == encode_snapshot(fold, Head())
    assert fold.document() == before


_READ_AT_ONCE: Final = """
import sys, threading
from treadle.thread.snapshot import decode_snapshot
sys.setswitchinterval(1e-6)
data, begin = sys.stdin.buffer.read(), threading.Barrier(8)
def read():
    begin.wait()
    assert decode_snapshot(data) is not None
threads = [threading.Thread(target=read) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
"""


def test_the_first_snapshots_may_be_read_by_many_threads_at_once() -> None:
    """As by the worker of a fleet; what reads them must not be made by two threads at a time."""
    ends = {
        subprocess.run([sys.executable, "-c", _READ_AT_ONCE], input=TAKEN).returncode
        for _ in range(8)
    }
    assert ends == {0}


def test_every_field_of_a_snapshot_comes_back() -> None:
    snapshot = decode_snapshot(TAKEN)
    assert isinstance(snapshot, Snapshot)
    fold = restored(TAKEN)
    assert encode_snapshot(fold, snapshot.head) == TAKEN
