"""The official TypeScript client, from npm: another program that reads what is sent."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from editors.editor import WAIT_S, provider, says
from models.loopback import Loopback

CLIENT: Final = Path(__file__).with_name("client.mjs")
MODULES: Final = Path(__file__).parents[1] / "node_modules"
LOOK = ("call_1", "read_file", {"path": "calc.py"})
FIX = ("call_2", "edit_file", {"path": "calc.py", "edits": [{"old_str": "-", "new_str": "+"}]})
RUN = ("call_3", "bash", {"command": "cat calc.py"})
PLAN = ("call_4", "plan", {"steps": [{"step": "fix it", "status": "in_progress"}]})


async def talk(folder: Path, environment: Mapping[str, str], load: str = "") -> dict[str, Any]:
    """What the client was told in a conversation, or of one that it loads."""
    assert MODULES.is_dir(), "`make .venv/.dev` installs the client from npm"
    node = Path(sys.executable).with_name("node")
    process = await asyncio.create_subprocess_exec(
        *(str(node), str(CLIENT), str(folder), load),
        *(sys.executable, "-m", "treadle", "acp", "--no-commit"),
        cwd=folder,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, problems = await asyncio.wait_for(process.communicate(), WAIT_S)
    assert process.returncode == 0, problems.decode()
    told: dict[str, Any] = json.loads(printed)
    return told


def list_kinds(told: dict[str, Any]) -> set[str]:
    return {one["sessionUpdate"] for one in told["updates"]}


async def test_the_client_from_npm_understands_a_session_and_one_that_is_loaded(
    repository: Path, environment: dict[str, str]
) -> None:
    answers = says("I look.", LOOK, PLAN), says("", FIX, RUN), says("It adds now.")
    async with Loopback(*answers) as server:
        environment = {**environment, **provider(server)}
        told = await talk(repository, environment)
        again = await talk(repository, environment, told["session"])
    assert told["initialized"]["agentCapabilities"]["loadSession"] is True
    assert told["modes"]["currentModeId"] == "ask"
    assert told["asked"] == [["allow_once", "allow_always", "reject_once"]]
    assert told["turn"]["stopReason"] == "end_turn"
    assert [one["sessionId"] for one in told["listed"]["sessions"]] == [told["session"]]
    shown = {"agent_message_chunk", "tool_call", "tool_call_update", "plan", "session_info_update"}
    assert shown | {"usage_update", "current_mode_update"} <= list_kinds(told)
    assert shown | {"user_message_chunk"} <= list_kinds(again)
    assert again["loaded"]["modes"]["currentModeId"] == "ask"
