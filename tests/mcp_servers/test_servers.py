"""Servers as people have them: connected when they are needed, offered, called, ended."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver import MCPServer as JudgeServer

from mcp_servers.desk import Desk, is_alive
from media_samples import png
from runtime.clock import tick
from treadle import (
    Agent,
    AgentError,
    EffectClass,
    LocalStore,
    MCPRule,
    MCPServer,
    RiskLevel,
    ScriptedModel,
    ToolCall,
    UsageError,
    outputs,
)
from treadle.app.sessions.tool_wrapper import ToolWrapper
from treadle.core.sightings import Sightings
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.runtime.subagents import CallWork

ECHO = {"when": {"step": 0}, "calls": [{"tool": "plain__echo", "arguments": {"text": "tea"}}]}
SAID = {"when": {"last": "echo: tea"}, "text": "It said tea."}


def read(outcome: Outcome) -> str:
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


async def test_an_agent_works_with_a_server_that_starts_with_its_first_request_and_ends_with_it(
    store: LocalStore, plain: Callable[..., MCPServer], tmp_path: Path
) -> None:
    pid = tmp_path / "plain" / "pid.txt"
    agent = Agent("a", model=ScriptedModel.of(ECHO, SAID), tools=[plain()], store=store)
    async with agent.task("Say tea.") as task:
        assert not pid.exists(), "nothing is started before it is needed"
        assert (await task.run()).output == "It said tea."
        group = int(pid.read_text())
        assert is_alive(group)
    assert not is_alive(group)
    async with agent.thread("one") as thread:
        assert (await thread.send("Say tea.")).output == "It said tea."


async def test_another_process_goes_on_with_a_task_though_the_server_is_gone(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    """What was offered stays, byte for byte, and each call says how things stand."""
    asks = {"when": {"step": 0}, "calls": [{"tool": "plain__note", "arguments": {}}]}
    then = {"when": {"last": "is not there"}, "text": "It is gone."}
    agent = Agent(
        "a", model=ScriptedModel.of(asks, then), tools=[plain()], store=store, approval="ask"
    )
    async with agent.task("Note it.") as task:
        with pytest.raises(Exception, match="plain__note"):
            await task.run()
        thread_id = task.id
    offered = store.load(thread_id).fold.machine.config.tools
    gone = MCPServer("plain", command="no-such-program")
    agent = Agent(
        "a", model=ScriptedModel.of(asks, then), tools=[gone], store=store, approval="ask"
    )
    async with agent.resume_task(thread_id) as task:
        assert (await task.approve()).output == "It is gone."
    assert store.load(thread_id).fold.machine.config.tools == offered


async def test_a_server_that_does_not_start_is_told_of_and_its_tools_are_missing(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    told: list[outputs.Output] = []
    servers = [
        plain(),
        MCPServer("gone", command="no-such-program"),
        plain("never starts", "slow", start_s_max=0.5),
        MCPServer("far", url="http://127.0.0.1:1/mcp"),
    ]
    agent = Agent(
        "a", model=ScriptedModel.of(ECHO, SAID), tools=servers, store=store, on_output=told.append
    )
    result = await agent.run("Say tea.")
    assert result.output == "It said tea."
    notices = [one.text for one in told if isinstance(one, outputs.Notice)]
    assert [one.partition(":")[0] for one in notices] == [
        f"the MCP server {name} is not there" for name in ("gone", "slow", "far")
    ]
    assert "no-such-program is not installed" in notices[0]
    assert "no answer within 0.5 s" in notices[1]
    offered = store.load(result.thread_id).fold.machine.config.tools
    assert [one.name for one in offered] == ["plain__drop", "plain__echo", "plain__note"]


async def test_what_a_server_says_of_its_tools_makes_nothing_harmless(
    plain: Callable[..., MCPServer], desk: Desk
) -> None:
    rules = {"echo": MCPRule(EffectClass.READ, RiskLevel.LOW)}
    tools = desk.open(plain(), plain(name="known", rules=rules))
    assert await tools.prepare() == []
    found = {one.name: (one.effect, one.risk) for one in tools.definitions()}
    mutate = EffectClass.MUTATE
    assert found == {
        "plain__drop": (mutate, RiskLevel.HIGH),
        "plain__echo": (mutate, RiskLevel.MEDIUM),
        "plain__note": (mutate, RiskLevel.MEDIUM),
        "known__drop": (mutate, RiskLevel.HIGH),
        "known__echo": (EffectClass.READ, RiskLevel.LOW),
        "known__note": (mutate, RiskLevel.MEDIUM),
    }
    every = {"*": MCPRule(EffectClass.READ, RiskLevel.LOW)}
    tools = desk.open(plain(name="all", rules=every))
    await tools.prepare()
    said = {(one.effect, one.risk) for one in tools.definitions()}
    assert said == {(EffectClass.READ, RiskLevel.LOW)}


async def test_a_server_gets_where_things_are_and_what_it_was_given(
    plain: Callable[..., MCPServer], desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    tools = desk.open(plain(env={"GIVEN": "yes"}))
    await tools.prepare()
    found = json.loads((tmp_path / "plain" / "environment.json").read_text())
    assert found["GIVEN"] == "yes"
    assert "PATH" in found
    assert set(found) <= {
        "GIVEN",
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME"),
        *("PATH", "SHELL", "TMPDIR", "TZ", "USER"),
    }


async def test_tools_that_a_server_has_now_are_offered_from_the_next_turn_on(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    script = ScriptedModel.of(ECHO, SAID)
    agent = Agent("a", model=script, tools=[plain("late tool")], store=store)
    async with agent.thread("one") as thread:
        for turn, count in enumerate((3, 4)):
            await thread.send(f"Say tea, {turn}.")
            offered = store.load(thread.id).fold.machine.config.tools
            assert len(offered) == count


def test_what_cannot_be_a_server_is_refused_where_it_is_declared(store: LocalStore) -> None:
    wrong = [
        {"name": "a__b", "command": "x"},
        {"name": "a_", "command": "x"},
        {"name": "", "command": "x"},
        {"name": "a" * 33, "command": "x"},
        {"name": "a.b", "command": "x"},
        {"name": "a"},
        {"name": "a", "command": "x", "url": "http://h/mcp"},
        {"name": "a", "url": "ftp://h/mcp"},
        {"name": "a", "url": "http://h/mcp", "env": {"A": "b"}},
        {"name": "a", "command": "x", "headers": {"A": "b"}},
        {"name": "a", "command": "x", "start_s_max": 0},
    ]
    missed = []
    for one in wrong:
        try:
            MCPServer(**one)
        except UsageError:
            continue
        missed.append(one)
    assert not missed
    twice = [MCPServer("a", command="x"), MCPServer("a", command="y")]
    with pytest.raises(UsageError, match="two MCP servers are called a"):
        Agent("a", model=ScriptedModel.of("hi"), tools=twice, store=store)


# ---- the official server as a judge ------------------------------------------------------------

JUDGE = JudgeServer("judge")


@JUDGE.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@JUDGE.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts."""
    for n in range(to):
        await ctx.report_progress(n + 1, to, f"at {n + 1}")
    return "counted"


@JUDGE.tool()
async def grow(ctx: Context) -> str:
    """Has a tool more from now on."""
    if not any(one.name == "more" for one in await JUDGE.list_tools()):
        JUDGE.add_tool(lambda: "more", "more")
    else:
        JUDGE.remove_tool("more")
    await ctx.notify_tools_changed()
    return "grown"


@JUDGE.tool()
def draw() -> Image:
    """Draws."""
    return Image(data=png(), format="png")


@pytest.fixture
def address() -> Iterator[str]:
    """The judge at an address of the loopback."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # whoever connects before the server is there waits for it
        port = listening.getsockname()[1]
        app = JUDGE.streamable_http_app()
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        )
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{port}/mcp"
        server.should_exit = True
        thread.join()


async def check_judge(desk: Desk, server: MCPServer) -> None:
    tools = desk.open(server)
    assert await tools.prepare() == []
    names = [one.name for one in tools.definitions()]
    assert names == ["judge__add", "judge__count", "judge__draw", "judge__grow"]
    assert read(await desk.call(tools, "judge__add", '{"a": 1, "b": 2}')) == "3"
    assert read(await desk.call(tools, "judge__count", '{"to": 3}')) == "counted"
    assert [one.message for one in desk.progress] == ["at 1", "at 2", "at 3"]
    assert desk.progress[-1].fraction == 1.0
    drawn = await desk.call(tools, "judge__draw")
    assert read(drawn).startswith("[a picture, image/png")
    assert [one.media_type for one in drawn.attachments] == ["image/png"]
    wrong = await desk.call(tools, "judge__add", '{"a": "x"}')
    assert isinstance(wrong, ToolExecutionOutcome.Error)
    assert "valid integer" in wrong.error.message
    read(await desk.call(tools, "judge__grow"))
    (judge,) = tools.servers
    while not judge.is_due:  # it is told by another way than the answer
        await tick()
    assert await tools.prepare() == []
    assert "judge__more" in [one.name for one in tools.definitions()]
    read(await desk.call(tools, "judge__grow"))


async def test_the_official_server_is_spoken_with_over_http(desk: Desk, address: str) -> None:
    await check_judge(desk, MCPServer("judge", url=address))


async def test_the_official_server_is_spoken_with_over_its_pipes(desk: Desk) -> None:
    program = "from mcp_servers.test_servers import JUDGE; JUDGE.run()"
    env = {"PYTHONPATH": ":".join(sys.path)}
    await check_judge(
        desk, MCPServer("judge", command=sys.executable, args=("-c", program), env=env)
    )


async def test_a_turn_that_is_stopped_while_a_server_starts_ends_at_once_and_keeps_the_prompt(
    store: LocalStore, plain: Callable[..., MCPServer], tmp_path: Path
) -> None:
    agent = Agent(
        "a", model=ScriptedModel.of(ECHO, SAID), tools=[plain("never starts")], store=store
    )
    async with agent.thread("one") as thread:
        sending = asyncio.ensure_future(thread.send("Say tea."))
        while not (tmp_path / "plain" / "pid.txt").exists():
            await tick()
        said = [one.content for one in store.load(thread.id).fold.conversation]
        assert said == ["Say tea."]
        thread.cancel()
        with pytest.raises(AgentError, match="cancelled"):
            await sending
        assert [one.role for one in thread.messages] == ["user"]


async def test_agents_and_threads_that_share_an_agent_have_servers_of_their_own(
    store: LocalStore, plain: Callable[..., MCPServer]
) -> None:
    """What one leaves is not ended under another; a fork goes on with what its thread started."""
    helper = Agent("helper", model=ScriptedModel.of(ECHO, SAID), tools=[plain()], store=store)
    asks = {"when": {"step": 0}, "calls": [{"tool": "helper", "arguments": {"task": "tea"}}] * 2}
    boss = Agent(
        "boss",
        model=ScriptedModel.of(asks, "Both said it."),
        tools=[helper.as_tool("Says things.")],
        store=store,
    )
    assert (await boss.run("Have it said.")).output == "Both said it."
    async with helper.thread("one") as thread:
        await thread.send("Say tea.")
        fork = await thread.fork()
    async with fork:
        assert (await fork.send("Say tea.")).output == "It said tea."


async def test_another_set_of_tools_that_is_chosen_while_a_server_starts_stays_chosen(
    store: LocalStore, plain: Callable[..., MCPServer], tmp_path: Path
) -> None:
    server = plain("waits")
    os.mkfifo(tmp_path / "plain" / "go")
    agent = Agent("a", model=ScriptedModel.of(ECHO, SAID), tools=[server], store=store)
    called: list[str] = []

    async def run(call: ToolCall, work: CallWork, _: Sightings | None) -> Outcome:
        called.append(call.tool_name)
        return await work()

    async with agent.thread("one") as thread:
        sending = asyncio.ensure_future(thread.send("Say tea."))
        while not (tmp_path / "plain" / "pid.txt").exists():
            await tick()
        driver = thread._session.driver
        chosen = ToolWrapper(driver.performer.tools, run)
        driver.configure(tools=chosen)
        await asyncio.to_thread((tmp_path / "plain" / "go").write_text, "go")
        assert (await sending).output == "It said tea."
        assert driver.performer.tools is driver._parts.approvals.tools is chosen
        assert called == ["plain__echo"]
