"""Tools of servers, which are called as the runtime calls them."""

from __future__ import annotations

from pathlib import Path

from treadle import MCPServer, ToolCall
from treadle.core.tools import Outcome, ToolProgress
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.tools.registry import Registry


def is_alive(pid: int) -> bool:
    """Whether a process is there, and not only its number."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


class Desk:
    """What a test has opened."""

    def __init__(self) -> None:
        self.opened: list[McpTools] = []
        self.progress: list[ToolProgress] = []

    def open(self, *servers: MCPServer) -> McpTools:
        self.opened.append(McpTools(Registry([]), [*map(ServerTools, servers)]))
        return self.opened[-1]

    async def call(self, tools: McpTools, name: str, arguments: str = "{}") -> Outcome:
        call = ToolCall("c1", name, arguments)
        return await tools.execute(call, key="t:c1", progress=self.progress.append)
