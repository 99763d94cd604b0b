"""Calls run side by side; however one of them ends, the model reads it and the turn goes on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import (
    CONFIG,
    Desk,
    Failure,
    Model,
    Run,
    Success,
    Tool,
    Toolbox,
    calls,
    calls_of,
    for_ever,
    idempotent,
    ignore,
    mutate,
    read,
    roles,
)
from treadle import outputs
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolProgress
from treadle.outputs import Output, TurnOutcome
from treadle.runtime.work_group import STOP_WAIT_S_MAX

QUICK = replace(CONFIG, tool_timeout_s=5.0)


async def outcome_of(desk: Desk, tool: Tool, **arguments: Any) -> Outcome:
    """Run one call of `tool` in a turn that must end well; what became of it."""
    reply = {"calls": [{"tool": "work", **arguments}]}
    session = desk.new(Model(reply, "done"), Toolbox(work=tool), QUICK)
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    desk.check(session)
    (told,) = desk.heard.of(outputs.ToolFinished)
    outcome: Outcome = told.outcome
    (message,) = [m for m in session.conversation if m.role == "tool"]
    if isinstance(outcome, Success):
        assert message.content == outcome.output
    else:
        assert message.content == f"ERROR: {outcome.error.text}"
    return outcome


async def error_of(desk: Desk, tool: Tool, **arguments: Any) -> ToolError:
    outcome = await outcome_of(desk, tool, **arguments)
    assert isinstance(outcome, Failure)
    return outcome.error


async def test_eight_tools_that_wait_for_each_other_all_end(desk: Desk) -> None:
    barrier = asyncio.Barrier(8)

    async def meet(run: Run) -> str:
        await barrier.wait()
        return f"{run.name} met"

    names = [f"t{index}" for index in range(8)]
    tools = Toolbox(**{name: mutate(meet) for name in names})
    session = desk.new(Model(calls(*names), "done"), tools)
    await session.turn("go")
    assert calls_of(session.conversation) == {name: f"{name} met" for name in names}


@pytest.mark.parametrize("order", [*itertools.permutations("abc")], ids="".join)
async def test_results_enter_in_request_order_whatever_order_the_calls_end_in(
    desk: Desk, order: tuple[str, ...]
) -> None:
    ended = {name: asyncio.Event() for name in order}

    async def wait(run: Run) -> str:
        place = order.index(run.name)
        if place:
            await ended[order[place - 1]].wait()
            await tick(3)  # so that each ends in a batch of its own
        ended[run.name].set()
        return run.name.upper()

    tools = Toolbox(a=read(wait), b=mutate(wait), c=idempotent(wait))
    model = Model(calls("a", "b", "c"), "done")
    session = desk.new(model, tools)
    await session.turn("go")
    assert [m.content for m in model.requests[1].messages if m.role == "tool"] == ["A", "B", "C"]
    told = [told.tool_name for told in desk.heard.of(outputs.ToolFinished)]
    assert told == list(order), "people see each call end when it does"
    desk.check(session)


async def test_two_calls_of_the_same_tool_are_two_runs_with_two_keys(desk: Desk) -> None:
    tools = Toolbox(a=mutate())
    session = desk.new(Model(calls("a", "a"), "done"), tools)
    await session.turn("go")
    assert len({run.call.id for run in tools.runs}) == len({run.key for run in tools.runs}) == 2


async def test_a_call_of_an_unknown_tool_is_an_error_the_model_reads(desk: Desk) -> None:
    model = Model(calls("nobody", "a"), "done")
    session = desk.new(model, Toolbox(a=read("fine")))
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert calls_of(session.conversation) == {
        "nobody": "ERROR: Tool not found: nobody",
        "a": "fine",
    }


async def test_malformed_arguments_are_an_error_the_model_reads(desk: Desk) -> None:
    error = await error_of(desk, mutate(), arguments_text='{"path": ')
    assert error.kind is ToolErrorKind.INVALID_ARGUMENTS


async def test_malformed_arguments_are_sent_back_as_the_model_wrote_them(desk: Desk) -> None:
    text = '{"path": "\u2028é", }'
    model = Model({"calls": [{"tool": "a", "arguments_text": text}]}, "done")
    await desk.new(model, Toolbox(a=mutate())).turn("go")
    assert model.requests[1].messages[1].tool_calls[0].arguments_json == text


@pytest.mark.parametrize("raised", [ValueError("oh"), KeyError("oh"), OSError(5, "oh")])
async def test_a_tool_that_raises_is_an_error_the_model_reads(
    desk: Desk, raised: Exception
) -> None:
    async def fail(_: Run) -> str:
        raise raised

    error = await error_of(desk, mutate(fail))
    assert error.kind is ToolErrorKind.INTERNAL
    assert type(raised).__name__ in error.message
    assert "oh" in error.message


async def test_a_tool_that_raises_does_not_disturb_the_calls_beside_it(desk: Desk) -> None:
    async def fail(_: Run) -> str:
        raise RuntimeError

    async def slow(_: Run) -> str:
        await tick(20)
        return "slow"

    session = desk.new(
        Model(calls("bad", "good"), "done"), Toolbox(bad=read(fail), good=read(slow))
    )
    await session.turn("go")
    assert calls_of(session.conversation)["good"] == "slow"


async def test_a_tool_that_exits_the_program_is_an_error_the_model_reads(desk: Desk) -> None:
    async def leave(_: Run) -> str:
        raise SystemExit(2)

    assert (await error_of(desk, mutate(leave))).kind is ToolErrorKind.INTERNAL


async def test_a_tool_that_cancels_itself_is_an_error_the_model_reads(desk: Desk) -> None:
    async def give_up(_: Run) -> str:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner
        return "never"

    assert (await error_of(desk, mutate(give_up))).kind is ToolErrorKind.INTERNAL


@pytest.mark.parametrize("nonsense", [None, 7, b"bytes", Success("x", 7)])  # type: ignore[arg-type]
async def test_a_tool_that_returns_no_outcome_is_an_error_the_model_reads(
    desk: Desk, nonsense: Any
) -> None:
    async def answer(_: Run) -> Any:
        return nonsense

    assert (await error_of(desk, mutate(answer))).kind is ToolErrorKind.INTERNAL


async def test_an_outcome_with_the_id_of_another_call_counts_for_the_call_that_ran(
    desk: Desk,
) -> None:
    async def confused(_: Run) -> Outcome:
        return Success("somebody else", "fine")

    assert (await outcome_of(desk, mutate(confused))).call_id == "call-1-0"


async def test_a_tool_that_takes_too_long_is_ended_and_the_model_reads_so(desk: Desk) -> None:
    began = asyncio.get_running_loop().time()
    error = await error_of(desk, mutate(for_ever))
    assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)
    assert error.text == "Tool execution timed out: after 5 s"


async def test_a_tool_out_of_time_may_say_how_far_it_got(desk: Desk) -> None:
    async def partial(run: Run) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            error = ToolError(ToolErrorKind.CANCELLED, "stopped", "half of it")
        return Failure(run.call.id, error)

    error = await error_of(desk, mutate(partial))
    assert error == ToolError(ToolErrorKind.TIMEOUT, "after 5 s", "half of it")


async def test_a_tool_that_succeeds_although_it_is_out_of_time_has_succeeded(desk: Desk) -> None:
    async def late(run: Run) -> Outcome:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Success(run.call.id, "all of it")

    assert await outcome_of(desk, mutate(late)) == Success("call-1-0", "all of it")


async def test_a_timeout_of_the_tools_own_is_not_told_as_ours(desk: Desk) -> None:
    async def impatient(_: Run) -> str:
        raise TimeoutError("the server did not answer in 2 s")

    error = await error_of(desk, mutate(impatient))
    assert "2 s" in error.text
    assert "5 s" not in error.text


async def test_a_tool_that_will_not_stop_does_not_hold_the_session_for_ever(desk: Desk) -> None:
    released = asyncio.Event()

    async def stubborn(run: Run) -> str:
        run.progress(ToolProgress(0.5))
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        run.progress(ToolProgress(1.0))
        return "too late"

    def stop(output: Output) -> None:
        if isinstance(output, outputs.ToolProgressed):
            session.cancel()

    desk.heard.on_output = stop
    model = Model(
        {"when": {"user": "again"}, **calls("look")},
        {"when": {"user": "again"}, "text": "done"},
        calls("work"),
    )
    tools = Toolbox(work=mutate(stubborn), look=read(lambda _: look()))
    session = desk.new(model, tools)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await session.turn("go")).outcome is TurnOutcome.CANCELLED
    assert loop.time() - began == pytest.approx(STOP_WAIT_S_MAX)
    desk.heard.on_output = ignore

    async def look() -> str:
        released.set()  # the old call ends in the middle of a later round
        await tick(5)
        return "seen"

    finished = await session.turn("again")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    assert tools.ended == ["call-1-0", "call-4-0"]
    results = [
        event for event in desk.events(session.thread_id) if event["type"] == "tool_completed"
    ]
    assert [event["call_id"] for event in results] == ["call-4-0"], "nobody waits for the old one"
    assert "too late" not in str(session.conversation[-1])
    assert " ".join(roles(session.conversation)) == (
        "user assistant tool user assistant tool assistant"
    )
    desk.check(session)


async def test_malformed_text_from_a_tool_is_stored_sent_and_shown_with_a_replacement(
    desk: Desk,
) -> None:
    outcome = await outcome_of(desk, mutate("half a pair: \ud83d, a null: \0, a line\u2028end"))
    assert isinstance(outcome, Success)
    assert outcome.output == "half a pair: \ufffd, a null: \0, a line\u2028end"
