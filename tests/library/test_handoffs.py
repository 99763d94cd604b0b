"""Agents that hand a conversation to each other, and what is told of agents within agents."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from treadle import (
    Agent,
    BuildError,
    EffectClass,
    RiskLevel,
    ScriptedModel,
    TestModel,
    UsageError,
    outputs,
    tool,
)
from treadle.store.threads import AnyThreads


class Watched(ScriptedModel):
    """A scripted model that keeps what it was asked."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asked: list[Any] = []

    def stream(self, request: Any) -> Any:
        self.asked.append(request)
        return super().stream(request)


def hands(name: str, *also: dict[str, Any]) -> dict[str, Any]:
    return {"calls": [{"tool": f"hand_to_{name}", "arguments": {"reason": "money"}}, *also]}


@tool
def invoice(number: int) -> str:
    """Look up an invoice."""
    return f"invoice {number}"


class Desk:
    """Two agents: support hands over to billing what is about money, and billing hands back."""

    def __init__(self, store: AnyThreads) -> None:
        self.front = Watched.of(
            {"when": {"user": "pay", "step": 0}, **hands("billing")},
            {"when": {"user": "hello"}, "text": "Support here."},
            {"when": {"last": "support has"}, "text": "Support again."},
        )
        self.back = Watched.of(
            {"when": {"last": "billing has the conversation"}, "text": "Billing here."},
            {"when": {"user": "more", "step": 0}, "calls": [invoice_call(7)]},
            {"when": {"last": "invoice 7"}, "text": "It is paid."},
            {"when": {"user": "back", "step": 0}, **hands("support")},
        )
        self.support = Agent("support", model=self.front, instructions="Be kind.", store=store)
        self.billing = Agent(
            "billing", model=self.back, instructions="Be exact.", tools=[invoice], store=store
        )
        self.support.add_handoff(self.billing, "For what is about money.")
        self.billing.add_handoff(self.support, "For all else.")


def invoice_call(number: int) -> dict[str, Any]:
    return {"tool": "invoice", "arguments": {"number": number}}


async def test_a_model_hands_its_conversation_over_and_gets_it_back(store: AnyThreads) -> None:
    desk = Desk(store)
    async with desk.support.thread("ann") as thread:
        assert thread.agent == "support"
        assert (await thread.send("hello")).output == "Support here."
        assert (await thread.send("I want to pay")).output == "Billing here."
        assert thread.agent == "billing"
    offered = [tool.name for tool in desk.front.asked[0].tools]
    assert offered == ["hand_to_billing"]
    assert "For what is about money." in desk.front.asked[0].tools[0].description
    asked = desk.back.asked[0]
    assert asked.system == "Be exact."
    assert [tool.name for tool in asked.tools] == ["invoice", "hand_to_support"]
    assert "The reason: money" in asked.messages[-1].content

    desk = Desk(store)  # in another process
    async with desk.support.thread("ann") as thread:
        assert thread.agent == "billing"
        assert (await thread.send("more")).output == "It is paid."
        assert (await thread.send("back")).output == "Support again."
        assert thread.agent == "support"
        thread.hand_to("billing")
        assert thread.agent == "billing"
        with pytest.raises(UsageError, match="there is no agent 'sales'"):
            thread.hand_to("sales")
        async with await thread.fork() as fork:
            assert fork.agent == "billing"
    async with desk.billing.thread("bob") as thread:
        assert thread.agent == "billing"


async def test_a_call_beside_a_handoff_has_a_result_too(store: AnyThreads) -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    beside = {"tool": "look", "arguments": {}}
    front = ScriptedModel.of({"when": {"step": 0}, **hands("billing", beside)})
    support = Agent("support", model=front, tools=[look], store=store)
    back = ScriptedModel.of({"when": {"last_role": "tool"}, "text": "Billing here."})
    support.add_handoff(Agent("billing", model=back, store=store), "For money.")
    async with support.thread("ann") as thread:
        assert (await thread.send("pay")).output == "Billing here."
        results = [one.content for one in thread.messages if one.role == "tool"]
    # The other one does not have the tool: a call that had not begun does not begin any more.
    assert len(results) == 2
    assert results[1] == "seen" or results[1].startswith("ERROR: ")


async def test_a_kill_in_a_handoff_leaves_the_thread_with_one_of_the_two(store: AnyThreads) -> None:
    desk = Desk(store)
    async with desk.support.thread("ann") as thread:
        async for output in thread.stream("I want to pay"):
            if isinstance(output, outputs.ToolStarted):
                break
    async with Desk(store).support.thread("ann") as thread:
        assert (await thread.resume()).output == "Billing here."
        assert thread.agent == "billing"


async def test_a_handoff_needs_no_yes_and_is_no_doubt_after_a_crash(store: AnyThreads) -> None:
    """It changes nothing in the world: it is safe, and safe to run again."""
    desk = Desk(store)
    careful = Agent("careful", model=desk.front, approval="ask", store=store)
    careful.add_handoff(desk.billing, "For what is about money.")
    async with careful.thread("ann") as thread:
        assert (await thread.send("I want to pay")).output == "Billing here."
    (handoff,) = desk.front.asked[0].tools
    assert (handoff.effect, handoff.risk) == (EffectClass.READ, RiskLevel.LOW)
    records = [bytes(one.event) for one in store.scan(thread.id).records]
    (start,) = [one for one in records if b'"tool_started"' in one]
    assert b'"access":"read"' in start, "whoever has the thread then need not know the tool"


class Form(Struct):
    text: str


def test_what_cannot_be_handed_over_to_is_refused(store: AnyThreads) -> None:
    def agent(name: str, **options: Any) -> Agent[Any, Any]:
        return Agent(name, model=TestModel(), store=store, **options)

    first = agent("first")
    first.add_handoff(agent("second"), "")
    cases = [
        (first, "is itself"),
        (agent("first"), "has the name of another one"),
        (agent("second"), "has the name of another one"),
        (agent("odd name"), "has a name that cannot be that of a tool"),
        (agent("form", output=Form), "answers with another type"),
        (agent("deps", deps=dict), "takes other deps"),
    ]
    missed = []
    for other, words in cases:
        try:
            first.add_handoff(other, "")
        except BuildError as error:
            if words not in error.message:
                missed.append((words, error.message))
        else:
            missed.append((words, ""))
    assert missed == []


async def test_a_task_is_not_handed_over(store: AnyThreads) -> None:
    desk = Desk(store)
    with pytest.raises(UsageError, match="a task stays with who began it"):
        await desk.support.run("pay")
    chief = Agent("chief", model=TestModel(), tools=[desk.support.as_tool("Support.")], store=store)
    with pytest.raises(UsageError, match="a task stays with who began it"):
        await chief.run("pay")


async def test_two_agents_of_one_name_in_a_family_are_refused(store: AnyThreads) -> None:
    agents = [Agent(name, model=TestModel(), store=store) for name in ("a", "b", "c", "c")]
    agents[0].add_handoff(agents[1], "")
    agents[0].add_handoff(agents[2], "")
    agents[1].add_handoff(agents[3], "")
    with pytest.raises(BuildError, match="two agents are called 'c'"):
        async with agents[0].thread("x"):
            pass


async def test_what_agents_within_agents_tell_is_told_with_their_path(store: AnyThreads) -> None:
    def calls(name: str) -> ScriptedModel:
        return ScriptedModel.of(
            {"calls": [{"tool": name, "arguments": {"task": "go on"}}]}, {"text": "Done above."}
        )

    own: list[outputs.Output] = []
    lowest = Agent("lowest", model=ScriptedModel.of("From below."), store=store)
    middle = Agent(
        "middle",
        model=calls("lowest"),
        tools=[lowest.as_tool("Works.")],
        store=store,
        on_output=own.append,
    )
    top = Agent("top", model=calls("middle"), tools=[middle.as_tool("Leads.")], store=store)
    async with top.task("Begin.") as task:
        told = [one async for one in task.stream()]
        thread_outputs = [one for one in told if isinstance(one, outputs.SubAgentOutput)]
    async with top.thread("x") as thread:
        again = [one async for one in thread.stream("Begin.")]
    for found in (thread_outputs, [o for o in again if isinstance(o, outputs.SubAgentOutput)]):
        paths = {one.path for one in found}
        assert paths == {("middle",), ("middle", "lowest")}
        texts = {
            (one.path, one.output.text)
            for one in found
            if isinstance(one.output, outputs.TextDelta)
        }
        assert (("middle", "lowest"), "From below.") in texts
        assert len({one.call_id for one in found}) == 1
    assert any(isinstance(one, outputs.SubAgentOutput) and one.path == ("lowest",) for one in own)
