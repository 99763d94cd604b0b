"""The prompts of an agent's MCP servers, for a program that talks with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.errors import UsageError
from treadle.mcp.prompt_calls import list_all_prompts, say_titled_prompt
from treadle.mcp.prompts import ServerPrompt
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.runtime.ports import Tools


class ThreadPrompts:
    """What servers have for people to say; they are started when they are asked.

    Args:
        find_tools: those of the agent that has the thread now.
    """

    def __init__(self, find_tools: Callable[[], Tools]) -> None:
        self._find_tools = find_tools

    @property
    def _servers(self) -> Sequence[ServerTools]:
        tools = self._find_tools()
        return tools.servers if isinstance(tools, McpTools) else ()

    async def list(self) -> tuple[ServerPrompt, ...]:
        """All there are, none where the agent has no servers.

        Raises:
            UsageError: a server is not there; says why.
        """
        return await list_all_prompts(self._servers)

    async def read(self, title: str, **arguments: str) -> str:
        """What a prompt says, `SERVER:PROMPT`, to be sent: texts, without pictures.

        Raises:
            UsageError: there is no such prompt, its arguments do not fit, or it cannot be had.
        """
        if not self._servers:
            raise UsageError("the agent has no MCP servers", hint="Agent(..., tools=[MCPServer()])")
        return (await say_titled_prompt(self._servers, title, arguments)).output
