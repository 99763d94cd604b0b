"""What could not be done at once is done by a later sync: outputs, places, lost cursors."""

from __future__ import annotations

from msgspec.structs import replace

from core.samples import answer, call, ended, said
from core.samples import success as outcome
from store.shelf import CREATOR, fill
from sync.desk import Desk, Machine, digest
from sync.test_engine import TALK, pair
from treadle.core.events import ToolStarted
from treadle.core.messages import BlobRef
from treadle.store.blobs import Blobs
from treadle.store.send_lock import set_private
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.trash import Trash


def test_an_output_that_was_missing_is_sent_and_fetched_when_it_is_there() -> None:
    desk = Desk()
    one, two = Machine(desk.remote(), 1), Machine(desk.remote(), 2)
    writer = one.store.create(CREATOR)
    data = b"y" * 1000
    ref = BlobRef(digest(data), len(data))
    done = ended("a", replace(outcome("a", "cut", "f"), blob=ref))
    fill(writer, (said("do"),), (answer("", call("a", "edit")), ToolStarted("a", "t")), (done,))
    writer.close()
    assert one.engine.sync().notes
    assert two.engine.sync().notes
    one.engine.sync()
    assert desk.kept[writer.thread_id].outputs == {}
    Blobs(one.store.folders).keep(data)
    one.engine.sync()
    assert desk.kept[writer.thread_id].outputs == {ref.sha256: data}
    two.engine.sync()
    assert two.store.read_blob(ref) == data
    desk.calls.clear()
    assert [machine.engine.sync().is_complete for machine in (one, two)] == [True, True]
    assert desk.calls == ["heads", "heads"], "it is looked for no more"


def test_a_branch_that_was_trashed_becomes_a_thread_in_the_trash() -> None:
    desk = Desk()
    one, two, thread = pair(desk)
    one.go_on(thread, (said("mine"),), (answer("yes"),))
    two.go_on(thread, (said("other"),), (answer("no"),))
    Trash(two.store).put([thread])
    one.engine.sync()
    [conflict] = two.engine.sync(on_conflict="fork").conflicts
    assert two.store.folders.find(conflict.fork)[1]
    assert not two.store.folders.find(thread)[1]
    two.engine.sync()
    one.engine.sync()
    assert one.store.folders.find(conflict.fork)[1]


def test_the_copy_of_a_private_thread_goes_though_its_cursor_was_lost() -> None:
    desk = Desk()
    one = Machine(desk.remote())
    thread, hidden = one.begin(*TALK), one.begin(*TALK, is_private=True)
    one.engine.sync()
    one.cursors.remove(thread)
    set_private(one.store, thread)
    assert one.engine.sync().removed == (thread,)
    assert desk.kept[thread].is_purged
    assert one.engine.sync().removed == ()
    assert hidden.encode() not in b"".join(desk.received)


def test_what_comes_in_behind_a_scrub_is_told() -> None:
    desk = Desk()
    one, two, thread = pair(desk)
    two.go_on(thread, (said("the first again"),), (answer("yes"),))
    two.engine.sync()
    scrub(one.store, [thread], lambda text: text.replace("first", "[REDACTED:x]"))
    report = one.engine.sync()
    assert report.replaced == (thread,)
    assert [note for note in report.notes if "scrub it again" in note]
    assert b"first" in desk.kept[thread].data, "which is why it is told"
