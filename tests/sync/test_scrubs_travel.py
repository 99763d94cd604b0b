"""A scrub on one machine reaches the server and the others, and costs nobody a record."""

from __future__ import annotations

import pytest

from core.samples import answer, said
from sync.desk import Desk
from sync.test_engine import machines, pair
from treadle.store.upkeep.scrub import scrub


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_scrub_reaches_the_server_and_the_other_machines(desk: Desk) -> None:
    one, two = machines(desk)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    one.engine.sync()
    two.engine.sync()
    two.go_on(thread, (said("later"),), (answer("fine"),))
    scrub(one.store, [thread], lambda text: text.replace("hunter2", "[gone]"))
    assert one.engine.sync().replaced == (thread,)
    assert b"hunter2" not in desk.kept[thread].data
    report = two.engine.sync()
    assert report.sent == (thread,)
    assert "the word is [gone]" in two.said(thread)
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
    scrub(one.store, [thread], lambda text: text.replace("hunter2", "[gone]"))
    assert one.engine.sync().replaced == (thread,)
    assert one.said(thread) == ["the word is [gone]", "I see", "later", "fine"]
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
    scrub(two.store, [thread], lambda text: text.replace("hunter2", "[gone]"))
    two.engine.sync()
    one.engine.sync()
    two.engine.sync()
    assert one.journal(thread) == two.journal(thread) == desk.kept[thread].data
    texts = one.said(thread)
    assert sorted(texts) == sorted({*texts})
    assert {"the word is [gone]", "only there", "only here"} <= {*texts}
    assert b"hunter2" not in b"".join(one.disk.files().values())
