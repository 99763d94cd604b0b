"""`treadle mcp serve`, asked by the official SDK's client: what is offered, and what is not."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from cli.conftest import Run
from treadle.app import offered_threads

Script: TypeAlias = Callable[[str], str]
Start: TypeAlias = Callable[[], Any]

PAGE: Final = Path(__file__).parents[2] / "docs" / "mcp.md"
(_SETTINGS,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
DOCUMENTED: Final = json.loads(_SETTINGS)["mcpServers"]["treadle"]
"""How the page says that an agent starts it."""

SECRET: Final = "swordfish-0123456789"
LONG: Final = "word " * 12_000

SCRIPT: Final = f"""
[[replies]]
when.system = "commit message"
text = "fix: add"

[[replies]]
when.user = "mend"
calls = [{{ tool = "edit_file", arguments = {{ path = "calc.py", edits = [
  {{ old_str = "a - b", new_str = "a + b" }},
] }} }}]

[[replies]]
when.user = "mend"
text = "The sum is mended. {SECRET} \\u001b[31mred"

[[replies]]
when.user = "quiet"
calls = [{{ tool = "write_file", arguments = {{ path = "quiet.py", content = "one = 1\\n" }} }}]

[[replies]]
when.user = "quiet"
text = "The mended quiet one."

[[replies]]
when.user = "long"
text = "{LONG}"
"""


@pytest.fixture
def start(repository: Path, environment: dict[str, str]) -> Start:
    """The server, in a process of its own, and the official client connected with it."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        variables = {**environment, "MY_API_KEY": SECRET}
        parameters = StdioServerParameters(**DOCUMENTED, env=variables, cwd=repository)
        async with Client(stdio_client(parameters)) as client:
            yield client

    return connect


async def ask(client: Client, tool: str, **arguments: object) -> tuple[str, bool]:
    """What a tool says, and whether that is an error."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    return content.text, result.is_error


def work(treadle: Run, model: str, *arguments: str) -> str:
    """The thread of a turn."""
    done = treadle(*arguments, "-m", model, "--approval-mode", "auto")
    assert done.returncode == 0, done.stderr
    listed = json.loads(treadle("list", "--json").stdout)
    return str(max(listed, key=lambda line: line["created_at"])["id"])


async def test_another_agent_finds_shows_and_blames_what_may_leave_this_machine(
    treadle: Run, script: Script, start: Start, repository: Path
) -> None:
    model = script(SCRIPT)
    open_thread = work(treadle, model, "-p", "mend the sum")
    private = work(treadle, model, "-p", "quiet please", "--private")
    later = work(treadle, model, "-p", "quiet no more")
    async with start() as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert [*tools] == ["search_threads", "show_thread", "blame"]
        assert all(one.annotations.read_only_hint for one in tools.values() if one.annotations)

        found, is_error = await ask(client, "search_threads", query="mended")
        assert open_thread in found
        assert later in found
        assert "The sum is mended" in found.replace("\n", " ")
        assert private not in found
        assert not is_error

        shown, is_error = await ask(client, "show_thread", thread=open_thread)
        assert "mend the sum" in shown
        assert "a + b" in shown
        assert not is_error
        for told in (found, shown):
            assert SECRET not in told, "as the machine knows it now"
            assert "\x1b" not in told

        blamed, is_error = await ask(client, "blame", file="calc.py", first_line=2)
        assert blamed.startswith("line 2: commit ")
        assert f"thread {open_thread} at version" in blamed
        assert "turn 1: mend the sum" in blamed
        assert not is_error

        # A thread that is not offered is one that there is not.
        asked = (private, "T-ffffffff", private[:8])
        answers = {one: await ask(client, "show_thread", thread=one) for one in asked}
        assert len({text.replace(one, "ID") for one, (text, _) in answers.items()}) == 1
        assert all(is_error for _, is_error in answers.values())

        # Meanwhile somebody makes one private: it holds from then on.
        assert treadle("private", later).returncode == 0
        found, _ = await ask(client, "search_threads", query="quiet")
        assert found == "nothing was found"
        blamed, _ = await ask(client, "blame", file="quiet.py")
        assert later not in blamed
        assert "quiet no more" not in blamed
        assert "a thread that is not offered" in blamed

        # What an agent does wrong is told, and the connection goes on.
        told = {
            "search": await ask(client, "search_threads", query=" "),
            "arguments": await ask(client, "search_threads", query=1),
            "file": await ask(client, "blame", file="none.py"),
            "page": await ask(client, "show_thread", thread=open_thread, page=7),
        }
        assert [name for name, (_, is_error) in told.items() if not is_error] == []
        assert "1 pages, not a page 7" in told["page"][0]
        with pytest.raises(MCPError, match="no tool 'nonsense'"):
            await client.call_tool("nonsense", {})
        assert (await ask(client, "search_threads", query="mended"))[0] != ""
    assert "a + b" in (repository / "calc.py").read_text()


async def test_a_long_thread_is_read_page_by_page_and_nothing_of_it_is_lost(
    treadle: Run, script: Script, start: Start
) -> None:
    thread = work(treadle, script(SCRIPT), "-p", "long")
    async with start() as client:
        pages = [await ask(client, "show_thread", thread=thread)]
        assert "page=2 goes on" in pages[0][0]
        count = int(pages[0][0].rpartition("page 1 of ")[2].partition(";")[0])
        rest = range(2, count + 1)
        pages += [await ask(client, "show_thread", thread=thread, page=one) for one in rest]
    assert all(len(text) < offered_threads.PAGE_LENGTH + 100 for text, _ in pages)
    assert sum(text.count("word") for text, _ in pages) >= 12_000 - count
    assert "goes on" not in pages[-1][0]


async def test_the_server_ends_when_its_agent_does_and_says_nothing_but_messages(
    repository: Path, environment: dict[str, str]
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "treadle", "mcp", "serve"),
        cwd=repository,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    said, _ = await process.communicate(
        b"no message\n\xff\n" + json.dumps(request).encode() + b"\n"
    )
    assert process.returncode == 0
    assert [line for line in said.splitlines() if b'"jsonrpc"' not in line] == []
    assert not (Path(environment["TREADLE_HOME"]) / "data" / "threads").exists(), "it only reads"
