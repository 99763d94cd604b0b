"""Servers that die, lie, flood, fall silent: each call ends in words, nothing hangs or raises."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_servers.desk import Desk, is_alive
from models.loopback import Answer, Loopback, Seen, refusal
from runtime.clock import tick
from treadle import EffectClass, LocalStore, MCPRule, MCPServer, ToolCall
from treadle.core.tools import Outcome, ToolErrorKind, ToolExecutionOutcome
from treadle.mcp.offered_tools import TOOL_COUNT_MAX
from treadle.runtime.calls import CallLimit, run_call
from treadle.tools.function_tool import is_tool_name

UNCERTAIN, FAILED = ToolErrorKind.UNCERTAIN, ToolErrorKind.FAILED


def describe(outcome: Outcome) -> tuple[ToolErrorKind | None, str]:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return None, outcome.output
    return outcome.error.kind, outcome.error.message


async def test_whatever_a_server_does_in_a_call_the_model_is_told_in_words(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    rows: list[tuple[str, ToolErrorKind | None, str]] = [
        ("dies", UNCERTAIN, "Nobody knows whether it happened."),
        ("too large", UNCERTAIN, "a message of more than 16777216 bytes"),
        ("wrong shape", UNCERTAIN, "Nobody knows whether it happened."),
        ("refuses", FAILED, "the server says: no\ufffd[2J such thing"),
        ("changed schema", FAILED, "it needs `words` now"),
        ("not json", None, "echo: tea"),
        ("wrong id", None, "echo: tea"),
        ("floods", None, "echo: tea"),
        ("asks back", None, "echo: tea"),
        ("escapes", None, "a\ufffd]0;title\ufffd\ufffd[2Jb\ufffdc"),
        ("giant", None, "g" * 1_000_000),
    ]
    misses = []
    for number, (how, kind, words) in enumerate(rows):
        tools = desk.open(plain(how, f"s{number}"))
        await tools.prepare()
        for _ in range(2):  # the second time it may have to be started again
            found = describe(await desk.call(tools, f"s{number}__echo", '{"text": "tea"}'))
            if found[0] is not kind or words not in found[1]:
                misses.append((how, found[0], found[1][:300]))
        await tools.aclose()
    assert misses == []
    floods = [one for one in desk.progress if one.message and one.message.startswith("m")]
    assert floods
    assert all(one.fraction is None and len(one.message or "") <= 200 for one in floods)


async def test_a_call_that_only_reads_is_not_in_doubt_when_its_server_dies(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    rules = {"echo": MCPRule(EffectClass.READ)}
    tools = desk.open(plain("dies", rules=rules))
    kind, words = describe(await desk.call(tools, "plain__echo"))
    assert (kind, "it can be called again" in words) == (FAILED, True)


async def test_arguments_that_are_none_reach_no_server(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    tools = desk.open(plain())
    for arguments in ("{", "[1]", "nan", "[" * 100_000):
        outcome = await desk.call(tools, "plain__echo", arguments)
        assert describe(outcome)[0] is ToolErrorKind.INVALID_ARGUMENTS, arguments[:20]
    assert describe(await desk.call(tools, "plain__none"))[0] is ToolErrorKind.NOT_FOUND
    assert describe(await desk.call(tools, "nobody__none"))[0] is ToolErrorKind.NOT_FOUND


async def test_whatever_a_server_lists_is_bounded_and_valid_for_every_provider(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    tools = desk.open(
        plain("endless list", "endless"),
        plain("odd tools", "odd"),
        plain("silent list", "silent", start_s_max=1.0),
        plain("no list", "none"),
    )
    notices = "\n".join(await tools.prepare())
    names = [one.name for one in tools.definitions()]
    assert sum(name.startswith("endless__") for name in names) <= TOOL_COUNT_MAX
    odd = [name for name in names if name.startswith("odd__")]
    assert len(odd) == 6
    assert "odd__a_b" in odd
    assert len({*names}) == len(names)
    assert all(is_tool_name(name) and len(name) <= 64 for name in names)
    assert not any("\x1b" in one.description for one in tools.definitions())
    for words in (
        "a_b (another one has its name)",
        "bad key (its arguments have names",
        "bad schema (its schema is none)",
        "deep (its schema is deeper",
        "long (its schema has more",
        "none is not there",
    ):
        assert words in notices
    # A machine may need all of the time for less than that.
    late = ("silent is not there: its list of tools took more", "silent is not there: no answer")
    assert any(words in notices for words in late)
    for name in odd:  # each leads to the tool that it stands for
        assert describe(await desk.call(tools, name)) == (None, f"{originals(tools)[name]}: ")


def originals(tools: Any) -> dict[str, str]:
    return {name: of for one in tools.servers for name, of in one.offered.names.items()}


async def test_a_call_that_is_stopped_is_told_to_its_server(
    plain: Callable[..., MCPServer], desk: Desk, tmp_path: Path
) -> None:
    tools = desk.open(plain("never answers"))
    await tools.prepare()
    call = ToolCall("c1", "plain__note", "{}")
    (tmp_path / "plain" / "notes.txt").touch()
    outcome = await run_call(tools, call, "t:c1", CallLimit(0.3), lambda _: None)
    assert describe(outcome) == (ToolErrorKind.TIMEOUT, "after 0.3 s")
    while (tmp_path / "plain" / "notes.txt").read_text() != "called\ncancelled\n":
        await tick()


# ---- processes ---------------------------------------------------------------------------------


async def test_a_server_that_does_not_want_to_end_is_ended_with_what_it_has_started(
    plain: Callable[..., MCPServer], desk: Desk, tmp_path: Path
) -> None:
    tools = desk.open(plain("stays"))
    await tools.prepare()
    pids = [int((tmp_path / "plain" / name).read_text()) for name in ("pid.txt", "child.txt")]
    assert all(map(is_alive, pids))
    await tools.aclose()
    while any(map(is_alive, pids)):  # they were killed: the kernel takes a moment
        os.sched_yield()


PROGRAM = """
import asyncio, sys
from treadle import Agent, LocalStore, MCPServer, ScriptedModel

folder, plain, how = sys.argv[1:]
calls = {"when": {"step": 0}, "calls": [{"tool": "plain__note", "arguments": {}}]}
model = ScriptedModel.of(calls, {"text": "over"})
server = MCPServer("plain", command=sys.executable, args=(plain, how, folder))
agent = Agent("a", model=model, tools=[server], store=LocalStore(folder + "/store"))

async def main():
    async with agent.thread("one") as thread:
        print((await (thread.send("go") if how == "never answers" else thread.resume())).text)

asyncio.run(main())
"""


def test_a_call_in_which_the_program_was_killed_is_in_doubt_and_leaves_no_server(
    tmp_path: Path,
) -> None:
    def start(how: str) -> subprocess.Popen[str]:
        plain = str(Path(__file__).with_name("plain_server.py"))
        argv = [sys.executable, "-c", PROGRAM, str(tmp_path), plain, how]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    os.mkfifo(tmp_path / "notes.txt")  # the server waits here until the test has read
    process = start("never answers")
    assert (tmp_path / "notes.txt").read_text() == "called\n"
    server = int((tmp_path / "pid.txt").read_text())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    while is_alive(server):
        os.sched_yield()
    (tmp_path / "notes.txt").unlink()

    assert start("").communicate()[0] == "over\n"
    assert not (tmp_path / "notes.txt").exists(), "it was not called again"
    store = LocalStore(tmp_path / "store")
    (thread,) = store.ids()
    assert "Uncertain" in str(list(store.load(thread).fold.conversation))


# ---- over the network --------------------------------------------------------------------------


def serve(how: str) -> Callable[[Seen], Answer]:
    """A server in plain HTTP, which is wrong in one way when it is called."""

    def answer(seen: Seen) -> Answer:
        if seen.method != "POST":
            return refusal(405, {})
        asked = seen.json
        if "id" not in asked:
            return refusal(202, b"")
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        if asked["method"] == "tools/call" and how in WAYS:
            return WAYS[how][0]
        if asked["method"] not in results:
            return reply({"error": {"code": -32601, "message": "no"}}, asked["id"])
        return reply({"result": results[asked["method"]]}, asked["id"])

    return answer


def reply(result: dict[str, Any], number: Any) -> Answer:
    return refusal(200, {"jsonrpc": "2.0", "id": number, **result})


JSON = {"content-type": "application/json"}
PACKED = {**JSON, "content-encoding": "gzip"}
WAYS: dict[str, tuple[Answer, ToolErrorKind]] = {
    "too large": (Answer((b" " * 1_000_000,) * 18, 200, JSON), UNCERTAIN),
    "packed": (Answer((b"\x1f\x8b",), 200, PACKED), UNCERTAIN),
    "cut": (Answer((b'{"json',), 200, JSON, is_cut=True), UNCERTAIN),
    "no json": (Answer((b"{",), 200, JSON), UNCERTAIN),
    "broken": (refusal(502, b"\x1b[2J"), UNCERTAIN),
    "gone": (refusal(404, {}), FAILED),
    "elsewhere": (refusal(302, b"", location="http://127.0.0.1:1/else"), FAILED),
    "a page": (Answer((b"<html>",), 200, {"content-type": "text/html"}), UNCERTAIN),
    "an empty stream": (Answer((b": nothing\n\n",)), UNCERTAIN),
}


@pytest.mark.parametrize("how", ["", *WAYS])
async def test_whatever_an_address_answers_to_a_call_the_model_is_told_in_words(
    how: str, desk: Desk
) -> None:
    async with Loopback(serve(how)) as server:
        tools = desk.open(MCPServer("far", url=f"{server.url}/mcp", headers={"X-Key": "k"}))
        assert await tools.prepare() == []
        for _ in range(2):
            async with asyncio.timeout(20):
                kind, words = describe(await desk.call(tools, "far__do"))
            assert "\x1b" not in words
            assert kind is (WAYS[how][1] if how else None), words
            assert how or words == "done"
        assert {one.headers.get("x-key") for one in server.requests} == {"k"}
        calls = [json.loads(one.body) for one in server.requests if one.body]
        assert sum(one["method"] == "tools/call" for one in calls) == 2, "once for each call"
        await tools.aclose()
