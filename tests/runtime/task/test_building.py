"""What an agent is made of holds, in whatever order it was said, and for its sub-agents too."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runtime.desk import Desk, Toolbox, calls, mutate, read
from runtime.task.agents import DONE, Says, agent, close
from treadle.core.approval import AlwaysAsk, Approved, NeverAsk, Rejected
from treadle.core.config import AgentConfig
from treadle.core.task.events import TaskConfig
from treadle.errors import ApprovalNeeded, BuildError, UsageError
from treadle.models.scripted.provider import ScriptedModel
from treadle.runtime.builder import AgentBuilder

COLD = AgentConfig(temperature=0.0)


@pytest.mark.parametrize("order", ["policy first", "settings first"])
async def test_a_policy_stands_whatever_settings_are_given(desk: Desk, order: str) -> None:
    builder = agent(desk, Says(("cut",), DONE), tools=Toolbox(cut=mutate()))
    if order == "policy first":
        builder.approval(AlwaysAsk()).settings(COLD)
    else:
        builder.settings(COLD).approval(AlwaysAsk())
    engine = builder.build()
    with pytest.raises(ApprovalNeeded):
        await engine.run()
    await close(desk, engine)


async def test_a_policy_in_the_settings_holds_too(desk: Desk) -> None:
    settings = AgentConfig(approval=AlwaysAsk())
    tools = Toolbox(cut=mutate())
    engine = agent(desk, Says(("cut",), DONE), tools=tools, settings=settings).build()
    with pytest.raises(ApprovalNeeded):
        await engine.run()
    assert tools.runs == []
    await close(desk, engine)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"config": AgentConfig(max_steps=3)}, "takes the limits of a task, not AgentConfig"),
        ({"settings": AgentConfig(system_prompt="be brief")}, "system_prompt is set by"),
        ({"settings": AgentConfig(max_steps=3)}, "max_steps is set by"),
        ({"max_cost": float("nan")}, "max_cost_usd must not be negative"),
        ({"max_cost": Decimal("nan")}, "max_cost_usd must not be negative"),
        ({"time_limit": float("nan")}, "max_time_s must not be negative"),
        ({"time_limit": float("inf")}, "max_time_s must not be negative, nor without end"),
        ({"blacklist": "cut"}, "blacklist takes names, not one text"),
        ({"llm": "openai"}, "'openai' is no provider"),
        ({"store": "/tmp/x"}, "is no store"),
        ({"on_approval": 5}, "on_approval takes a function"),
        ({"approval": "ask"}, "'ask' is no policy"),
        ({"max_steps": "3"}, "a limit is not of its kind: Expected `int`, got `str`"),
        ({"max_tokens": 1.5}, "a limit is not of its kind"),
        ({"parallel_tools": "no"}, "a limit is not of its kind"),
        ({"time_limit": "soon"}, "time_limit is a number of seconds, not 'soon'"),
        ({"models": {"default": 5}}, "a limit is not of its kind"),
        ({"budget": {"max_total": 5}}, "budget takes a TokenBudget"),
        ({"task_type": 5}, "task_type"),
        ({"system_prompt": None}, "system_prompt"),
        ({"max_tokens": 2**63}, "max_total must not be negative, nor without end"),
    ],
)
def test_what_would_be_ignored_is_refused(desk: Desk, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(BuildError, match=words):
        agent(desk, DONE, **wrong).build()
    assert desk.store.ids() == []


def test_a_schema_that_is_none_is_refused_before_a_thread_is_made(desk: Desk) -> None:
    with pytest.raises(UsageError, match="schema"):
        agent(desk, DONE, config=TaskConfig(output_schema={"type": "nonsense"})).build()
    assert desk.store.ids() == []


async def test_who_resumes_a_task_with_a_policy_gets_it(desk: Desk) -> None:
    tools = Toolbox(cut=mutate())
    first = agent(desk, Says(("cut",), DONE), tools=tools).build()
    thread_id = first.thread_id
    await first.close()
    again = agent(desk, Says(("cut",), DONE), tools=tools, approval=AlwaysAsk()).resume(thread_id)
    with pytest.raises(ApprovalNeeded):
        await again.run()
    assert tools.runs == []
    await again.close()
    kept = agent(desk, Says(("cut",), DONE), tools=tools).resume(thread_id)
    assert len(kept.questions) == 1
    await close(desk, kept)


async def test_what_is_blacklisted_is_never_offered_to_the_model(desk: Desk) -> None:
    tools = Toolbox(cut=mutate(), look=read())
    builder = agent(desk, calls("look"), DONE, tools=tools, blacklist=["cut"])
    engine = builder.build()
    await engine.run()
    await engine.close()
    model = desk.providers[-1]
    offered = [[tool.name for tool in one.tools] for one in model.requests]  # type: ignore[attr-defined]
    assert offered == [["look"], ["look"]]
    kinds = desk.kinds(engine.thread_id)
    again = agent(desk, DONE, task="", tools=tools, blacklist=["cut"]).resume(engine.thread_id)
    await again.close()
    assert desk.kinds(engine.thread_id) == kinds, "nothing is configured anew"


async def test_a_blacklist_cannot_grow_while_a_task_runs(desk: Desk) -> None:
    builder = agent(desk, DONE, tools=Toolbox(cut=mutate()), blacklist=["burn"])
    engine = builder.build()
    await engine.close()
    with pytest.raises(BuildError, match="begun without cut on its blacklist"):
        agent(desk, DONE, tools=Toolbox(cut=mutate()), blacklist=["cut"]).resume(engine.thread_id)
    resumed = builder.resume(engine.thread_id)
    assert await resumed.run() == DONE
    await close(desk, resumed)


SPIN = '{"task":"spin"}'


def family(desk: Desk, child: AgentBuilder, **options: Any) -> AgentBuilder:
    model = Says(("spinner",), DONE, arguments=SPIN)
    return agent(desk, model, **options).sub_agent("spinner", "spins", child)


def results(engine: Any) -> str:
    return "\n".join(m.content for m in engine.memory.transcript if m.role == "tool")


async def test_a_sub_agent_asks_as_its_parent_does(desk: Desk) -> None:
    tools = Toolbox(cut=mutate())
    child = agent(desk, Says(("cut",), DONE), task="", tools=tools)
    asked: list[str] = []

    def on_approval(question: Any) -> Any:
        asked.append(question.call.tool_name)
        return Approved() if question.call.tool_name == "spinner" else Rejected("not today")

    engine = family(desk, child, approval=AlwaysAsk(), on_approval=on_approval).build()
    assert await engine.run() == DONE
    assert asked == ["spinner", "cut"]
    assert tools.runs == []
    await close(desk, engine)


async def test_a_sub_agent_may_have_a_policy_of_its_own(desk: Desk) -> None:
    tools = Toolbox(cut=mutate())
    child = agent(desk, Says(("cut",), DONE), task="", tools=tools, approval=AlwaysAsk())
    engine = family(desk, child, approval=NeverAsk()).build()
    assert await engine.run() == DONE
    assert tools.runs == []
    await close(desk, engine)


async def test_what_its_parent_may_not_call_a_sub_agent_may_not_either(desk: Desk) -> None:
    tools = Toolbox(cut=mutate())
    child = agent(desk, Says(("cut",), DONE), task="", tools=tools)
    engine = family(desk, child, blacklist=["cut"]).build()
    assert await engine.run() == DONE
    assert tools.runs == []
    await close(desk, engine)


@pytest.mark.parametrize("name", ["", "a b", "ä", "bash\n", "x" * 65])
def test_a_sub_agent_has_a_name_that_providers_take(desk: Desk, name: str) -> None:
    with pytest.raises(BuildError, match="cannot be the name of a tool"):
        agent(desk, DONE).sub_agent(name, "spins", AgentBuilder(""))


def test_a_sub_agent_is_described_by_a_builder(desk: Desk) -> None:
    with pytest.raises(BuildError, match="is no AgentBuilder but None"):
        agent(desk, DONE).sub_agent("spinner", "spins", None)  # type: ignore[arg-type]


def test_a_state_owns_fields_by_their_names(desk: Desk) -> None:
    with pytest.raises(BuildError, match="owns takes names of fields"):
        agent(desk, DONE).state("Odd", lambda _: "Even", owns="step")


async def test_who_lacks_a_tool_cannot_go_on_with_its_task(desk: Desk) -> None:
    engine = agent(desk, DONE, tools=Toolbox(cut=mutate(), look=mutate())).build()
    await engine.close()
    with pytest.raises(BuildError, match="tools that this agent lacks: cut"):
        agent(desk, DONE, tools=Toolbox(look=mutate())).resume(engine.thread_id)


def test_a_sub_agent_that_cannot_be_is_refused_with_its_parent(desk: Desk) -> None:
    for child in (
        agent(desk, DONE, task="", max_steps=0),
        agent(desk, DONE, task="").transition("Planning", "Odd", "Nowhere"),
    ):
        with pytest.raises(BuildError, match=r"max_steps|no handler"):
            family(desk, child).build()
    assert desk.store.ids() == []


async def test_without_a_store_secrets_of_the_environment_are_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-test-0123456789-abcdefghij"
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    said = ScriptedModel.of({"text": f"I have used {secret} and it went well."})
    async with AgentBuilder(f"use {secret}", llm=said).build() as engine:
        assert await engine.run() == "I have used [REDACTED:openai_api_key] and it went well."
    files = [path.read_text() for path in (tmp_path / "data" / "threads").glob("T-*")]
    assert len(files) == 3
    assert not any(secret in text for text in files)
