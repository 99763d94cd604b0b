"""Tools that are too many to be listed: found by words, called by name, judged as themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from case_tables import for_every_row
from treadle import LocalStore, MCPRule, MCPServer, tool
from treadle.core.messages import ToolCall
from treadle.core.tools import (
    Access,
    EffectClass,
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolExecutionOutcome,
)
from treadle.mcp.offered_tools import ListedTool, offer_tools
from treadle.mcp.tool_search import CALL, SEARCH, SearchedTools
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.tools.registry import Registry

RULES = {
    "*": MCPRule(EffectClass.MUTATE, RiskLevel.HIGH),
    "look": MCPRule(EffectClass.READ, RiskLevel.LOW),
}
WINDOW = 20_000


@tool
def mine(text: str) -> str:
    """Say it again."""
    return text


def make(count: int, window: int = WINDOW, own: Sequence[Any] = (mine,)) -> SearchedTools:
    server = MCPServer("many", command="true", rules=RULES)
    servers = ServerTools(server)
    listed = [
        ListedTool("look", "Looks at an issue of the tracker.", {"type": "object"}),
        *(
            ListedTool(f"t{n}", f"Number {n}. " + "word " * 40, {"type": "object"})
            for n in range(count)
        ),
    ]
    servers.offered = offer_tools(server, listed)
    return SearchedTools(McpTools(Registry(own), [servers]), window)


def names(definitions: Sequence[ToolDefinition]) -> list[str]:
    return [one.name for one in definitions]


async def call(tools: SearchedTools, tool_name: str, /, **arguments: object) -> Outcome:
    made = ToolCall("c1", tool_name, json.dumps(arguments))
    return await tools.execute(made, key="t:c1", progress=lambda _: None)


def output(outcome: Outcome) -> str:
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    return outcome.output


def fault(outcome: Outcome | None) -> str:
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    return outcome.error.message


def test_tools_are_listed_up_to_a_tenth_of_the_window_and_found_beyond() -> None:
    few = make(5)
    assert names(few.definitions()) == [
        *("mine", "many__look"),
        *(f"many__t{n}" for n in range(5)),
    ]
    many = make(60)
    assert names(many.definitions()) == ["mine", SEARCH, CALL]
    assert "many" in many.definitions()[1].description
    assert names(make(60, 400_000).definitions())[-1] == "many__t9"
    assert len(make(60, 0).definitions()) == 62, "a model of which nobody knows reads enough"
    # A thread that was begun so stays so, whatever its next model reads.
    again = make(5)
    again.recall(many.definitions())
    assert again.definitions() == many.definitions()


async def test_a_tool_is_found_by_words_with_what_it_takes() -> None:
    tools = make(60)
    found = output(await call(tools, SEARCH, words="look at the issue"))
    assert found.startswith("many__look\nLooks at an issue of the tracker.\narguments: {")
    many = output(await call(tools, SEARCH, words="number"))
    assert many.count("arguments: ") == 8
    assert "also: " in many
    assert output(await call(tools, SEARCH, words="xyzzy")).startswith("no tool has these words")
    everything = output(await call(tools, SEARCH))
    assert all(f"many__t{n}" in everything for n in range(60))
    assert output(await call(tools, "mine", text="hello")) == "hello"


@pytest.mark.parametrize(
    ("name", "risk", "access"),
    [("many__look", None, Access.READ), ("many__t7", RiskLevel.HIGH, Access.WRITE)],
)
def test_a_call_is_judged_as_the_tool_that_it_names(
    name: str, risk: RiskLevel | None, access: Access
) -> None:
    tools = make(60)
    made = ToolCall("c1", CALL, json.dumps({"name": name, "arguments": {}}))
    assert tools.risk_of(made) is risk
    scope = tools.scope_of(made)
    assert scope is not None
    assert (scope.kinds, scope.access) == ((name,), access)
    assert tools.refusal_of(made) is None


@for_every_row(
    "arguments, said",
    [
        ('{"name": "many__none", "arguments": {}}', "search_tools finds those there are"),
        ('{"name": "mine", "arguments": {}}', "search_tools finds those there are"),
        ('{"name": 1}', "call_tool takes"),
        ('{"name": "many__look", "arguments": 1}', "call_tool takes"),
        ("[]", "no object"),
        ("{", "no JSON"),
    ],
)
async def test_what_cannot_be_called_is_refused_before_anybody_is_asked(
    arguments: str, said: str
) -> None:
    tools = make(60)
    made = ToolCall("c1", CALL, arguments)
    assert said in fault(tools.refusal_of(made))
    assert said in fault(await tools.execute(made, key="k", progress=lambda _: None))
    assert (tools.risk_of(made), tools.scope_of(made)) == (None, None)


async def test_a_tool_of_the_program_with_such_a_name_is_the_programs() -> None:
    @tool
    def call_tool(name: str) -> str:
        """Say it."""
        return f"mine: {name}"

    tools = make(60, own=(call_tool,))
    assert output(await call(tools, CALL, name="x")) == "mine: x"


async def test_a_real_server_is_called_by_the_name_that_was_found(
    plain: Callable[..., MCPServer], store: LocalStore
) -> None:
    servers = ServerTools(plain())
    tools = SearchedTools(McpTools(Registry([mine]), [servers]), 1)
    try:
        assert await tools.prepare() == []
        assert names(tools.definitions()) == ["mine", SEARCH, CALL]
        assert "plain__echo" in output(await call(tools, SEARCH, words="says again"))
        said = await call(tools, CALL, name="plain__echo", arguments={"text": "hello"})
        assert output(said) == "echo: hello"
    finally:
        await servers.close()
