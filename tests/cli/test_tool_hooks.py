"""Hooks around calls take their time: what changes or ends meanwhile is not overlooked."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from runtime.fifo import read_fifo
from treadle.app.sessions.hooks import Hooks
from treadle.app.sessions.tool_hooks import add_hooks
from treadle.config.settings import Hook, HookMoment
from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass, ToolErrorKind, ToolExecutionOutcome
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry

CALL = ToolCall("c1", "write", "{}")


class Box:
    """A folder with one tool that is bound to a file, and one hook."""

    def __init__(self, folder: Path, on: HookMoment, program: str) -> None:
        self.paper = folder / "paper"
        self.paper.write_text("as it was")
        self.must_ask = folder / "must-ask"
        self.effect = folder / "effect"
        self.hooks = Hooks(
            {"it": Hook(on, (sys.executable, "-c", program), timeout_s=60.0)}, str(folder)
        )

        def scope_of(*_: object) -> Scope:
            return Scope(content=self.paper.read_text(), must_ask=self.must_ask.exists())

        @tool(effect=EffectClass.MUTATE, scope_of=scope_of)
        async def write() -> str:
            """Write."""
            self.effect.write_text("x")
            return "written"

        self.tools = add_hooks(Registry([write]), self.hooks)

    async def run(self) -> ToolExecutionOutcome.Success | ToolExecutionOutcome.Error:
        return await self.tools.execute(CALL, key="k", progress=lambda progress: None)


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("open('paper', 'w').write('by a person')", "the file has changed"),
        ("open('must-ask', 'w')", "what it would do has changed"),
    ],
    ids=["another file", "more dangerous"],
)
async def test_a_call_that_has_become_another_while_a_hook_looked_at_it_does_not_run(
    tmp_path: Path, program: str, what: str
) -> None:
    box = Box(tmp_path, "before_tool", program)
    outcome = await box.run()
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.REJECTED
    assert what in outcome.error.message
    assert not box.effect.exists()


async def test_a_call_that_is_still_the_same_after_its_hook_runs(tmp_path: Path) -> None:
    box = Box(tmp_path, "before_tool", "open('paper').read()")
    assert isinstance(await box.run(), ToolExecutionOutcome.Success)
    assert box.effect.exists()


async def test_a_call_that_has_ended_keeps_its_result_when_the_hook_after_it_is_cut_short(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "begun")
    program = "import signal; open('begun', 'w').close(); signal.pause()"
    box = Box(tmp_path, "after_tool", program)
    running = asyncio.ensure_future(box.run())
    await read_fifo(tmp_path / "begun")
    running.cancel()
    outcome = await asyncio.wait_for(running, 60)
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    assert outcome.output == "written"


@pytest.mark.parametrize("code", [1, 2], ids=["a warning", "a no"])
async def test_secrets_in_what_a_hook_says_are_replaced(tmp_path: Path, code: int) -> None:
    program = f"import sys; sys.stderr.write('it is hunter2'); sys.exit({code})"
    box = Box(tmp_path, "before_turn", program)
    told: list[str] = []
    box.hooks.tell = told.append
    box.hooks.redact = lambda text: text.replace("hunter2", "***")
    said = await box.hooks.before_turn("go")
    assert "it is ***" in "".join([said, *told])
    assert "hunter2" not in "".join([said, *told])
