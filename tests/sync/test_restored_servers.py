"""A server that an older backup was put back on gets what it has lost, from whoever has it."""

from __future__ import annotations

import pytest

from core.samples import answer, said
from store.shelf import fill
from sync.desk import Desk
from sync.test_engine import MORE, TALK, pair
from treadle.store.send_lock import set_private


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("has_gone_on", [False, True])
def test_all_machines_converge_and_nothing_is_lost(desk: Desk, has_gone_on: bool) -> None:
    """Another machine may be first, so that the numbers of changes are taken anew."""
    one, two, thread = pair(desk)
    put_back = desk.backup()
    one.go_on(thread, *MORE)
    new = one.begin(*TALK)
    one.engine.sync()
    change = desk.change
    put_back()
    if has_gone_on:
        two.go_on(thread, (said("other"),), (answer("no"),))
        others = [two.begin(*TALK) for _ in range(2)]
        two.engine.sync()
        assert desk.change >= change
    for machine in (one, two, one, two):
        assert machine.engine.sync(is_wanted=False).is_complete
    for name in (thread, new, *(others if has_gone_on else ())):
        assert desk.kept[name].data == one.journal(name) == two.journal(name)
    assert {"two", "second", *(("other", "no") if has_gone_on else ())} <= {*one.said(thread)}


@pytest.mark.parametrize("how", ["send", "save_and_sync"])
def test_what_it_never_heard_of_is_not_taken_for_removed(desk: Desk, how: str) -> None:
    put_back = desk.backup()
    one, two, thread = pair(desk)
    put_back()
    one.go_on(thread, *MORE)
    report = getattr(one.engine, how)(thread)
    assert (report.sent, report.notes) == ((thread,), ())
    two.engine.sync()
    assert desk.kept[thread].data == one.journal(thread) == two.journal(thread)


def test_what_is_to_be_pulled_from_there_and_is_gone_is_sent_again(desk: Desk) -> None:
    put_back = desk.backup()
    one, two, thread = pair(desk)
    writer = two.store.open(thread)
    one.go_on(thread, *MORE)
    one.engine.sync()
    assert two.engine.sync().waiting
    put_back()
    fill(writer, (said("mine"),), (answer("yes"),))
    writer.close()
    assert two.engine.save_and_sync(thread).is_complete
    one.engine.sync()
    two.engine.sync()
    assert desk.kept[thread].data == one.journal(thread) == two.journal(thread)
    assert {"mine", "two", "second"} <= {*one.said(thread)}


def test_what_was_removed_meanwhile_is_not_sent_again(desk: Desk) -> None:
    one, two, thread = pair(desk)
    set_private(one.store, thread)
    one.engine.sync()
    two.go_on(thread, *MORE)
    report = two.engine.send(thread)
    assert report.sent == ()
    assert "removed from the server" in report.notes[0]
    assert desk.kept[thread].data == b""
