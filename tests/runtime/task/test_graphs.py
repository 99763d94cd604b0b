"""Graphs of one's own: their handlers run, fail as data, and nobody needs them to read a thread."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.desk import Desk, Run, Toolbox, for_ever, mutate, read
from runtime.task.agents import DONE, Says, agent, close, events, lasting, on_one_clock
from treadle import outputs
from treadle.core.llm import Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import Event, State
from treadle.core.task.trace import Trace
from treadle.errors import (
    BudgetExceeded,
    BuildError,
    HandlerFailed,
    InvalidTransition,
    NoHandlerForState,
    OwnershipViolation,
)
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.store.replay import replay

Handling = Callable[..., Any]
CHECKED: Final = "The carpet was looked at by somebody."


def checked(
    desk: Desk, handler: Any, *replies: Any, owns: tuple[str, ...] = (), **options: Any
) -> AgentBuilder:
    """An agent whose answer is looked at by a state of its own before it counts."""
    return (
        agent(desk, *(replies or (DONE,)), **options)
        .state("Check", handler, owns)
        .transition(State.PLANNING, Event.LLM_FINAL_ANSWER, "Check")
        .transition("Check", "Fine", State.DONE)
        .transition("Check", "Again", State.PLANNING)
    )


def accept(memory: AgentMemory) -> tuple[AgentMemory, str]:
    seen = replace(memory, extra={**memory.extra, "checked": [memory.step, 0.5, None, "ok"]})
    return seen.log("Check", "CHECKED", "it is good"), "Fine"


async def test_a_pure_handler_moves_the_task_and_writes_what_it_owns(desk: Desk) -> None:
    engine = checked(desk, accept).build()
    assert await engine.run() == DONE
    assert engine.memory.extra == {"checked": [1, 0.5, None, "ok"]}
    assert [(e.state, e.event, e.data) for e in engine.trace][-2:] == [
        ("Check", "CHECKED", "it is good"),
        ("Done", "TASK_COMPLETE", DONE),
    ]
    await close(desk, engine)


async def test_an_object_with_a_method_handle_is_a_handler(desk: Desk) -> None:
    class Checker:
        def handle(self, memory: AgentMemory) -> str:
            return "Fine"

    engine = checked(desk, Checker()).build()
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_a_handler_can_send_the_task_back_and_write_the_answer(desk: Desk) -> None:
    def check(memory: AgentMemory) -> tuple[AgentMemory, str]:
        if memory.step < 3:
            return replace(memory, final_answer=None), "Again"
        return replace(memory, final_answer=CHECKED), "Fine"

    engine = checked(desk, check, Says(DONE), owns=("final_answer",)).build()
    assert await engine.run() == CHECKED
    assert engine.memory.step == 3
    assert engine.memory.transcript[-1].content == CHECKED
    await close(desk, engine)


async def test_what_a_handler_tells_the_model_is_in_the_next_request(desk: Desk) -> None:
    def check(memory: AgentMemory) -> tuple[AgentMemory, str]:
        if memory.step == 1:
            return replace(memory, final_answer=None).tell("It must be red."), "Again"
        return memory, "Fine"

    model = Says("It is blue, as I said.", DONE)
    engine = checked(desk, check, model, owns=("final_answer",)).build()
    assert await engine.run() == DONE
    last = model.requests[1].messages[-1]
    assert (last.role, last.content) == ("user", "It must be red.")
    await close(desk, engine)


async def test_a_handler_cannot_rewrite_what_was_said(desk: Desk) -> None:
    def check(memory: AgentMemory) -> tuple[AgentMemory, str]:
        said = memory.transcript.append(Message.assistant("I never said that."))
        return replace(memory, transcript=said), "Fine"

    engine = checked(desk, check).build()
    with pytest.raises(OwnershipViolation, match="transcript"):
        await engine.run()
    assert engine.state == "Check"
    await close(desk, engine)


async def ask_again(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> Any:
    output("I look at it")
    found = await tools.call("look", {"at": "carpet"})
    answer = await llm.ask([Message.user(f"Is it good? {found.output}")], system="You judge")
    return replace(memory, extra={"verdict": answer.message.content}), "Fine"


async def test_an_async_handler_has_the_tools_the_model_and_the_ear_of_people(desk: Desk) -> None:
    tools = Toolbox(look=read("a carpet"))
    replies = ({"when": {"system": "^You judge$"}, "text": "yes"}, DONE)
    engine = checked(desk, ask_again, *replies, tools=tools).build()
    assert await engine.run() == DONE
    assert engine.memory.extra == {"verdict": "yes"}
    assert tools.runs[0].call.arguments_json == '{"at":"carpet"}'
    assert outputs.TextDelta("I look at it") in desk.heard.outputs
    asked = desk.providers[0].requests[-1]  # type: ignore[attr-defined]
    assert [m.content for m in asked.messages] == ["Is it good? a carpet"]
    await close(desk, engine)


@pytest.mark.parametrize("usage", [Usage(1000, 10), None])
async def test_what_an_async_handler_asks_of_the_model_counts(
    desk: Desk, usage: Usage | None
) -> None:
    async def long_ask(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        await llm.ask([Message.user("x" * 4000)])
        return "Again"

    model = Says(DONE, usage=usage)
    engine = checked(desk, long_ask, model, max_tokens=2500).build()
    with pytest.raises(BudgetExceeded):
        await engine.run()
    assert len(model.requests) == 3 if usage is not None else len(model.requests) >= 4
    assert engine.memory.total_usage.estimated == (usage is None)
    await close(desk, engine)


async def test_a_model_that_does_not_answer_a_handler_stops_the_task(desk: Desk) -> None:
    async def judge(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        await llm.ask([Message.user("?")], system="You judge")
        return "Fine"

    failing: dict[str, Any] = {
        "when": {"system": "^You judge$"},
        "error": {"kind": "authentication"},
    }
    engine = checked(desk, judge, failing, DONE).build()
    with pytest.raises(HandlerFailed, match=r"handler of Check failed: .*authentication"):
        await engine.run()
    await close(desk, engine)
    engine = checked(desk, judge, DONE).resume(engine.thread_id)
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_what_extra_holds_comes_back_as_it_went_in(desk: Desk) -> None:
    value = {"t": [1, -0.5, 2**63 - 1, True, None, "\U0001f9f5 \u2028"], "": {}}
    seen = []

    def check(memory: AgentMemory) -> tuple[AgentMemory, str]:
        seen.append(dict(memory.extra))
        return (replace(memory, extra=value), "Again") if not memory.extra else (memory, "Fine")

    engine = checked(desk, check, Says(DONE)).build()
    await engine.run()
    assert seen == [{}, value]
    await close(desk, engine)
    assert desk.store.load(engine.thread_id).fold.machine.memory.extra == value


WRONG: Final[dict[str, tuple[Handling, type[Exception]]]] = {
    "an unknown event": (lambda memory: "Odd", InvalidTransition),
    "a foreign field": (lambda memory: (replace(memory, step=9), "Fine"), OwnershipViolation),
    "the task": (lambda memory: (replace(memory, task="easier"), "Fine"), OwnershipViolation),
    "the trace": (lambda memory: (replace(memory, trace=Trace()), "Fine"), OwnershipViolation),
}


@pytest.mark.parametrize("name", WRONG)
async def test_after_a_handler_broke_the_rules_a_corrected_one_goes_on(
    desk: Desk, name: str
) -> None:
    handler, error = WRONG[name]
    engine = checked(desk, handler).build()
    with pytest.raises(error):
        await engine.run()
    before = desk.kinds(engine.thread_id)
    assert before.count("state_completed") == 0
    assert engine.state == "Check"
    with pytest.raises(error):
        await engine.run()
    assert desk.kinds(engine.thread_id).count("state_completed") == 0
    await close(desk, engine)

    engine = checked(desk, accept).resume(engine.thread_id)
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_another_graph_cannot_go_on_with_a_thread(desk: Desk) -> None:
    engine = checked(desk, accept).build()
    await engine.close()
    for other in (
        agent(desk, DONE),
        checked(desk, accept).transition("Check", "Late", State.ERROR),
        checked(desk, accept, owns=("step",)),
    ):
        with pytest.raises(BuildError, match="runs another graph"):
            other.resume(engine.thread_id)
    engine = checked(desk, accept).resume(engine.thread_id)
    assert await engine.run() == DONE
    await close(desk, engine)


async def test_a_thread_that_needs_a_handler_is_not_driven_without_it(desk: Desk) -> None:
    engine = checked(desk, accept).build()
    await engine.close()
    writer = desk.store.open(engine.thread_id)
    with pytest.raises(NoHandlerForState, match="'Check'"):
        AgentEngine(writer, desk.providers[0], Toolbox())
    writer.close()


async def test_a_process_that_dies_in_a_handler_has_it_run_again(desk: Desk) -> None:
    keys, began = list[str](), asyncio.Event()

    async def check(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        await tools.call("cut", {})
        began.set()
        await tools.call("look", {})
        return "Fine"

    async def keep(run: Run) -> str:
        keys.append(run.key)
        return "cut"

    tools = Toolbox(cut=mutate(keep), look=read(for_ever))
    engine = checked(desk, check, tools=tools).build()
    running = asyncio.ensure_future(engine.run())
    await began.wait()
    desk.crash()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    tools.tools["look"] = read()
    engine = checked(desk, check, tools=tools).resume(engine.thread_id)
    assert engine.state == "Check"
    assert await engine.run() == DONE
    assert len(keys) == 2
    assert len({*keys}) == 1, "the tool can tell that it is the same call"
    await close(desk, engine)


async def test_the_time_limit_ends_a_handler(desk: Desk) -> None:
    on_one_clock(desk)

    async def check(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> str:
        await lasting(10_000.0)
        return "Fine"

    engine = checked(desk, check, time_limit=60).build()
    with pytest.raises(BudgetExceeded, match="60 of 60 s"):
        await engine.run()
    assert asyncio.get_running_loop().time() == 60
    await close(desk, engine)


async def test_a_terminal_state_of_ones_own_ends_the_task_with_its_answer(desk: Desk) -> None:
    engine = (
        agent(desk, DONE)
        .terminal_state("Woven")
        .transition(State.PLANNING, Event.LLM_FINAL_ANSWER, "Woven")
        .build()
    )
    assert await engine.run() == DONE
    assert engine.state == "Woven"
    assert [
        *filter(None, (getattr(o, "text", "") for o in desk.heard.of(outputs.FinalAnswer)))
    ] == [DONE]
    await close(desk, engine)


async def test_a_planning_of_ones_own_replaces_the_built_in_one(desk: Desk) -> None:
    """Its calls run like those of a model, each under an id of its own."""

    def plan(memory: AgentMemory) -> tuple[AgentMemory, str]:
        done = len(memory.history)
        memory = replace(memory, step=memory.step + 1)
        if done < 2:
            call = ToolCall("same", "cut", json.dumps({"n": done}))
            return replace(memory, current_tool_call=call), Event.LLM_TOOL_CALL
        told = ", ".join(entry.observation for entry in memory.history)
        return replace(memory, final_answer=f"I did it all: {told}"), Event.LLM_FINAL_ANSWER

    tools = Toolbox(cut=mutate())
    model = Says(DONE)
    owns = ("step", "current_tool_call", "final_answer")
    engine = agent(desk, model, tools=tools).state(State.PLANNING, plan, owns).build()
    assert await engine.run() == "I did it all: SUCCESS: fine, SUCCESS: fine"
    assert model.requests == []
    assert len({run.key for run in tools.runs}) == 2
    assert "HISTORY_COMMIT" in events(engine)
    await close(desk, engine)


READING: Final = """
import json, sys
from pathlib import Path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
folder = Path(sys.argv[1])
places = Places(folder / "data", folder / "state", folder / "config")
fold = LocalStore(places).load(sys.argv[2]).fold
memory = fold.machine.memory
print(json.dumps([
    fold.machine.state_name, dict(memory.extra), [e.event for e in memory.trace],
    sorted(n for n in sys.modules if n.startswith("treadle.runtime")),
]))
"""


async def test_a_journal_is_read_without_the_program_that_made_it(desk: Desk) -> None:
    """By another process, that has neither handlers nor a runtime."""
    engine = checked(desk, accept).build()
    await engine.run()
    await engine.close()
    (desk.folder / "data" / "threads" / f"{engine.thread_id}.json").unlink()
    done = subprocess.run(  # noqa: ASYNC221  nothing else runs here
        [sys.executable, "-c", READING, str(desk.folder), engine.thread_id],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        text=True,
    )
    assert done.returncode == 0, done.stderr
    state, extra, trace, runtime = json.loads(done.stdout)
    assert (state, extra) == ("Done", dict(engine.memory.extra))
    assert trace == events(engine)
    assert runtime == []
    *steps, last = replay(desk.store, engine.thread_id)
    assert last.verdict is not None
    assert last.verdict.is_good
    assert [step.after for step in steps][-1] == "Done"


def test_a_handler_that_cannot_be_called_is_refused_before_anything_is_made(desk: Desk) -> None:
    async def odd(memory: AgentMemory) -> str:
        return "Fine"

    for handler in (odd, 7, lambda: "Fine", None):
        with pytest.raises(BuildError, match="handler of state 'Check' cannot be called"):
            checked(desk, handler)
    with pytest.raises(BuildError, match="no handler"):
        agent(desk, DONE).transition(State.PLANNING, "Odd", "Nowhere").build()
    with pytest.raises(BuildError, match="task is empty"):
        agent(desk, DONE, task=" ").build()
    assert desk.store.ids() == []
