"""What a handler is given, what it may write, what it uses: nothing is lost without a word."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import Desk, Toolbox, mutate, read
from runtime.task.agents import DONE, Says, agent, close
from runtime.task.test_graphs import checked
from treadle.core.approval import NeverAsk, Scope
from treadle.core.config import AgentConfig as Settings
from treadle.core.llm import Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.events import CustomState
from treadle.core.task.memory import AgentMemory, History
from treadle.core.task.table import Event, State
from treadle.errors import (
    AgentError,
    AgentFailed,
    HandlerFailed,
    InvalidTransition,
    OwnershipViolation,
)
from treadle.thread.codec import decode_entry
from treadle.thread.usage import list_usage


def nested(memory: AgentMemory) -> tuple[AgentMemory, str]:
    """Writes into what is in `extra`, and says so as one does who copies the outside only."""
    if not memory.extra:
        return replace(memory, extra={"seen": [1]}), "Again"
    memory.extra["seen"].append(2)
    return replace(memory, extra=dict(memory.extra)), "Fine"


def in_place(memory: AgentMemory) -> str:
    """Writes into `extra` and returns an event alone."""
    memory.extra.setdefault("seen", []).append(memory.step)  # type: ignore[attr-defined]
    return "Again" if memory.step < 2 else "Fine"


@pytest.mark.parametrize("handler", [nested, in_place])
async def test_what_is_written_into_extra_in_place_is_recorded(desk: Desk, handler: Any) -> None:
    engine = checked(desk, handler, Says(DONE)).build()
    assert await engine.run() == DONE
    assert engine.memory.extra == {"seen": [1, 2]}
    (desk.folder / "data" / "threads" / f"{engine.thread_id}.json").unlink(missing_ok=True)
    assert desk.store.load(engine.thread_id).fold.machine.memory.extra == {"seen": [1, 2]}
    await close(desk, engine)


async def test_a_handler_that_fails_leaves_extra_as_it_was(desk: Desk) -> None:
    def handler(memory: AgentMemory) -> str:
        memory.extra["a"] = 1  # type: ignore[index]
        raise ValueError("oh")

    engine = checked(desk, handler).build()
    with pytest.raises(HandlerFailed, match="oh"):
        await engine.run()
    assert engine.memory.extra == {}
    await close(desk, engine)


async def test_writing_into_extra_in_place_needs_the_right_to_it(desk: Desk) -> None:
    builder = checked(desk, in_place)
    (state,) = builder._graph.states
    only_error = CustomState(state.name, ("error",))
    builder._graph = replace(builder._graph, states=(only_error,))
    engine = builder.build()
    with pytest.raises(OwnershipViolation, match=r"memory\.extra"):
        await engine.run()
    assert engine.memory.extra == {}
    await close(desk, engine)


UNRECORDABLE: dict[str, Any] = {
    "total_usage": lambda memory: replace(memory, total_usage=Usage(1, 1)),
    "transcript": lambda memory: replace(
        memory, transcript=memory.transcript.append(Message.assistant("I never said that"))
    ),
    "exceeded": lambda memory: replace(memory, exceeded="cost"),
}


@pytest.mark.parametrize("field", UNRECORDABLE)
async def test_a_handler_that_writes_what_no_event_can_say_is_told(desk: Desk, field: str) -> None:
    """Also in the place of a built-in state, which may write it."""

    def plan(memory: AgentMemory) -> tuple[AgentMemory, str]:
        memory = UNRECORDABLE[field](memory)
        return replace(memory, final_answer=DONE), Event.LLM_FINAL_ANSWER

    engine = agent(desk, DONE).state(State.PLANNING, plan, ("final_answer",)).build()
    with pytest.raises(OwnershipViolation, match=rf"memory\.{field}"):
        await engine.run()
    assert "state_completed" not in desk.kinds(engine.thread_id)
    await close(desk, engine)


async def test_history_cannot_be_written_by_an_observing_of_ones_own(desk: Desk) -> None:
    def observe(memory: AgentMemory) -> tuple[AgentMemory, str]:
        return replace(memory, history=History([*memory.history])), Event.CONTINUE

    def lose(memory: AgentMemory) -> tuple[AgentMemory, str]:
        from treadle.core.task.memory import HistoryEntry

        entry = HistoryEntry(1, ToolCall("c", "cut"), "SUCCESS: x", True)
        return replace(memory, history=memory.history.append(entry)), Event.CONTINUE

    reply = {"calls": [{"tool": "look"}]}
    tools = Toolbox(look=read())
    engine = agent(desk, reply, DONE, tools=tools).state(State.OBSERVING, lose).build()
    with pytest.raises(OwnershipViolation, match=r"memory\.history"):
        await engine.run()
    await engine.close()
    mended = agent(desk, reply, DONE, tools=tools).state(State.OBSERVING, observe)
    engine = mended.resume(engine.thread_id)
    assert await engine.run() == DONE, "an equal value is no change"
    await close(desk, engine)


async def test_a_line_of_the_trace_keeps_the_name_it_was_logged_under(desk: Desk) -> None:
    def handler(memory: AgentMemory) -> tuple[AgentMemory, str]:
        return memory.log("Elsewhere", "SEEN", "it").log("Check", "DONE"), "Fine"

    engine = checked(desk, handler).build()
    await engine.run()
    lines = [(e.state, e.event, e.data) for e in engine.trace]
    assert [*filter(lambda line: line[1] in ("SEEN", "DONE"), lines)] == [
        ("Elsewhere", "SEEN", "it"),
        ("Check", "DONE", ""),
    ]
    (event,) = [e for e in desk.events(engine.thread_id) if e["type"] == "state_completed"]
    assert [line.get("state") for line in event["logged"]] == ["Elsewhere", None]
    await close(desk, engine)


async def test_a_handler_cannot_ask_beyond_the_budget(desk: Desk) -> None:
    async def greedy(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        for _ in range(9):
            await llm.ask([Message.user("more?")])
        return "Fine"

    model = Says(DONE, usage=Usage(100, 0))
    engine = checked(desk, greedy, model, max_tokens=350).build()
    with pytest.raises(AgentFailed, match=r"handler of Check failed: .*400 of 350 tokens used"):
        await engine.run()
    assert len(model.requests) == 4
    assert engine.memory.total_usage == Usage(400, 0)
    await close(desk, engine)


async def test_a_handler_may_go_on_without_the_model_when_the_budget_is_used_up(
    desk: Desk,
) -> None:
    async def frugal(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        try:
            for _ in range(9):
                await llm.ask([Message.user("more?")])
        except AgentError:
            return "Fine"
        return "Again"

    engine = checked(desk, frugal, Says(DONE, usage=Usage(100, 0)), max_tokens=350).build()
    assert await engine.run() == DONE
    await close(desk, engine)


def _says_odd(memory: AgentMemory) -> Any:
    return "Odd"


def _takes_step(memory: AgentMemory) -> Any:
    return replace(memory, step=9), "Fine"


@pytest.mark.parametrize(
    ("outcome", "error"), [(_says_odd, InvalidTransition), (_takes_step, OwnershipViolation)]
)
async def test_what_a_handler_used_counts_though_its_outcome_is_refused(
    desk: Desk, outcome: Any, error: type[Exception]
) -> None:
    async def handler(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> Any:
        await llm.ask([Message.user("?")])
        return outcome(memory)

    engine = checked(desk, handler, Says(DONE, usage=Usage(100, 1)), model="loom-1").build()
    with pytest.raises(error):
        await engine.run()
    assert engine.state == "Check"
    assert desk.kinds(engine.thread_id)[-1] == "state_failed", "it is durable"
    assert engine.memory.total_usage == Usage(200, 2)
    await close(desk, engine)
    records = desk.store.scan(engine.thread_id).records
    lines = [*list_usage((one.seq, one.at, decode_entry(one.event)) for one in records)]
    assert [(line.purpose, line.model) for line in lines] == [
        ("answer", "loom-1"),
        ("failed custom state", "loom-1"),
    ]

    engine = checked(desk, lambda memory: "Fine", Says(DONE)).resume(engine.thread_id)
    assert await engine.run() == DONE
    assert engine.memory.total_usage == Usage(200, 2)
    await close(desk, engine)


async def test_a_handler_asks_with_the_settings_of_the_task_and_without_secrets(
    desk: Desk,
) -> None:
    class Keeper:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    async def handler(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        call = ToolCall("c", "login", '{"word":"hunter2"}')
        said = Message.assistant("", (call,))
        await llm.ask([Message.user("?"), said, Message.tool(call, "hunter2 it is")])
        return "Fine"

    model = Says(DONE)
    settings = Settings(temperature=0.5, reasoning="high", max_tokens=77, approval=NeverAsk())
    engine = checked(desk, handler, model, settings=settings, redactor=Keeper()).build()
    assert await engine.run() == DONE
    asked = model.requests[-1]
    assert (asked.temperature, asked.reasoning, asked.max_tokens) == (0.5, "high", 77)
    assert asked.messages[1].tool_calls[0].arguments_json == '{"word":"[REDACTED:password]"}'
    assert "hunter2" not in str([*asked.messages])
    await close(desk, engine)


async def test_a_handler_cannot_call_what_is_blacklisted_nor_write_the_mark_of_a_secret(
    desk: Desk,
) -> None:
    found: list[Any] = []

    async def handler(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        found.append(await tools.call("burn", {}))
        found.append(await tools.call("write", {"text": "[REDACTED:password]"}))
        found.append(await tools.call("look", {"text": "[REDACTED:password]"}))
        return "Fine"

    tools = Toolbox(burn=mutate(), write=mutate(), look=read("seen"))
    engine = checked(desk, handler, tools=tools, blacklist=["burn"]).build()
    assert await engine.run() == DONE
    assert tools.ran == ["look"]
    assert "'burn' is blacklisted" in found[0].error.text
    assert "Nothing was done" in found[1].error.text
    assert found[2].output == "seen"
    await close(desk, engine)


class _Scoped(Toolbox):
    """Says of its tools what a yes would cover."""

    def scope_of(self, call: ToolCall) -> Scope | None:
        return SCOPES[call.tool_name]


SCOPES = {
    "look": None,
    "peek": Scope(ground="here"),
    "reach": Scope(must_ask=True),
    "leave": Scope(refused="nothing holds it here"),
}


async def test_a_handler_cannot_call_what_is_refused_nor_what_a_person_must_be_asked_about(
    desk: Desk,
) -> None:
    found: list[Any] = []

    async def handler(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        found.extend([await tools.call(name, {}) for name in SCOPES])
        return "Fine"

    tools = _Scoped(look=read("a"), peek=read("b"), reach=read("c"), leave=mutate())
    engine = checked(desk, handler, tools=tools).build()
    assert await engine.run() == DONE
    assert tools.ran == ["look", "peek"]
    assert "needs a person's yes" in found[2].error.text
    assert "nothing holds it here" in found[3].error.text
    await close(desk, engine)
