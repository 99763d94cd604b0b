"""Threads that a program of the library began, on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cli.conftest import Run
from cli.test_run import HELLO

PROGRAM = """
import asyncio
from treadle import AgentBuilder, ApprovalNeeded, AskAbove, RiskLevel, ScriptedModel, tool

@tool(risk=RiskLevel.HIGH)
def drop(name: str) -> str:
    '''Drop a table.

    Args:
        name: which.
    '''
    raise AssertionError("nobody said yes")

async def main():
    model = ScriptedModel.of({"calls": [{"tool": "drop", "arguments": {"name": "orders"}}]})
    agent = AgentBuilder("clean up", llm=model, tools=[drop], approval=AskAbove(RiskLevel.HIGH))
    async with agent.build() as engine:
        try:
            await engine.run()
        except ApprovalNeeded as question:
            print(engine.thread_id)
            print(question.hint)

asyncio.run(main())
"""


def test_a_yes_is_not_used_up_where_the_tool_is_not_there(
    treadle: Run, environment: dict[str, str], script: Callable[[str], str], repository: Path
) -> None:
    begun = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    thread, hint = begun.stdout.splitlines()
    assert "decide()" in hint
    for command in (("approve", thread, "--yes"), ("resume", thread)):
        done = treadle(*command, "-m", script(HELLO))
        assert (done.returncode, done.stdout) == (2, "")
        assert "works with tools of the program that began it: drop" in done.stderr
        assert "AgentBuilder(...).resume(" in done.stderr
    waiting = json.loads(treadle("approve", thread, "--json").stdout)
    assert [one["call"]["tool_name"] for one in waiting] == ["drop"]
    assert "drop" in treadle("show", thread).stdout
