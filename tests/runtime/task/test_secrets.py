"""A known secret is on no disk and in no request, wherever a task has met it."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from runtime.desk import Desk, Failure, Model, Run, Toolbox, calls, mutate, read
from runtime.task.agents import DONE, agent, close
from treadle import outputs
from treadle.core.messages import Message
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import Event, State
from treadle.core.tools import ToolError, ToolErrorKind
from treadle.runtime.builder import AgentBuilder

SECRET: Final = "sk-live-0123456789"
MARK: Final = "[REDACTED:key]"


class Hides:
    """A redactor that knows one secret."""

    def redact(self, text: str) -> str:
        return text.replace(SECRET, MARK)


def on_disk(desk: Desk) -> str:
    files = [path for path in desk.folder.rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix in (".json", ".jsonl")]) >= 2
    return "\n".join(path.read_bytes().decode(errors="replace") for path in files)


async def leaks(run: Run) -> Any:
    if run.name == "fail":
        return Failure(run.call.id, ToolError(ToolErrorKind.IO, f"no {SECRET}", f"at {SECRET}"))
    return f"the key is {SECRET}"


async def handler(memory: AgentMemory, tools: Any, llm: Any, output: Any) -> Any:
    found = await tools.call("look", {})
    assert found.output == f"the key is {MARK}"
    answer = await llm.ask([Message.user(f"{found.output} {SECRET}")], system=f"say {SECRET}")
    output(f"I know {SECRET}")
    after = memory.log("Check", "FOUND", SECRET).tell(f"do not say {SECRET}")
    extra = {"type": SECRET, SECRET: [f"{found.output} {answer.message.content} {SECRET}"]}
    return replace(after, extra=extra), "Fine"


def secretive(desk: Desk) -> AgentBuilder:
    tools = Toolbox(look=read(leaks), fail=mutate(leaks))
    replies = (
        {"when": {"system": "^say"}, "text": f"it is {SECRET}"},
        {"calls": [{"tool": "look", "arguments": {"key": SECRET}}, {"tool": "fail"}]},
        f"{DONE} {SECRET}",
    )
    return (
        agent(desk, *replies, task=f"Use {SECRET}", tools=tools, system_prompt=f"You know {SECRET}")
        .redactor(Hides())
        .state("Check", handler, ())
        .transition(State.PLANNING, Event.LLM_FINAL_ANSWER, "Check")
        .transition("Check", "Fine", State.DONE)
    )


async def test_a_known_secret_is_nowhere_on_disk_and_in_no_request(desk: Desk) -> None:
    engine = secretive(desk).build()
    assert await engine.run() == f"{DONE} {MARK}"
    assert engine.memory.task == f"Use {MARK}"
    assert engine.memory.extra == {"type": MARK, MARK: [f"the key is {MARK} it is {MARK} {MARK}"]}
    await close(desk, engine)
    text = on_disk(desk)
    assert SECRET not in text
    assert text.count(MARK) > 8
    model = desk.providers[0]
    assert isinstance(model, Model)
    assert SECRET.encode() not in b"".join(model.sent)
    assert outputs.TextDelta(f"I know {MARK}") in desk.heard.outputs


async def test_the_secrets_of_a_sub_agent_are_those_of_its_parent(desk: Desk) -> None:
    child = agent(desk, calls("look"), f"It is {SECRET}.", task="", tools=Toolbox(look=read(leaks)))
    ask = {"tool": "spinner", "arguments": {"task": f"find {SECRET}"}}
    engine = (
        agent(desk, {"calls": [ask]}, DONE)
        .redactor(Hides())
        .sub_agent("spinner", "finds", child)
        .build()
    )
    assert await engine.run() == DONE
    await close(desk, engine)
    assert len(desk.store.ids()) == 2
    assert SECRET not in on_disk(desk)


async def test_what_a_person_changed_a_call_to_is_redacted_and_then_refused(desk: Desk) -> None:
    from treadle.core.approval import AlwaysAsk, Modified

    tools = Toolbox(cut=mutate())
    builder = agent(desk, calls("cut"), DONE, tools=tools, approval=AlwaysAsk()).redactor(Hides())
    decision = Modified(f'{{"key":"{SECRET}"}}')
    engine = builder.on_approval(lambda _: decision).build()
    assert await engine.run() == DONE
    assert tools.ran == [], "what would run is not what was meant"
    await close(desk, engine)
    assert SECRET not in on_disk(desk)
