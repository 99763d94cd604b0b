"""A disk that fails at any call is a typed error: nothing acknowledged is lost, work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from runtime.clock import tick
from runtime.desk import (
    Desk,
    Folder,
    Heard,
    Model,
    Run,
    Toolbox,
    calls,
    for_ever,
    imbalance,
    mutate,
    read,
)
from runtime.disks import full
from runtime.test_intent import RECORD_OF
from treadle import outputs
from treadle.errors import DiskError, StoreError
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.runtime.session import Session
from treadle.store import thread_writer as snapshots

REPLIES: tuple[Any, ...] = (
    {"when": {"user": "more"}, "text": "more done"},
    calls("look", "edit", text="I look"),
    {"error": {"kind": "network", "retry_after_s": 0}},
    "done",
)


class Attempt(Struct):
    """A session whose disk fails at the so-many-eth call of an operation, and what it did."""

    session: Session
    model: Model
    tools: Toolbox
    others: list[asyncio.Task[TurnFinished]]
    has_failed: bool = False


def attempt(desk: Desk, operation: str, number: int) -> Attempt:
    """A turn with everything: two calls, a hook, a retry, and input while busy."""
    desk.heard = Heard()
    model = Model(*REPLIES)

    async def edit(_: Run) -> str:
        this.others.append(asyncio.ensure_future(this.session.turn("more")))
        await tick(2)
        return "edited"

    tools = Toolbox(look=read(), edit=mutate(edit))
    session = desk.new(model, tools, workspace=Folder())
    this = Attempt(session, model, tools, [])
    seen = 0

    def fail(asked: str, *_: Any) -> None:
        nonlocal seen
        seen += asked == operation
        if seen == number and not this.has_failed:
            this.has_failed = True
            raise full(operation)

    desk.disk.before = fail
    return this


async def fail_at(desk: Desk, operation: str, number: int, *, is_kept: bool) -> bool:
    """Let it fail there and look at everything; False if there is no such call any more."""
    this = attempt(desk, operation, number)
    session, thread_id = this.session, this.session.thread_id
    (result,) = await asyncio.gather(session.turn("go"), return_exceptions=True)
    if not this.has_failed:
        assert isinstance(result, TurnFinished)
        assert result.answer == "more done"
        return False
    assert isinstance(result, DiskError)
    assert result.operation == ("write" if operation == "size" else operation)
    for other in await asyncio.gather(*this.others, return_exceptions=True):
        assert isinstance(other, StoreError)
    assert len(this.tools.ended) == len(this.tools.runs), "all work was stopped"
    acknowledged = desk.disk.durable(desk.journal(thread_id))
    kinds = desk.kinds(thread_id)
    for kind, name in RECORD_OF.items():
        assert len(desk.heard.of(kind)) <= kinds.count(name), "nothing was shown that is not there"
    await is_finished(this)
    await session.close()
    assert desk.disk.open_count == 0
    if not is_kept:
        desk.journal(thread_id).write_bytes(acknowledged)
    desk.crash()
    await goes_on(desk, this, acknowledged)
    return True


async def is_finished(this: Attempt) -> None:
    """The session refuses everything, and asks nobody anything any more."""
    asked, ran = len(this.model.requests), len(this.tools.runs)
    for use in (this.session.turn("again"), this.session.resume()):
        with pytest.raises(StoreError):
            await use
    await tick(5)
    assert (len(this.model.requests), len(this.tools.runs)) == (asked, ran)


async def goes_on(desk: Desk, this: Attempt, acknowledged: bytes) -> None:
    """The thread opens with all that was acknowledged, and gets to its end."""
    thread_id = this.session.thread_id
    tools = Toolbox(look=read(), edit=mutate())
    again = desk.reopen(thread_id, Model(*REPLIES), tools, workspace=Folder())
    assert desk.journal(thread_id).read_bytes().startswith(acknowledged)
    finished = await again.resume()
    assert finished.outcome is TurnOutcome.DONE
    assert imbalance(again.conversation) == ""
    kinds = desk.kinds(thread_id)
    assert kinds.count("tool_uncertain") <= 1
    assert [*this.tools.ran, *tools.ran].count("edit") <= 1
    said = [m.content for m in again.conversation if m.role == "user"]
    assert said in ([], ["go"], ["go", "more"])
    assert len(said) == kinds.count("user_input")
    desk.check(again)
    await again.close()


WHAT_IS_LEFT: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "all but the end": lambda data: data[:-1],
    "one record": lambda data: data[: data.index(b"\n") + 1],
    "everything": lambda data: data,
}


@pytest.mark.parametrize("left", WHAT_IS_LEFT)
async def test_a_write_may_fail_anywhere_and_leave_anything(desk: Desk, left: str) -> None:
    number = 0
    while True:
        number += 1
        desk.disk.left_by_failed_write = WHAT_IS_LEFT[left]
        if not await fail_at(desk, "write", number, is_kept=True):
            break
    assert number == 12, "each of the eleven writes of the turn has failed once"


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "lost"])
@pytest.mark.parametrize("operation", ["sync", "size"])
async def test_a_sync_may_fail_anywhere_and_keep_or_lose_what_it_was_for(
    desk: Desk, operation: str, is_kept: bool
) -> None:
    number = 0
    while True:
        number += 1
        if not await fail_at(desk, operation, number, is_kept=is_kept):
            break
    assert number == 12


async def test_a_disk_error_stops_the_tools_that_still_run(desk: Desk) -> None:
    tools = Toolbox(quick=read(), slow=mutate(for_ever))
    session = desk.new(Model(calls("quick", "slow")), tools)

    def fail(operation: str, *_: Any) -> None:
        if operation == "sync" and tools.ended:
            raise full(operation)

    desk.disk.before = fail
    with pytest.raises(DiskError):
        await session.turn("go")
    assert sorted(tools.ended) == ["call-1-0", "call-1-1"]


async def test_an_answer_that_is_not_durable_is_never_told(desk: Desk) -> None:
    session = desk.new(Model("the answer"))

    def fail(operation: str, *_: Any) -> None:
        if operation == "sync" and desk.heard.of(outputs.TextDelta):
            raise full(operation)

    desk.disk.before = fail
    for use in (session.turn("go"), session.resume(), session.turn("go"), session.resume()):
        with pytest.raises(StoreError):
            await use
    assert not desk.heard.of(outputs.TurnFinished)


async def test_a_cancel_that_cannot_be_recorded_is_no_cancel(desk: Desk) -> None:
    session = desk.new(Model({"text": "Once", "hang": True}))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.TextDelta)

    def fail(operation: str, *_: Any) -> None:
        if operation == "write":
            raise full()

    desk.disk.before = fail
    session.cancel()
    with pytest.raises(DiskError):
        await turn
    desk.crash()
    assert not desk.reopen(session.thread_id, Model("done")).is_waiting


async def test_a_disk_that_fails_while_a_session_is_closed_frees_the_thread(desk: Desk) -> None:
    folder = Folder()
    session = desk.new(Model("done"), workspace=folder)
    await session.turn("go")
    folder.head = 9

    def fail(operation: str, *_: Any) -> None:
        if operation == "write":
            raise full()

    desk.disk.before = fail
    with pytest.raises(DiskError):
        await session.close()
    assert desk.disk.open_count == 0
    desk.crash()
    assert (await desk.reopen(session.thread_id, Model("done")).turn("go")).answer == "done"


async def test_a_snapshot_that_cannot_be_written_is_told_and_loses_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOT_TAIL_SIZE_MIN", 0)
    session = desk.new(Model("done"))
    (desk.folder / "data" / "threads" / "tmp").write_bytes(b"in the way of the folder")
    assert (await session.turn("go")).answer == "done"
    await session.close()
    assert ["no snapshot was written" in told.text for told in desk.heard.of(outputs.Notice)] == [
        True,
        True,
    ]
    assert desk.disk.open_count == 0
    (desk.folder / "data" / "threads" / "tmp").unlink()
    again = desk.reopen(session.thread_id, Model("done"))
    assert len(again.conversation) == 2


async def test_somebody_else_who_writes_to_the_journal_is_noticed(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    with desk.journal(session.thread_id).open("ab") as file:
        file.write(b"x")
    with pytest.raises(StoreError, match="somebody else wrote"):
        await session.turn("go")
