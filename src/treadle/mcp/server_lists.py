"""What a server keeps and says besides tools: resources, prompts, what words may become."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mcp_types import (
    GetPromptResult,
    PaginatedResult,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

from treadle.mcp.connection import PAGE_COUNT_MAX, ServerConnection
from treadle.mcp.failures import CallLost, CallRefused

_log: Final = logging.getLogger("treadle.mcp")

RESOURCE_COUNT_MAX: Final = 200
"""Things that it keeps of which a model is told, and as many forms of addresses."""
PROMPT_COUNT_MAX: Final = 200
"""Prompts that are asked for; not all of them may be of use."""
VALUE_COUNT_MAX: Final = 100
"""What an argument may become."""

_ListedT = TypeVar("_ListedT")
_PageT = TypeVar("_PageT", bound=PaginatedResult)


async def has_resources(connection: ServerConnection) -> bool:
    """Whether it keeps something that can be read by its address; many only say that they do.

    Within the time of its server; one that does not say keeps nothing.
    """
    if connection.client.server_capabilities.resources is None:
        return False
    try:
        async with asyncio.timeout(connection.server.start_s_max):
            return any(await list_resources(connection))
    except (CallLost, CallRefused, TimeoutError) as error:
        _log.info("%s does not say what it keeps: %s", connection.server.name, error)
        return False


async def list_resources(
    connection: ServerConnection,
) -> tuple[list[Resource], list[ResourceTemplate]]:
    """What it keeps, and the forms of addresses; the first ones.

    Raises as `ServerConnection.call`, like all of these.
    """
    client = connection.client
    kept = await _collect(
        connection,
        lambda cursor: client.list_resources(cursor=cursor),
        lambda page: page.resources,
        RESOURCE_COUNT_MAX,
    )
    try:
        answer = await connection.hear_answer(client.list_resource_templates())
        forms = answer.resource_templates
    except CallRefused:  # servers need not know of them
        forms = []
    return kept, forms[:RESOURCE_COUNT_MAX]


async def read_resource(connection: ServerConnection, uri: str) -> ReadResourceResult:
    """What it keeps at an address."""
    return await connection.hear_answer(connection.client.read_resource(uri))


async def list_prompts(connection: ServerConnection) -> list[Prompt]:
    """Its prompts, the first ones; none where it does not say within the time it has."""
    client = connection.client
    if client.server_capabilities.prompts is None:
        return []
    try:
        async with asyncio.timeout(connection.server.start_s_max):
            return await _collect(
                connection,
                lambda cursor: client.list_prompts(cursor=cursor, cache_mode="refresh"),
                lambda page: page.prompts,
                PROMPT_COUNT_MAX,
            )
    except (CallLost, CallRefused, TimeoutError) as error:
        _log.info("%s does not say its prompts: %s", connection.server.name, error)
        return []


async def get_prompt(
    connection: ServerConnection, name: str, arguments: dict[str, str]
) -> GetPromptResult:
    """What a prompt says."""
    return await connection.hear_answer(connection.client.get_prompt(name, arguments))


async def complete(
    connection: ServerConnection, prompt: str, name: str, begun: str, given: dict[str, str]
) -> list[str]:
    """What an argument of a prompt may become; `given` are those before it.

    Nothing where the server does not complete.
    """
    client = connection.client
    if client.server_capabilities.completions is None:
        return []
    reference = PromptReference(type="ref/prompt", name=prompt)
    asked = client.complete(reference, {"name": name, "value": begun}, given)
    return (await connection.hear_answer(asked)).completion.values[:VALUE_COUNT_MAX]


async def _collect(
    connection: ServerConnection,
    ask: Callable[[str | None], Awaitable[_PageT]],
    take: Callable[[_PageT], list[_ListedT]],
    count_max: int,
) -> list[_ListedT]:
    """What stands on the pages of a list, which may have no end."""
    found: list[_ListedT] = []
    cursor: str | None = None
    for _ in range(PAGE_COUNT_MAX):
        page = await connection.hear_answer(ask(cursor))
        found += take(page)
        cursor = page.next_cursor
        if not cursor or len(found) >= count_max:
            break
    return found[:count_max]
