"""A program that only type checkers read: what they infer of agents, from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_type

import pydantic

from treadle import (
    Agent,
    AgentContext,
    AgentTask,
    AgentThread,
    EffectClass,
    LocalStore,
    MCPRule,
    MCPServer,
    Message,
    Result,
    RiskLevel,
    ScriptedModel,
    ToolContext,
    tool,
)


@dataclass
class Shop:
    name: str


class Answer(pydantic.BaseModel):
    text: str


class Refusal(pydantic.BaseModel):
    reason: str


@tool
def find(ctx: ToolContext[Shop], number: int) -> list[str]:
    """Find an order."""
    assert_type(ctx.deps, Shop)
    return [ctx.deps.name, str(number)]


def instruct(context: AgentContext[Shop]) -> str:
    assert_type(context.deps, Shop)
    return context.deps.name


MODEL = ScriptedModel.of("x")
SERVER = MCPServer("s", command="s", rules={"*": MCPRule(EffectClass.READ, RiskLevel.LOW)})
PLAIN = Agent("plain", model="anthropic:")
TYPED = Agent(
    "typed", model=MODEL, deps=Shop, output=Answer, tools=[find, SERVER], instructions=instruct
)
LISTED = Agent("listed", model=MODEL, output=list[int])
EITHER = Agent("either", model=MODEL, deps=Shop, output=Answer | Refusal, store=LocalStore("x"))
CHOSEN = Agent("chosen", model=MODEL, output=Literal["yes", "no"])

assert_type(PLAIN, Agent[None, str])
assert_type(TYPED, Agent[Shop, Answer])
assert_type(LISTED, Agent[None, list[int]])
assert_type(EITHER, Agent[Shop, Answer | Refusal])
assert_type(CHOSEN.run_sync("x").output, Literal["yes", "no"])
assert_type(PLAIN.run_sync("x"), Result[str])


async def use() -> None:
    assert_type(await PLAIN.run("x"), Result[str])
    result = await TYPED.run("x", deps=Shop("a"))
    assert_type(result, Result[Answer])
    assert_type(result.output, Answer)
    assert_type(result.output.text, str)
    assert_type((await LISTED.run("x")).output, list[int])
    async with TYPED.task("x", deps=Shop("a")) as task:
        assert_type(task, AgentTask[Answer])
        assert_type(await task.run(), Result[Answer])
    async with TYPED.thread("key", deps=Shop("a")) as thread:
        assert_type(thread, AgentThread[Answer])
        assert_type(await thread.send("x"), Result[Answer])
        assert_type((await thread.approve()).output, Answer)
        assert_type(thread.messages, Sequence[Message])
        async with await thread.fork() as fork:
            assert_type(fork, AgentThread[Answer])
    await TYPED.run("x", deps="Shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    PLAIN.run_sync(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tool(find.function, risk=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Agent("x", model=MODEL, colour=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
