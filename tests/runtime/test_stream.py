"""A turn as a stream: outputs in order, the end last, nothing left behind by who stops early."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Folder, Model, Run, Toolbox, calls, for_ever, ignore, mutate, read
from runtime.disks import full
from treadle import outputs
from treadle.core.tools import ToolProgress
from treadle.errors import DiskError, StoreError, UsageError
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.session import Session


async def all_of(session: Session, text: str | None = "go") -> list[Output]:
    return [output async for output in session.stream(text)]


def names(told: list[Output]) -> list[str]:
    return [type(output).__name__ for output in told]


async def test_outputs_come_in_order_and_the_end_comes_last(desk: Desk) -> None:
    model = Model(
        {**calls("look", "edit"), "chunks": ["I ", "look"]},
        {"error": {"kind": "network", "retry_after_s": 0}},
        {"chunks": ["do", "ne"]},
    )
    tools = Toolbox(look=read(), edit=mutate())
    session = desk.new(model, tools, workspace=Folder())
    told = await all_of(session)
    assert " ".join(names(told)) == (
        "TurnStarted TextDelta TextDelta ToolStarted ToolStarted ToolFinished ToolFinished "
        "HookFinished Retrying TextDelta TextDelta TurnFinished"
    )
    last = told[-1]
    assert isinstance(last, TurnFinished)
    assert (last.outcome, last.answer) == (TurnOutcome.DONE, "done")
    assert last.version == len(desk.events(session.thread_id))
    assert "".join(o.text for o in told if isinstance(o, outputs.TextDelta)) == "I lookdone"


async def test_who_listens_to_the_session_hears_a_streamed_turn_as_well(desk: Desk) -> None:
    session = desk.new(Model("done"))
    told = await all_of(session)
    assert desk.heard.outputs == told[:-1]
    await session.turn("again")
    assert len(desk.heard.of(outputs.TurnStarted)) == 2


async def test_an_unfinished_turn_can_be_resumed_as_a_stream(desk: Desk) -> None:
    session = desk.new(Model("done"))
    desk.heard.on_output = lambda output: (
        session.driver.interrupt() if isinstance(output, outputs.TurnStarted) else None
    )
    await session.turn("go")
    desk.heard.on_output = ignore
    told = await all_of(session, None)
    assert names(told) == ["Notice", "TextDelta", "TurnFinished"]


async def test_a_stream_is_read_while_it_is_made(desk: Desk) -> None:
    release = asyncio.Event()

    async def wait(_: Run) -> str:
        await release.wait()
        return "released"

    session = desk.new(Model(calls("a"), "done"), Toolbox(a=mutate(wait)))
    seen = []
    async for output in session.stream("go"):
        seen.append(output)
        if isinstance(output, outputs.ToolStarted):
            release.set()
    assert isinstance(seen[-1], TurnFinished)


@pytest.mark.parametrize(
    "last", [outputs.TurnStarted, outputs.TextDelta, outputs.ToolStarted, outputs.ToolFinished]
)
async def test_who_leaves_a_stream_early_stops_the_turn_where_it_is(desk: Desk, last: type) -> None:
    is_left = False

    async def wait(run: Run) -> str:
        return "fine" if is_left else await for_ever(run)

    tools = Toolbox(quick=read(), slow=mutate(wait))
    model = Model(calls("quick", "slow", text="I look"), "done")
    session = desk.new(model, tools)
    async with aclosing(session.stream("go")) as stream:
        async for output in stream:
            if isinstance(output, last):
                break
    assert not session.is_waiting
    assert len(tools.ended) == len(tools.runs)
    assert "cancel_requested" not in desk.kinds(session.thread_id)
    is_left = True
    assert (await session.resume()).answer == "done"
    desk.check(session)
    assert len(asyncio.all_tasks()) == 1, "no task is left behind"


async def test_who_simply_breaks_out_of_a_stream_stops_the_turn_too(desk: Desk) -> None:
    session = desk.new(Model({"text": "Once", "hang": True}))
    async for output in session.stream("go"):
        if isinstance(output, outputs.TextDelta):
            break
    await tick(10)
    assert not session.is_waiting
    assert len(asyncio.all_tasks()) == 1


async def test_who_leaves_a_stream_at_its_end_cancels_nothing(desk: Desk) -> None:
    session = desk.new(Model("done"))
    async with aclosing(session.stream("go")) as stream:
        async for output in stream:
            if isinstance(output, outputs.TurnFinished):
                break
    assert "cancel_requested" not in desk.kinds(session.thread_id)


async def test_a_stream_that_is_never_read_does_nothing(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.stream("go").aclose()
    assert desk.kinds(session.thread_id) == ["thread_created"]


async def test_cancelling_who_reads_a_stream_stops_the_turn(desk: Desk) -> None:
    session = desk.new(Model(calls("slow")), Toolbox(slow=mutate(for_ever)))
    reader = asyncio.ensure_future(all_of(session))
    await desk.heard.until(outputs.ToolStarted)
    await tick(2)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert not session.is_waiting
    desk.check(session)


async def test_a_cancel_ends_a_stream_with_its_outcome(desk: Desk) -> None:
    session = desk.new(Model({"text": "Once", "hang": True}))
    told = []
    async for output in session.stream("go"):
        told.append(output)
        if isinstance(output, outputs.TextDelta):
            session.cancel("enough")
    last = told[-1]
    assert isinstance(last, TurnFinished)
    assert (last.outcome, last.error) == (TurnOutcome.CANCELLED, "enough")


async def test_two_streams_at_once_each_hear_everything_that_follows(desk: Desk) -> None:
    other: list[asyncio.Task[list[Output]]] = []

    async def talk(_: Run) -> str:
        other.append(asyncio.ensure_future(all_of(session, "more")))
        await tick(3)
        return "talked"

    model = Model({"when": {"user": "more"}, "text": "more done"}, calls("a"), "done")
    session = desk.new(model, Toolbox(a=mutate(talk)))
    first = await all_of(session)
    second = await other[0]
    assert first[-1] == second[-1]
    assert first[-len(second) :] == second
    assert " ".join(names(first)) == (
        "TurnStarted ToolStarted ToolFinished HookFinished TextDelta "
        "TurnStarted TextDelta TurnFinished"
    )
    await session.turn("more again")
    assert len(desk.heard.of(outputs.TurnStarted)) == 3, "who listened first still does"


async def test_a_queued_stream_that_is_left_early_leaves_the_running_turn_alone(
    desk: Desk,
) -> None:
    async def talk(_: Run) -> str:
        async with aclosing(session.stream("more")) as stream:
            reader = asyncio.ensure_future(anext(stream))
            await tick(3)
            reader.cancel()
            await asyncio.wait({reader})
        return "talked"

    model = Model({"when": {"user": "more"}, "text": "more done"}, calls("a"), "done")
    session = desk.new(model, Toolbox(a=mutate(talk)))
    told = await all_of(session)
    assert isinstance(told[-1], TurnFinished)
    assert told[-1].answer == "more done", "what was said stays said"


async def test_errors_come_out_of_the_stream(desk: Desk) -> None:
    session = desk.new(Model("done"))
    with pytest.raises(UsageError):
        await all_of(session, " ")

    def fail(operation: str, *_: Any) -> None:
        if operation == "sync" and desk.heard.of(outputs.TextDelta):
            raise full(operation)

    desk.disk.before = fail
    with pytest.raises(DiskError):
        await all_of(session)
    with pytest.raises(StoreError):
        await all_of(session)


async def test_an_error_after_the_reader_has_left_is_not_an_unheard_one(desk: Desk) -> None:
    unheard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    session = desk.new(Model({"text": "Once", "hang": True}))

    def fail(operation: str, *_: Any) -> None:
        if operation == "sync" and desk.heard.of(outputs.TextDelta):
            raise full(operation)

    desk.disk.before = fail
    async with aclosing(session.stream("go")) as stream:
        async for output in stream:
            if isinstance(output, outputs.TextDelta):
                break
    del stream
    await tick(3)
    assert unheard == []


HEARD = [
    outputs.TurnStarted,
    outputs.TextDelta,
    outputs.ToolStarted,
    outputs.ToolProgressed,
    outputs.ToolFinished,
    outputs.HookFinished,
    outputs.Retrying,
]


@pytest.mark.parametrize("kind", HEARD, ids=lambda kind: kind.__name__)
async def test_a_listener_that_raises_ends_the_turn_and_spoils_nothing(
    desk: Desk, kind: type
) -> None:
    def fail(output: Output) -> None:
        if isinstance(output, kind):
            raise BrokenPipeError("nobody reads")

    async def work(run: Run) -> str:
        run.progress(ToolProgress(0.5))
        return "worked"

    desk.heard.on_output = fail
    model = Model(
        calls("look", "work", text="I look"),
        {"error": {"kind": "network", "retry_after_s": 0}},
        "done",
    )
    tools = Toolbox(look=read(), work=mutate(work))
    session = desk.new(model, tools, workspace=Folder())
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        await session.turn("go")
    assert len(tools.ended) == len(tools.runs), "nothing runs on unheard"
    assert "llm_error" not in desk.kinds(session.thread_id) or kind is outputs.Retrying
    desk.check(session)
    desk.heard.on_output = ignore
    assert (await session.resume()).answer == "done"
    assert all("BrokenPipe" not in message.content for message in session.conversation)
    desk.check(session)


async def test_a_listener_that_raises_does_not_keep_others_from_hearing(desk: Desk) -> None:
    def fail(output: Output) -> None:
        raise BrokenPipeError

    desk.heard.on_output = fail
    session = desk.new(Model("done"))
    stream = session.stream("go")
    assert isinstance(await anext(stream), outputs.TurnStarted)
    with pytest.raises(BrokenPipeError):
        await anext(stream)
