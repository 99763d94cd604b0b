"""The reference servers of the protocol, which are written with another SDK, as judges."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp_servers.desk import Desk
from treadle import MCPServer
from treadle.core.tools import Outcome, RiskLevel, ToolExecutionOutcome

SERVERS = Path(__file__).parents[1] / "node_modules" / "@modelcontextprotocol"


def start(name: str, *args: str) -> MCPServer:
    node = str(Path(sys.executable).with_name("node"))
    program = str(SERVERS / f"server-{name}" / "dist" / "index.js")
    return MCPServer(name, command=node, args=(program, *args))


def describe(outcome: Outcome) -> str:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return outcome.error.text


async def test_the_reference_servers_offer_their_tools_and_run_them(
    desk: Desk, tmp_path: Path
) -> None:
    tools = desk.open(start("everything", "stdio"), start("filesystem", str(tmp_path)))
    assert await tools.prepare() == []
    offered = {one.name: one for one in tools.definitions()}
    assert offered["filesystem__write_file"].risk is RiskLevel.HIGH, "it says so of itself"
    assert offered["filesystem__read_text_file"].risk is RiskLevel.MEDIUM
    assert offered["everything__get-sum"].input_schema["required"] == ["a", "b"]
    place = tmp_path / "tea.txt"
    misses = []
    for name, arguments, words in (
        ("everything__echo", '{"message": "tea"}', "Echo: tea"),
        ("everything__get-sum", '{"a": 1, "b": 2}', "The sum of 1 and 2 is 3."),
        ("everything__get-sum", '{"a": "x"}', "expected number"),
        ("everything__get-tiny-image", "{}", "[a picture, image/png, "),
        ("everything__get-resource-links", "{}", "at demo://resource/"),
        ("everything__get-resource-reference", '{"resourceType": "Blob"}', " bytes]"),
        ("everything__read_resource", "{}", "demo://resource/static/document/"),
        ("everything__read_resource", '{"uri": "demo://resource/dynamic/text/1"}', "plaintext"),
        ("everything__read_resource", '{"uri": "demo://nothing"}', "the server says: "),
        ("everything__read_resource", '{"uri": 7}', "is no text"),
        ("everything__trigger-long-running-operation", '{"duration": 0.1, "steps": 2}', "complete"),
        ("filesystem__write_file", f'{{"path": "{place}", "content": "Darjeeling"}}', "wrote to"),
        ("filesystem__read_text_file", f'{{"path": "{place}"}}', "Darjeeling"),
        ("filesystem__read_text_file", '{"path": "/etc/passwd"}', "Access denied"),
    ):
        said = describe(await desk.call(tools, name, arguments))
        if words not in said:
            misses.append((name, arguments, said))
    assert misses == []
    assert [one.fraction for one in desk.progress] == [0.5, 1.0]
    assert describe(
        await desk.call(tools, "filesystem__read_text_file", f'{{"path": "{place}"}}')
    ) == ("Darjeeling"), "what it says twice is read once"
