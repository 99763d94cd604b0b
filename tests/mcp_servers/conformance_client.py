"""Our client as a program that the official conformance suite drives: its last argument is a URL.

What a person would do is done at once: they fill out forms as they stand, and log in.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import httpx2

from treadle import MCPServer, ServerAnswer, ServerQuestion, ToolCall
from treadle.mcp.connection import log_in
from treadle.mcp.tool_set import McpTools, ServerTools
from treadle.tools.registry import Registry

ARGUMENTS = {"add_numbers": '{"a": 5, "b": 3}'}


async def accept(_: ToolCall, question: ServerQuestion) -> ServerAnswer:
    return ServerAnswer("accept", question.defaults)


def visit(url: str) -> None:
    """Go to an address as a browser does."""

    async def go() -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            await browser.get(url)

    VISITS.append(asyncio.ensure_future(go()))


VISITS: list[asyncio.Future[None]] = []


async def call_all(server: MCPServer, folder: Path) -> list[str]:
    """Call each of its tools; what failed."""
    tools = McpTools(Registry([]), [ServerTools(server, logins=folder)])
    tools.answer_with("t", accept)
    try:
        told = list(await tools.prepare())
        for one in tools.definitions():
            name = one.name.removeprefix(server.prefix)
            call = ToolCall("c1", one.name, ARGUMENTS.get(name, "{}"))
            outcome = await tools.execute(call, key="t:c1", progress=lambda _: None)
            told += [outcome.error.text] if hasattr(outcome, "error") else []
        return told
    finally:
        await tools.aclose()


async def main() -> int:
    server = MCPServer("suite", url=sys.argv[-1])
    with tempfile.TemporaryDirectory() as folder:
        if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/"):
            await log_in(server, Path(folder), visit)
        told = await call_all(server, Path(folder))
    sys.stderr.write("\n".join(told))
    return bool(told)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
