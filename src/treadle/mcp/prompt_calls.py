"""Prompts of servers are asked for: listed, completed, said. What fails is told to who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from treadle.errors import UsageError
from treadle.mcp.failures import CallLost, CallRefused
from treadle.mcp.prompts import (
    TEXT_LENGTH_MAX,
    ServerPrompt,
    check_arguments,
    find_typed_argument,
)
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.mcp.tool_set import ServerTools
    from treadle.tools.tool_return import ToolReturn

COMPLETION_S_MAX: Final = 5.0
COMPLETION_LENGTH_MAX: Final = 200
"""Characters of what an argument may become."""
PROMPT_S_MAX: Final = 60.0
"""Seconds that a server has to say a prompt."""


async def list_all_prompts(servers: Sequence[ServerTools]) -> tuple[ServerPrompt, ...]:
    """Those of all servers, which are started for it; `UsageError` if one is not there."""
    found = await asyncio.gather(*map(list_prompts, servers))
    return tuple(prompt for prompts in found for prompt in prompts)


async def say_titled_prompt(
    servers: Sequence[ServerTools], title: str, arguments: dict[str, str]
) -> ToolReturn:
    """What is said for `SERVER:PROMPT`, and shown with it.

    Raises:
        UsageError: there is no such prompt, its arguments do not fit, or it cannot be had.
    """
    name, _, prompt = title.partition(":")
    for one in servers:
        if one.server.name == name:
            return await say_prompt(one, await find_prompt(one, prompt), arguments)
    known = ", ".join(one.server.name for one in servers)
    raise UsageError(f"no MCP server is called {name!r}", hint=f"there are: {known}")


async def list_prompts(server: ServerTools) -> tuple[ServerPrompt, ...]:
    """The prompts of a server as they are now; it is connected with if need be.

    Raises:
        UsageError: it is not there.
    """
    await server.reach()
    return server.prompts


async def find_prompt(server: ServerTools, name: str) -> ServerPrompt:
    """The prompt of a name. Raises `UsageError` if it has none, or is not there."""
    found = await list_prompts(server)
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(one.title for one in found[:20]) or "it has none"
    raise UsageError(f"the MCP server {server.server.name} has no prompt {name!r}", hint=known)


async def say_prompt(
    server: ServerTools, prompt: ServerPrompt, arguments: dict[str, str]
) -> ToolReturn:
    """What is said for a prompt of a server, and shown with it.

    Raises:
        UsageError: it is not there, does not say it, or says too much.
    """
    from treadle.mcp.results import read_prompt
    from treadle.mcp.server_lists import get_prompt

    check_arguments(prompt, arguments)
    connection = await server.reach()
    try:
        async with asyncio.timeout(PROMPT_S_MAX):
            result = await get_prompt(connection, prompt.name, arguments)
    except (CallLost, CallRefused, TimeoutError) as error:
        why = str(error) or f"no answer within {PROMPT_S_MAX:g} s"
        raise UsageError(f"the prompt {prompt.title} cannot be had: {why}") from error
    said = await asyncio.to_thread(read_prompt, result)
    if len(said.output) > TEXT_LENGTH_MAX or not (said.output or said.shown):
        size = f"{len(said.output)} characters, of at most {TEXT_LENGTH_MAX}"
        raise UsageError(f"the prompt {prompt.title} cannot be said: it has {size}")
    return said


async def complete_argument(
    server: ServerTools, prompt: ServerPrompt, typed: str
) -> tuple[str, list[str]]:
    """What is typed of an argument at the end, and what it may become; nothing on a failure.

    A server that is not connected is not started for it.
    """
    connection = server.present
    try:
        last, given = find_typed_argument(prompt, typed)
        if connection is None:
            return last.value, []
        from treadle.mcp.server_lists import complete

        async with asyncio.timeout(COMPLETION_S_MAX):
            found = await complete(connection, prompt.name, last.name, last.value, given)
    except (UsageError, CallLost, CallRefused, TimeoutError):
        return "", []
    # What would not be read as it was offered is no completion.
    fitting = (one for one in found if one and len(one) <= COMPLETION_LENGTH_MAX)
    return last.value, [one for one in fitting if " ".join(sanitize_text(one).split()) == one]
