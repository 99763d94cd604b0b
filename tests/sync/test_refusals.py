"""What a server will not take: what is told of it names the next step."""

from __future__ import annotations

import pytest

from core.samples import said
from store.shelf import CREATOR, fill
from sync.desk import Desk
from sync.test_engine import MORE, TALK, machines, pair
from treadle.store.send_lock import set_private
from treadle.thread.facts import Annotated


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_write_that_is_too_large_is_parked_and_names_the_option(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin(*TALK, (Annotated("x" * 3000),))
    other = one.begin(*TALK)
    desk.body_size_max = 2000
    report = one.engine.sync()
    assert other in report.sent
    [problem] = report.refused
    assert problem.thread_id == thread
    assert "`treadle serve --body-max`" in problem.why
    [entry] = one.engine.status().pending
    assert (entry.parked, entry.last_error) == ("refused", problem.why)
    desk.body_size_max = 2**20
    assert one.engine.sync().sent == (thread,)


def test_a_fork_of_a_branch_that_only_this_machine_keeps_is_told_with_what_it_needs(
    desk: Desk,
) -> None:
    one, two, thread = pair(desk)
    one.go_on(thread, (said("mine"),))
    two.go_on(thread, (said("other"),))
    writer = two.store.fork(thread, creator=CREATOR)
    fill(writer, (Annotated("on"),))
    writer.close()
    one.engine.sync()
    [problem] = two.engine.sync(on_conflict="fork").refused
    assert problem.thread_id == writer.thread_id
    assert f"a branch of {thread} which was merged" in problem.why
    assert "`treadle export`" in problem.why


def test_a_fork_made_elsewhere_that_hangs_on_a_private_thread_is_removed_and_told(
    desk: Desk,
) -> None:
    one, two, thread = pair(desk)
    writer = two.store.fork(thread, creator=CREATOR)
    fill(writer, *MORE)
    writer.close()
    fork = writer.thread_id
    two.engine.sync()
    one.engine.sync()
    set_private(one.store, thread)
    report = one.engine.sync()
    assert set(report.removed) == {thread, fork}
    [note] = report.notes
    assert note.startswith(f"{fork} was removed from the server too: it hangs on {thread}")
    assert desk.kept[fork].data == b""
    assert len(two.engine.sync().notes) == 2
    assert two.said(fork) == ["one", "first", "two", "second"]
