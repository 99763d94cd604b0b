"""`run` gives the answer or raises what stood in its way; the engine tells how it got there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.desk import Desk, Model, Toolbox, calls, for_ever, mutate, read
from runtime.task.agents import DONE, TASK, Says, agent, close, events, last_line
from treadle import outputs
from treadle.core.approval import AlwaysAsk
from treadle.core.task.events import TaskConfig
from treadle.core.task.trace import Trace
from treadle.errors import (
    AgentError,
    AgentFailed,
    ApprovalNeeded,
    BudgetExceeded,
    BuildError,
    StoreError,
    ThreadBusyError,
    UnknownThreadError,
    UsageError,
)
from treadle.outputs import Output, TurnFinished, TurnOutcome
from treadle.runtime.builder import AgentBuilder
from treadle.thread.codec import decode_entry
from treadle.thread.usage import list_usage


async def test_run_gives_the_final_answer_and_the_engine_tells_how(desk: Desk) -> None:
    engine = agent(desk, calls("look"), DONE, tools=Toolbox(look=read("wool"))).build()
    assert engine.state == "Planning"
    assert engine.output is None
    assert await engine.run() == DONE
    assert engine.state == "Done"
    assert engine.output == DONE
    assert engine.memory.task == TASK
    assert engine.memory.step == 2
    assert [entry.observation for entry in engine.memory.history] == ["SUCCESS: wool"]
    assert isinstance(engine.trace, Trace)
    assert events(engine) == [
        "AGENT_STARTED",
        "STEP_START",
        "LLM_TOOL_CALL",
        "TOOL_EXECUTE",
        "TOOL_SUCCESS",
        "HISTORY_COMMIT",
        "STEP_START",
        "LLM_FINAL_ANSWER",
        "TASK_COMPLETE",
    ]
    await close(desk, engine)


async def test_run_answers_at_once_when_the_task_is_over(desk: Desk) -> None:
    model = Says(DONE)
    engine = agent(desk, model).build()
    assert [await engine.run() for _ in range(3)] == [DONE] * 3
    assert len(model.requests) == 1
    await close(desk, engine)


async def test_two_who_wait_for_one_run_get_the_same_answer(desk: Desk) -> None:
    model = Says(DONE, delay_s=1.0)
    engine = agent(desk, model).build()
    assert await asyncio.gather(engine.run(), engine.run()) == [DONE, DONE]
    assert len(model.requests) == 1
    await close(desk, engine)


async def test_a_model_that_refuses_for_good_fails_the_task(desk: Desk) -> None:
    engine = agent(desk, {"error": {"kind": "authentication", "message": "no key"}}).build()
    with pytest.raises(AgentFailed, match="no key") as caught:
        await engine.run()
    assert not isinstance(caught.value, BudgetExceeded)
    assert last_line(engine)[1] == "AGENT_FAILED"
    assert (await engine.resume()).outcome is TurnOutcome.FAILED
    await close(desk, engine)


async def test_a_call_that_waits_for_a_person_stops_the_run(desk: Desk) -> None:
    tools = Toolbox(cut=mutate())
    engine = agent(desk, calls("cut"), DONE, tools=tools, approval=AlwaysAsk()).build()
    with pytest.raises(ApprovalNeeded, match=r"of: cut \{\}") as caught:
        await engine.run()
    assert caught.value.thread_id == engine.thread_id
    assert tools.ran == []
    await close(desk, engine)


async def test_a_cancelled_task_stays_where_it_is_and_goes_on(desk: Desk) -> None:
    model = Model({"text": "Once upon a time", "hang": True}, DONE)
    engine = agent(desk, model).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.TextDelta)
    engine.cancel()
    with pytest.raises(AgentError, match="stopped before its end: cancelled by the user") as caught:
        await running
    assert not isinstance(caught.value, AgentFailed)
    assert engine.state == "Planning"
    assert await engine.run() == DONE
    assert desk.heard.of(outputs.Notice) == [
        outputs.Notice(
            "its program had stopped the work (cancelled by the user) in Planning; "
            "going on from there"
        )
    ]
    assert engine.memory.step == 1
    await close(desk, engine)


async def test_a_closed_engine_says_so(desk: Desk) -> None:
    engine = agent(desk, DONE).build()
    await engine.close()
    with pytest.raises(StoreError, match="this session is finished"):
        await engine.run()


async def test_closing_while_it_works_leaves_the_task_to_be_resumed(desk: Desk) -> None:
    tools = Toolbox(look=read(for_ever))
    engine = agent(desk, calls("look"), DONE, tools=tools).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted)
    await close(desk, engine)
    with pytest.raises(AgentError, match="the session was closed"):
        await running
    tools = Toolbox(look=read("wool"))
    engine = agent(desk, calls("look"), DONE, tools=tools).resume(engine.thread_id)
    assert await engine.run() == DONE
    assert tools.ran == ["look"]
    await close(desk, engine)


async def test_an_exception_of_a_listener_ends_the_run_and_not_the_task(desk: Desk) -> None:
    def listener(output: Output) -> None:
        if isinstance(output, outputs.ToolStarted):
            raise ZeroDivisionError("the pipe is closed")

    tools = Toolbox(look=read())
    engine = agent(desk, calls("look"), DONE, tools=tools, on_output=listener).build()
    with pytest.raises(ZeroDivisionError):
        await engine.run()
    await close(desk, engine)
    engine = agent(desk, calls("look"), DONE, tools=tools).resume(engine.thread_id)
    assert await engine.run() == DONE
    await close(desk, engine)


# ---- what is told ------------------------------------------------------------------------------


def kinds(told: list[Output]) -> list[str]:
    """What was told, deltas of text as one."""
    names: list[str] = []
    for output in told:
        name = type(output).__name__
        name = f"{name} {output.state}" if isinstance(output, outputs.StateStarted) else name
        if not (names and name == "TextDelta" == names[-1]):
            names.append(name)
    return names


async def test_a_stream_tells_everything_in_order_and_ends_with_the_end(desk: Desk) -> None:
    engine = agent(desk, calls("look", text="I look"), DONE, tools=Toolbox(look=read())).build()
    told = [output async for output in engine.stream()]
    assert kinds(told) == [
        *("StateStarted Idle", "StateStarted Planning", "TextDelta", "StateStarted Acting"),
        *("ToolStarted", "ToolFinished", "StateStarted Observing", "StateStarted Planning"),
        *("TextDelta", "StateStarted Done", "FinalAnswer", "TurnFinished"),
    ]
    finished = told[-1]
    assert isinstance(finished, TurnFinished)
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, DONE)
    assert finished.usage == engine.memory.total_usage
    assert finished.version == engine.driver.journal.writer.fold.version
    assert told[:-1] == desk.heard.outputs
    await close(desk, engine)


async def test_a_final_answer_is_told_once_whoever_asks_again(desk: Desk) -> None:
    engine = agent(desk, DONE).build()
    told = [output async for output in engine.stream()]
    told += [output async for output in engine.stream()]
    await engine.close()
    engine = agent(desk, DONE).resume(engine.thread_id)
    told += [output async for output in engine.stream()]
    answers = [output for output in told if isinstance(output, outputs.FinalAnswer)]
    assert answers == [outputs.FinalAnswer(DONE)]
    assert [type(o) for o in told].count(TurnFinished) == 3
    await close(desk, engine)


async def test_a_stream_that_ends_badly_tells_why(desk: Desk) -> None:
    engine = agent(desk, Says(("look",)), tools=Toolbox(look=read()), max_steps=2).build()
    *_, shown, finished = [output async for output in engine.stream()]
    assert shown == outputs.ErrorShown("Max steps 2 exceeded")
    assert isinstance(finished, TurnFinished)
    assert (finished.outcome, finished.error) == (TurnOutcome.LIMIT, "Max steps 2 exceeded")
    await close(desk, engine)


async def test_who_stops_reading_a_stream_stops_the_work(desk: Desk) -> None:
    tools = Toolbox(look=read(for_ever))
    engine = agent(desk, calls("look"), DONE, tools=tools).build()
    stream = engine.stream()
    async for output in stream:
        if isinstance(output, outputs.ToolStarted):
            break
    await stream.aclose()
    assert tools.ended == [run.call.id for run in tools.runs]
    assert engine.state == "Acting"
    await close(desk, engine)


async def test_nothing_is_told_before_it_is_on_disk(desk: Desk) -> None:
    seen: list[tuple[str, list[str]]] = []

    def listener(output: Output) -> None:
        if isinstance(output, outputs.ToolStarted | outputs.ToolFinished | outputs.FinalAnswer):
            seen.append((type(output).__name__, desk.kinds(engine.thread_id)))

    engine = agent(
        desk, calls("look"), DONE, tools=Toolbox(look=read()), on_output=listener
    ).build()
    await engine.run()
    told = {name: kinds[-1] for name, kinds in seen}
    assert told == {
        "ToolStarted": "tool_started",
        "ToolFinished": "tool_completed",
        "FinalAnswer": "task_ended",
    }
    await close(desk, engine)


# ---- building ----------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a cost in words": ({"max_cost": "much"}, "max_cost is a number of US dollars, not 'much'"),
    "no steps": ({"max_steps": 0}, "max_steps must be at least 1"),
    "negative retries": ({"max_retries": -1}, "max_retries"),
    "a confidence above one": ({"confidence_threshold": 1.5}, "from 0 to 1"),
    "a negative interval": ({"reflect_every_n_steps": -1}, "reflect_every_n_steps"),
    "a negative length": ({"min_answer_length": -1}, "min_answer_length"),
    "negative tokens": ({"max_tokens": -1}, "max_total must not be negative"),
    "negative money": ({"max_cost": -0.5}, "max_cost_usd must not be negative"),
    "negative time": ({"time_limit": -1}, "max_time_s must not be negative"),
    "no task": ({"task": "  "}, "the task is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_agent_that_cannot_be_is_refused_and_nothing_is_made(desk: Desk, name: str) -> None:
    options, words = WRONG[name]
    with pytest.raises(BuildError, match=words):
        agent(desk, DONE, **options).build()
    assert desk.store.ids() == []


def test_an_agent_needs_somebody_who_answers(desk: Desk) -> None:
    with pytest.raises(BuildError, match="nobody answers"):
        AgentBuilder(TASK, store=desk.store).build()
    with pytest.raises(BuildError, match="no option 'modle'"):
        AgentBuilder(TASK, modle="x")  # type: ignore[call-arg]
    with pytest.raises(BuildError, match="is no tool"):
        AgentBuilder(TASK, llm=Says(DONE), tools=[print], store=desk.store).build()
    assert desk.store.ids() == []


def test_two_tools_cannot_have_one_name(desk: Desk) -> None:
    child = agent(desk, DONE, task="")
    builder = agent(desk, DONE, tools=Toolbox(look=read())).sub_agent("look", "looks", child)
    with pytest.raises(BuildError, match="two tools are called 'look'"):
        builder.build()
    assert desk.store.ids() == []


async def test_keyword_arguments_say_the_same_as_methods(desk: Desk) -> None:
    def make(builder: AgentBuilder) -> Any:
        memory = builder.build().memory
        return memory.config, memory.budget, memory.system_prompt, memory.task_type

    spoken = AgentBuilder(TASK, llm=Says(DONE), store=desk.store, config=TaskConfig(max_steps=7))
    chained = AgentBuilder(TASK).llm(Says(DONE)).store(desk.store).max_steps(7)
    assert make(
        spoken.model("a")
        .max_tokens(9)
        .time_limit(3)
        .system_prompt("be brief")
        .task_type("research")
    ) == make(
        chained.models({"default": "a"})
        .time_limit(3)
        .max_tokens(9)
        .system_prompt("be brief")
        .task_type("research")
    )


async def test_the_model_is_chosen_by_the_kind_of_task(desk: Desk) -> None:
    builder = agent(desk, DONE, task_type="research", model="small").model_for("research", "large")
    engine = builder.build()
    await engine.run()
    assert desk.providers[0].requests[0].model == "large"  # type: ignore[attr-defined]
    await close(desk, engine)


async def test_only_a_task_of_this_store_that_is_free_can_be_resumed(desk: Desk) -> None:
    builder = agent(desk, DONE)
    with pytest.raises(UnknownThreadError):
        builder.resume("T-01900000-0000-7000-8000-00000000000a")
    conversation = desk.new(Says(DONE))
    await conversation.close()
    with pytest.raises(UsageError, match="is a conversation, not a task"):
        builder.resume(conversation.thread_id)
    engine = builder.build()
    with pytest.raises(ThreadBusyError):
        builder.resume(engine.thread_id)
    await engine.close()
    engine = builder.resume(engine.thread_id)
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_the_model_for_this_kind_of_task_is_the_one_that_is_named(desk: Desk) -> None:
    models = {"default": "small", "weaving": "big"}
    model = Says(DONE)
    engine = agent(desk, model, models=models, task_type="weaving").build()
    await engine.run()
    assert model.requests[0].model == "big"
    assert engine.driver.model_name == "big"
    assert engine.driver.journal.writer.fold.document().model == "big"
    records = desk.store.scan(engine.thread_id).records
    lines = list_usage((one.seq, one.at, decode_entry(one.event)) for one in records)
    assert [line.model for line in lines] == ["big"]
    await close(desk, engine)
