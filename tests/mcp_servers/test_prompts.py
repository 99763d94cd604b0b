"""Prompts of servers: listed, completed, said; and what hostile ones come to."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from mcp_servers.desk import Desk
from mcp_servers.test_reference_servers import start
from treadle import Agent, LocalStore, MCPServer, ScriptedModel, UsageError
from treadle.mcp.prompt_calls import complete_argument, list_all_prompts, say_titled_prompt
from treadle.mcp.prompts import (
    PROMPT_COUNT_MAX,
    WORDS_LENGTH_MAX,
    PromptArgument,
    ServerPrompt,
    read_arguments,
)
from treadle.mcp.tool_set import McpTools, ServerTools

REVIEW = ServerPrompt(
    "s",
    "review",
    "",
    (PromptArgument("path", is_required=True), PromptArgument("style"), PromptArgument("why")),
)


def test_words_become_arguments_by_name_and_by_place() -> None:
    rows = (
        ("a.py", {"path": "a.py"}),
        ("a.py terse", {"path": "a.py", "style": "terse"}),
        ("a.py terse it is slow", {"path": "a.py", "style": "terse", "why": "it is slow"}),
        ("style=terse a.py", {"path": "a.py", "style": "terse"}),
        ("\"a b.py\" 'very terse'", {"path": "a b.py", "style": "very terse"}),
        ('why="it is slow" a.py', {"path": "a.py", "why": "it is slow"}),
        ("x=1", {"path": "x=1"}),
        ('"open terse', {"path": '"open', "style": "terse"}),
        ("style= a.py", {"path": "a.py", "style": ""}),
        ("a.py terse one\ntwo", {"path": "a.py", "style": "terse", "why": "one\ntwo"}),
    )
    misses = [(typed, read_arguments(REVIEW, typed)) for typed, _ in rows]
    assert misses == [*rows]
    for typed, words in (
        ("", "s:review needs path"),
        ("style=terse", "s:review needs path"),
        ("why=a path=b style=c d", "does not take 'd'"),
    ):
        with pytest.raises(UsageError, match=words):
            read_arguments(REVIEW, typed)


def server_of(tools: McpTools) -> ServerTools:
    (one,) = tools.servers
    return one


async def test_the_prompts_of_the_reference_server_are_listed_completed_and_said(
    desk: Desk,
) -> None:
    tools = desk.open(start("everything", "stdio"))
    offered = {one.name: one for one in await list_all_prompts(tools.servers)}
    assert offered["args-prompt"].hint == "CITY [STATE]"
    assert offered["args-prompt"].title == "everything:args-prompt"
    said = await say_titled_prompt(
        tools.servers, "everything:args-prompt", {"city": "Rome", "state": "Lazio"}
    )
    assert said.output == "What's weather in Rome, Lazio?"
    with pytest.raises(UsageError, match="everything:args-prompt needs city"):
        await say_titled_prompt(tools.servers, "everything:args-prompt", {"state": "Lazio"})
    with pytest.raises(UsageError, match="does not take town"):
        await say_titled_prompt(
            tools.servers, "everything:args-prompt", {"city": "Rome", "town": "x"}
        )
    with pytest.raises(UsageError, match="has no prompt 'other'"):
        await say_titled_prompt(tools.servers, "everything:other", {})
    with pytest.raises(UsageError, match="no MCP server is called 'some'"):
        await say_titled_prompt(tools.servers, "some:other", {})
    given = {"resourceType": "Blob", "resourceId": "1"}
    assert (
        "demo://resource"
        in (await say_titled_prompt(tools.servers, "everything:resource-prompt", given)).output
    )
    with pytest.raises(UsageError, match="cannot be had: "):
        await say_titled_prompt(
            tools.servers, "everything:resource-prompt", {**given, "resourceId": "none"}
        )

    server, prompt = server_of(tools), offered["completable-prompt"]
    rows = (
        ("", ("", ["Engineering", "Sales", "Marketing", "Support"])),
        ("S", ("S", ["Sales", "Support"])),
        ("Sales ", ("", ["David", "Eve", "Frank"])),
        ("Sales D", ("D", ["David"])),
        ("name=E department=Sales", ("Sales", ["Sales"])),
        ("department=Sales name=E", ("E", ["Eve"])),
        ("Sales David ", ("", [])),
    )
    misses = [(typed, await complete_argument(server, prompt, typed)) for typed, _ in rows]
    assert misses == [*rows]
    await tools.aclose()
    assert await complete_argument(server, prompt, "S") == ("S", []), "nothing is started for it"


async def test_what_hostile_servers_offer_as_prompts_is_bounded(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    tools = desk.open(plain("endless prompts"))
    assert len(await list_all_prompts(tools.servers)) == PROMPT_COUNT_MAX
    (good,) = await list_all_prompts(desk.open(plain("odd prompts", "odd")).servers)
    assert (good.name, len(good.description)) == ("good", WORDS_LENGTH_MAX)
    (review,) = await list_all_prompts(desk.open(plain("a prompt", "one")).servers)
    assert review.description == "Looks at\ufffd[2J it."
    assert await desk.open(plain("silent prompts", "silent", start_s_max=0.7)).prepare() == []
    assert await list_all_prompts(desk.open(plain("none", "none")).servers) == ()
    for how, words in (
        ("giant prompt", "it has 1000000 characters, of at most 100000"),
        ("empty prompt", "it has 0 characters"),
    ):
        wrong = desk.open(plain(how, "wrong")).servers
        with pytest.raises(UsageError, match=words):
            await say_titled_prompt(wrong, "wrong:review", {"path": "a"})
    gone = desk.open(MCPServer("gone", command="no-such-program"))
    with pytest.raises(UsageError, match=r"gone is not there: .*no-such-program"):
        await list_all_prompts(gone.servers)


async def test_completions_of_hostile_servers_are_words_that_can_be_shown(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    tools = desk.open(plain("a prompt"))
    (review,) = await list_all_prompts(tools.servers)
    _, found = await complete_argument(server_of(tools), review, "t")
    assert found[:3] == ["two words", "a", "b"]
    assert len(found) <= 100


async def test_prompts_that_a_server_has_now_are_known_from_then_on(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    tools = desk.open(plain("changed prompts"))
    told: list[int] = []
    server_of(tools).on_listed = lambda: told.append(len(server_of(tools).prompts))
    assert [one.name for one in await list_all_prompts(tools.servers)] == ["review"]
    await desk.call(tools, "plain__note")
    assert [one.name for one in await list_all_prompts(tools.servers)] == ["late", "review"]
    assert told == [1, 2]


async def test_a_program_says_a_prompt_in_its_thread(
    plain: Callable[..., MCPServer], store: LocalStore
) -> None:
    model = ScriptedModel.of({"when": {"user": '"path": "a.py"'}, "text": "Looked."})
    agent = Agent("a", model=model, tools=[plain("a prompt")], store=store)
    async with agent.thread("one") as thread:
        (review,) = await thread.prompts.list()
        assert review.title == "plain:review"
        said = await thread.prompts.read("plain:review", path="a.py")
        assert json.loads(said)["name"] == "review"
        assert (await thread.send(said)).output == "Looked."
    bare = Agent("b", model=model, store=store)
    async with bare.thread("two") as thread:
        assert await thread.prompts.list() == ()
        with pytest.raises(UsageError, match="has no MCP servers"):
            await thread.prompts.read("plain:review")


async def test_a_prompt_with_roles_and_a_picture_says_who_says_what(desk: Desk) -> None:
    from mcp_types import GetPromptResult

    from media_samples import png
    from treadle.mcp.results import read_prompt

    data = base64.b64encode(png()).decode()
    result = GetPromptResult.model_validate(
        {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Hi\x1b[2J"}},
                {"role": "assistant", "content": {"type": "text", "text": "Hello"}},
                {
                    "role": "user",
                    "content": {"type": "image", "mimeType": "image/png", "data": data},
                },
            ]
        }
    )
    said = read_prompt(result)
    assert said.output.splitlines()[:4] == ["[user]", "Hi\ufffd[2J", "[assistant]", "Hello"]
    assert len(said.shown) == 1
