"""An agent of a program: what it may be made of, and how it works at tasks."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Literal, Protocol

import pydantic
import pytest
from msgspec import Struct

from treadle import (
    Agent,
    AgentContext,
    AgentFailed,
    AlwaysAsk,
    ApprovalNeeded,
    Approved,
    BudgetExceeded,
    BuildError,
    EffectClass,
    ScriptedModel,
    TokenBudget,
    ToolContext,
    UsageError,
    outputs,
    tool,
)
from treadle.outputs import TurnOutcome
from treadle.store.threads import AnyThreads


@dataclasses.dataclass
class Shop:
    name: str


class Answer(pydantic.BaseModel):
    text: str
    count: int


class Weather(Struct):
    degrees: float


@tool(effect=EffectClass.READ)
def stock(ctx: ToolContext[Shop], thing: str) -> str:
    """Say how many there are."""
    return f"12 of {thing} at {ctx.deps.name}"


STOCK = {"when": {"step": 0}, "calls": [{"tool": "stock", "arguments": {"thing": "tea"}}]}


async def test_an_answer_is_a_value_of_its_type_and_tools_have_what_the_program_gives(
    store: AnyThreads,
) -> None:
    model = ScriptedModel.of(STOCK, {"when": {"last": "12 of tea at Ann's"}, "text": "It is 12."})
    agent = Agent("shop", model=model, tools=[stock], deps=Shop, store=store)
    result = await agent.run("How much tea?", deps=Shop("Ann's"))
    assert result.output == result.text == "It is 12."
    assert result.usage.total_tokens > 0
    assert store.load(result.thread_id).fold.version == result.version


@pytest.mark.parametrize(
    ("output", "bad", "good", "value"),
    [
        (Answer, '{"text": "a"}', '{"text": "a", "count": 2}', Answer(text="a", count=2)),
        (Weather, "cold", '{"degrees": -2}', Weather(-2.0)),
        (list[int], "[1, true]", "[1, 2]", [1, 2]),
        (Literal["yes", "no"], "maybe", '"yes"', "yes"),
        (bool, "1", "false", False),
    ],
)
async def test_an_answer_that_does_not_fit_is_sent_back_with_the_reason(
    store: AnyThreads, output: Any, bad: str, good: str, value: Any
) -> None:
    model = ScriptedModel.of(
        {"when": {"last": "does not have the form"}, "text": good}, {"text": bad}
    )
    agent = Agent("form", model=model, output=output, store=store)
    result = await agent.run("Say it.")
    assert result.output == value
    assert type(result.output) is type(value)
    async with agent.thread("one") as thread:
        result = await thread.send("Say it.")
        assert result.output == value
        assert result.usage == thread.usage, "what was sent back is paid for too"
        assert [one.role for one in thread.messages] == ["user", "assistant"] * 2


async def test_a_short_answer_is_one_and_none_at_all_is_not(store: AnyThreads) -> None:
    model = ScriptedModel.of({"when": {"last": "at least 1 are asked"}, "text": "7"}, {"text": ""})
    agent: Agent[None, str] = Agent("brief", model=model, store=store)
    async with agent.task("How many?") as task:
        assert (await task.run()).output == "7"


async def test_an_answer_without_end_is_a_failure_and_no_answer(store: AnyThreads) -> None:
    agent = Agent(
        "form",
        model=ScriptedModel.of({"when": {"seen": "."}, "text": "no"}),
        output=Answer,
        store=store,
        max_steps=3,
    )
    with pytest.raises(BudgetExceeded, match="3"):
        await agent.run("Say it.")
    async with agent.thread("one") as thread:
        with pytest.raises(AgentFailed, match="does not have the form asked for"):
            await thread.send("Say it.")
        with pytest.raises(AgentFailed, match="does not have the form asked for"):
            assert thread.result


async def test_instructions_may_be_made_of_the_context(store: AnyThreads) -> None:
    async def instruct(context: AgentContext[Shop]) -> str:
        return f"You work for {context.deps.name}, in {context.thread_key or 'a task'}."

    model = ScriptedModel.of(
        {"when": {"system": "^You work for Ann, in a task.$"}, "text": "task"},
        {"when": {"system": "^You work for Ann, in t1.$"}, "text": "thread"},
    )
    agent = Agent("shop", model=model, instructions=instruct, deps=Shop, store=store)
    assert (await agent.run("Go.", deps=Shop("Ann"))).output == "task"
    async with agent.thread("t1", deps=Shop("Ann")) as thread:
        assert (await thread.send("Go.")).output == "thread"


def refund(number: int) -> str:
    """Pay an order back.

    Args:
        number: of the order.
    """
    return f"paid {number}"


REFUND = {"when": {"step": 0}, "calls": [{"tool": "refund", "arguments": {"number": 7}}]}
DONE = [
    {"when": {"last": "paid 7"}, "text": "Order 7 is paid back."},
    {"when": {"last": "too much"}, "text": "A person says it is too much."},
]


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_call_that_needs_a_yes_waits_and_is_answered_by_another_process(
    store: AnyThreads, answer: str
) -> None:
    agent = Agent(
        "support",
        model=ScriptedModel.of(REFUND, *DONE),
        tools=[refund],
        approval="ask",
        store=store,
    )
    with pytest.raises(ApprovalNeeded) as stopped:
        await agent.run("Pay order 7 back.")
    async with agent.resume_task(stopped.value.thread_id) as task:
        (question,) = task.questions
        assert question.call.tool_name == "refund"
        result = await (task.approve() if answer == "yes" else task.reject(reason="too much"))
        with pytest.raises(UsageError, match="no call waits for a yes"):
            await task.approve()
    assert result.output == DONE[answer == "no"]["text"]


async def test_whoever_is_there_is_asked(store: AnyThreads) -> None:
    asked = []

    def decide(question: Any) -> Approved:
        asked.append(question.call.tool_name)
        return Approved()

    agent = Agent(
        "support",
        model=ScriptedModel.of(REFUND, *DONE),
        tools=[refund],
        approval=AlwaysAsk(),
        on_approval=decide,
        store=store,
    )
    assert (await agent.run("Pay it.")).output == DONE[0]["text"]
    async with agent.thread("one") as thread:
        assert (await thread.send("Pay it.")).output == DONE[0]["text"]
    assert asked == ["refund", "refund"]


async def test_an_agent_is_a_tool_of_another_one(store: AnyThreads) -> None:
    model = ScriptedModel.of(
        STOCK,
        {"when": {"last": "12 of tea"}, "text": "There are 12."},
    )
    clerk = Agent("clerk", model=model, tools=[stock], deps=Shop, store=store)
    chief = Agent(
        "chief",
        model=ScriptedModel.of(
            {"when": {"step": 0}, "calls": [{"tool": "clerk", "arguments": {"task": "tea?"}}]},
            {"when": {"last": "There are 12"}, "text": "Twelve."},
        ),
        tools=[clerk.as_tool("Knows the stock.")],
        deps=Shop,
        store=store,
    )
    assert (await chief.run("How much?", deps=Shop("Ann"))).output == "Twelve."
    async with chief.thread("one", deps=Shop("Ann")) as thread:
        assert (await thread.send("How much?")).output == "Twelve."


async def test_a_task_tells_what_happens_and_may_be_left_and_gone_on_with(
    store: AnyThreads,
) -> None:
    model = ScriptedModel.of(STOCK, {"when": {"last": "12"}, "text": "It is 12."})
    agent = Agent("shop", model=model, tools=[stock], deps=Shop, store=store)
    async with agent.task("How much?", deps=Shop("Ann")) as task:
        async for output in task.stream():
            if isinstance(output, outputs.ToolStarted):
                break
        thread_id = task.id
    async with agent.resume_task(thread_id, deps=Shop("Ann")) as task:
        told = [one async for one in task.stream()]
        assert isinstance(told[-1], outputs.TurnFinished)
        assert told[-1].outcome is TurnOutcome.DONE
        assert (await task.run()).output == "It is 12."
        assert [one.role for one in task.messages][-1] == "assistant"


def test_a_program_that_is_not_asynchronous_has_a_twin(store: AnyThreads) -> None:
    agent = Agent("echo", model=ScriptedModel.of("I heard you."), store=store)
    assert [agent.run_sync("Hi").output for _ in range(3)] == ["I heard you."] * 3

    async def inside() -> None:
        with pytest.raises(UsageError, match="an event loop is running"):
            agent.run_sync("Hi")

    asyncio.run(inside())


async def test_a_task_is_bounded(store: AnyThreads) -> None:
    model = ScriptedModel.of({**REFUND, "when": {"seen": "."}})
    budget = TokenBudget(max_total=100)
    for limit in ({"max_steps": 2}, {"budget": budget}):
        agent = Agent("loop", model=model, tools=[refund], store=store, **limit)
        with pytest.raises(BudgetExceeded):
            await agent.run("Pay.")
        async with agent.thread(str(limit)) as thread:
            with pytest.raises(BudgetExceeded):
                await thread.send("Pay.")


class Named(Protocol):
    name: str


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"approval": "sometimes"}, "'sometimes' is no policy of approval"),
    ({"tools": [3]}, "3 is no tool"),
    ({"tools": [refund, tool(refund)]}, "two tools are called refund"),
    ({"tools": [stock]}, "the tool stock takes deps of type Shop"),
    ({"tools": [lambda x: x]}, "cannot be the name of a tool"),
    ({"output": object}, "cannot be the form of an answer"),
    ({"max_steps": 0}, "max_steps must be at least 1"),
    ({"colour": "red"}, "an agent has no option 'colour'"),
    ({"model": 3}, "3 is no model"),
    ({"name": 3}, "name takes a text"),
]


def test_what_can_be_no_agent_is_refused_when_it_is_made(store: AnyThreads) -> None:
    missed = []
    for wrong, words in WRONG:
        options = {"model": ScriptedModel.of("x"), "store": store, "name": "any", **wrong}
        try:
            Agent(options.pop("name"), **options)
        except (BuildError, UsageError) as error:
            if words not in error.message:
                missed.append((wrong, error.message))
        else:
            missed.append((wrong, ""))
    assert missed == []


async def test_deps_of_another_type_are_refused(store: AnyThreads) -> None:
    agent = Agent("shop", model=ScriptedModel.of("x"), tools=[stock], deps=Shop, store=store)
    with pytest.raises(UsageError, match="the agent 'shop' takes a Shop as deps, not None"):
        await agent.run("Go.")
    # A protocol that cannot be looked for at run time is a matter of type checkers.
    named = Agent("any", model=ScriptedModel.of("Hello."), deps=Named, store=store)
    assert (await named.run("Go.", deps=Shop("Ann"))).output == "Hello."


async def test_a_model_is_found_by_its_name(
    store: AnyThreads, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    (tmp_path / "say.toml").write_text('[[replies]]\ntext = "From a file."\n')
    agent = Agent("file", model=f"scripted:{tmp_path}/say.toml", store=store)
    assert (await agent.run("Go.")).output == "From a file."
    with pytest.raises(UsageError, match="no provider 'nobody'"):
        await Agent("none", model="nobody:x", store=store).run("Go.")
