"""What a sync after a turn reads does not grow with what was said before, but for one look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest

from core.samples import answer, said
from sync.desk import Desk, Machine
from treadle.store.send_lock import set_private
from treadle.thread.facts import PrivacySet


class Reads:
    """How often files of each ending are read in pieces; all of a long one is, if any."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        pieces = machine.disk.pieces

        def counted(path: str, offset: int = 0) -> Generator[bytes, None, None]:
            self.counts[path.rpartition(".")[2]] += 1
            yield from pieces(path, offset)

        monkeypatch.setattr(machine.disk, "pieces", counted)


def test_a_snapshot_is_read_once_when_a_turn_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    one = Machine(desk.remote())
    thread = one.begin(*((said("u" * 300),), (answer("v" * 300),)) * 40)
    one.engine.sync()
    one.go_on(thread, (said("more"),), (answer("yes"),))
    reads = Reads(one, monkeypatch)
    assert one.engine.send(thread).sent == (thread,)
    assert reads.counts["json"] == 1


def test_what_says_something_of_privacy_is_read_whole_at_once() -> None:
    desk = Desk()
    one = Machine(desk.remote())
    thread = one.begin((said("one"),), (answer("first"),))
    one.engine.sync()
    set_private(one.store, thread)
    desk.calls.clear()
    assert one.engine.send(thread).removed == (thread,)
    assert desk.calls == [f"purge {thread}"]
    one.go_on(thread, (PrivacySet(False),), (said("two"),))
    assert one.engine.send(thread).sent == (thread,)
