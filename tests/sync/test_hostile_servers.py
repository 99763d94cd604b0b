"""A server that lies, or never ends, costs nobody a record and learns nothing private."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store.shelf import CREATOR
from sync.desk import Desk, DeskRemote, Kept
from sync.test_client import THREAD, Lines, chunked, remote_of
from sync.test_engine import MORE, TALK, machines, pair
from sync.wire_server import Asked, WireServer
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead, ThreadHeads
from treadle.errors import RemoteRefusedError
from treadle.store.record_adoption import split_journal_lines
from treadle.sync import client, remote_heads, thread_fetch
from treadle.sync.refusals import describe_remote_scrub
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Scrubbed
from treadle.thread.record import Head, encode_batch, scan_journal


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_record_that_says_scrubbed_alone_takes_nothing_away(desk: Desk) -> None:
    one, _, thread = pair(desk)
    one.go_on(thread, *MORE)
    one.engine.sync()
    before, hashes = one.said(thread), one.hashes(thread)
    kept = desk.kept[thread]
    first = kept.records[0]
    _, event = encode_entry(Scrubbed(1, kept.mark.hash))
    lie, _ = encode_batch(Head(1, first.hash, first.at), one.clock(), [event])
    desk.keep(thread, Kept(split_journal_lines(kept.data)[0] + lie))
    report = one.engine.sync()
    [conflict] = report.conflicts
    assert {record.hash for record in scan_journal(one.disk.read(conflict.kept)).records} == hashes
    assert one.said(thread) == before


def test_a_scrub_of_the_server_is_told_to_whoever_takes_it_over(desk: Desk) -> None:
    from treadle.store.upkeep.scrub import scrub

    one, two, thread = pair(desk)
    scrub(one.store, [thread], lambda text: text.replace("first", "[REDACTED:x]"))
    one.engine.sync()
    assert two.engine.sync().notes == (describe_remote_scrub(thread),)
    assert two.said(thread) == ["one", "[REDACTED:x]"]


# ---- answers without an end ----------------------------------------------------------------------


def endless(*pieces: bytes) -> Iterator[bytes]:
    yield chunked(end=Mark(1, "a" * 32), is_whole=False)
    while True:
        yield from (b"%x\r\n%s\r\n" % (len(one), one) for one in pieces)


@pytest.mark.parametrize("piece", [b"no journal\n" * 100, Lines(10, 10).writes[0]])
def test_records_without_an_end_are_read_to_the_first_that_cannot_be(piece: bytes) -> None:
    def answer_endlessly(_: Asked) -> Iterator[bytes]:
        return endless(piece)

    with (
        WireServer(answer_endlessly) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError, match="does not look like"),
    ):
        list(remote.records(THREAD, Mark()))


def test_records_are_read_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RECORDS_SIZE_MAX", 1000)
    thread = Lines(300, 300, 300)
    with (
        WireServer(chunked(*thread.writes, end=thread.end)) as server,
        remote_of(server) as remote,
        pytest.raises(RemoteRefusedError, match="no end"),
    ):
        list(remote.records(THREAD, Mark()))


class EndlessHeads(DeskRemote):
    """A server that always has more heads, each page made by what it is given."""

    def __init__(self, desk: Desk, kind: str) -> None:
        super().__init__(desk)
        self.kind = kind
        self.count = 0

    def heads(self, after: int, stamp: str = "") -> ThreadHeads:
        self.count += 1
        assert self.count < 100
        found = (ThreadHead(THREAD, 1, "a" * 32, after + 1),)
        change = after if self.kind == "stands still" else after + 1
        is_reset = self.kind == "begins anew"
        return ThreadHeads(() if self.kind == "empty" else found, change, False, "s", is_reset)


@pytest.mark.parametrize("kind", ["stands still", "empty", "begins anew", "goes on"])
def test_a_list_of_heads_without_an_end_is_given_up(
    desk: Desk, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_heads, "HEAD_COUNT_MAX", 10)
    with pytest.raises(RemoteRefusedError, match="no end"):
        remote_heads.list_heads(EndlessHeads(desk, kind))


@pytest.mark.parametrize("depth_max", [3, 5])
def test_forks_of_forks_are_followed_so_far_and_no_further(
    desk: Desk, depth_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_fetch, "DEPTH_MAX", depth_max)
    one, two = machines(desk)
    thread = one.begin(*TALK)
    for _ in range(4):
        writer = one.store.fork(thread, creator=CREATOR)
        writer.close()
        thread = writer.thread_id
    one.engine.sync()
    desk.calls.clear()
    report = two.engine.sync([thread])
    assert len(report.received) == (5 if depth_max == 5 else 0)
    assert len([call for call in desk.calls if call.startswith("records")]) == depth_max


# ---- what is private -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["base", "parent"])
@pytest.mark.parametrize("is_here", [False, True])
def test_nobody_learns_whether_a_private_thread_is_here(
    desk: Desk, how: str, is_here: bool
) -> None:
    """The server has a thread that says it hangs on one whose id it has guessed."""
    one, two = machines(desk)
    private = one.begin(*TALK, is_private=True)
    if how == "base":
        writer = one.store.fork(private, creator=CREATOR)
    else:
        writer = one.store.create(CREATOR, parent=(private, "c", 1))
    writer.close()
    name = writer.thread_id
    data = one.journal(name)
    if is_here:
        one.disk.unlink(f"/home/data/threads/{name}.jsonl")
        if f"{name}.json" in one.disk.list("/home/data/threads"):
            one.disk.unlink(f"/home/data/threads/{name}.json")
    desk.keep(name, Kept(data))
    machine = one if is_here else two
    reports = [machine.engine.sync() for _ in range(2)]
    assert [report.removed for report in reports] == [(), ()]
    asked = [call for call in desk.calls if call != "heads"]
    if how == "base":
        # What a fork goes on from is asked for as one's own first, then as anybody's.
        wanted = [f"records {one}" for one in ([name] if is_here else [name, private, private])]
        assert asked == wanted * (len(asked) // len(wanted))
        assert (f"records {private}" in asked) is not is_here
    else:
        assert {call.split()[0] for call in asked} == {"records"}
    if is_here:
        assert name not in one.store.ids()


def test_a_base_that_is_here_and_was_synced_is_not_asked_for(desk: Desk) -> None:
    one, two, thread = pair(desk)
    writer = one.store.fork(thread, creator=CREATOR)
    writer.close()
    one.engine.sync()
    desk.calls.clear()
    assert two.engine.sync().received == (writer.thread_id,)
    assert desk.calls == ["heads", f"records {writer.thread_id}"]
