"""Commands in the background: begun, looked after, stopped, and their ends told once."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolErrorKind, ToolExecutionOutcome
from treadle.process.program import Cause
from treadle.tools import background as module
from treadle.tools.background import BackgroundCommand, BackgroundCommands, CommandEnd
from treadle.tools.builtin import builtin_tools
from treadle.tools.output import Output
from treadle.tools.registry import Registry


class Desk:
    """A registry whose calls may begin commands in the background."""

    def __init__(self, folder: Path) -> None:
        self.ended: list[tuple[str, CommandEnd]] = []
        self.commands = BackgroundCommands(self._note)
        self._registry = Registry(builtin_tools(), workspace=folder)

    def _note(self, one: BackgroundCommand, end: CommandEnd) -> None:
        self.ended.append((one.call_id, end))

    async def call(self, call_id: str, name: str, **arguments: object) -> Outcome:
        asked = ToolCall(call_id, name, json.dumps(arguments))
        return await self._registry.execute(
            asked, key=call_id, progress=lambda _: None, background=self.commands
        )

    async def begin(self, call_id: str, command: str, **arguments: object) -> Outcome:
        return await self.call(call_id, "bash", command=command, background=True, **arguments)

    async def look(self, call_id: str = "", **arguments: object) -> str:
        outcome = await self.call("look", "background_command", call=call_id, **arguments)
        assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
        return outcome.output


@pytest.fixture
async def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(module, "START_S", 0.01)
    made = Desk(folder)
    yield made
    await made.commands.stop(made.commands.running)


async def ended(desk: Desk, count: int) -> None:
    """Return when so many have ended."""
    while len(desk.ended) < count:
        await desk.commands.wait([one.call_id for one in desk.commands.running], 60)
        await asyncio.sleep(0)


@pytest.fixture
def gate(folder: Path) -> Path:
    """What `cat gate` waits for."""
    os.mkfifo(folder / "gate")
    return folder / "gate"


async def test_a_command_goes_on_and_its_end_is_told_once(desk: Desk, gate: Path) -> None:
    begun = await desk.begin("c1", "echo first; cat gate; echo last; exit 3", access="write")
    assert isinstance(begun, ToolExecutionOutcome.Success)
    assert begun.background == "echo first; cat gate; echo last; exit 3"
    assert "runs in the background as c1" in begun.output
    one = desk.commands.find("c1")
    assert one is not None
    assert desk.ended == []
    await asyncio.to_thread(gate.write_text, "second\n")
    await ended(desk, 1)
    [(call_id, end)] = desk.ended
    assert (call_id, end.cause, end.exit_code) == ("c1", Cause.EXIT, 3)
    assert end.report == "first\nsecond\nlast\n[exit code 3]"
    assert await one.read() == "first\nsecond\nlast\n"
    assert await desk.look("c1") == (
        "[no command c1 runs in the background: it has ended, or was never begun; running are: "
        "none]"
    )


async def test_what_ends_at_once_has_the_result_that_it_has_in_the_foreground(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_S", 60.0)
    for command in ("echo on", "exit 7", "no-such-program-treadle", "kill -9 $$"):
        behind = await desk.begin("same", command)
        assert behind == await desk.call("same", "bash", command=command)
    slow = await desk.begin("c1", "echo on; exec sleep 1000", timeout_s=0.2)
    assert slow == await desk.call("c1", "bash", command="echo on; exec sleep 1000", timeout_s=0.2)
    missing = await desk.begin("c2", "true", cwd="no-such-folder")
    assert missing == await desk.call("c2", "bash", command="true", cwd="no-such-folder")
    assert (desk.ended, desk.commands.running) == ([], ())


async def test_it_is_looked_at_waited_for_and_stopped(desk: Desk, gate: Path) -> None:
    assert await desk.look() == "[no command runs in the background]"
    for call_id in ("c1", "c2"):
        await desk.begin(call_id, f"echo {call_id}; cat gate; exec sleep 1000")
    told = await desk.look()
    assert [f"[{one} runs for" in told for one in ("c1", "c2")] == [True, True]
    assert "runs for" in await desk.look("c1", timeout_s=0.01)
    stopped = await desk.look("c1", stop=True)
    assert stopped.startswith("[c1 has ended after ")
    assert [(one, end.cause) for one, end in desk.ended] == [("c1", Cause.CANCEL)]
    waiting = asyncio.ensure_future(desk.look("c2", timeout_s=3600))
    await asyncio.sleep(0)
    [one] = desk.commands.running
    await desk.commands.stop([one])
    assert (await waiting).startswith("[c2 has ended after ")


async def test_of_much_output_a_look_shows_the_newest_and_how_many_lines_there_are(
    desk: Desk, gate: Path
) -> None:
    await desk.begin("c1", "seq 5000; cat gate")
    one = desk.commands.find("c1")
    assert one is not None
    while not (await one.read()).endswith("5000\n"):
        await asyncio.wait({one.work}, timeout=0.01)
    told = await desk.look("c1")
    assert "[the last of 5000 lines:]" in told
    assert told.endswith("4999\n5000\n")
    assert len(told) < 2500


async def test_its_time_is_an_hour_or_what_the_call_names(desk: Desk, gate: Path) -> None:
    await desk.begin("c1", "cat gate", timeout_s=0.2)
    await ended(desk, 1)
    assert desk.ended[0][1].cause is Cause.TIMEOUT


async def test_there_are_not_more_than_can_be_looked_after(desk: Desk, gate: Path) -> None:
    for number in range(module.COUNT_MAX):
        await desk.begin(f"c{number}", "cat gate")
    refused = await desk.begin("more", "cat gate")
    assert isinstance(refused, ToolExecutionOutcome.Error)
    assert refused.error.kind is ToolErrorKind.REJECTED
    assert "c0, c1" in refused.error.message
    assert "stop one first" in refused.error.message


async def test_a_call_that_is_cancelled_while_it_begins_leaves_nothing(
    desk: Desk, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_S", 600.0)
    beginning = asyncio.ensure_future(desk.begin("c1", "echo on; cat gate"))
    while not (one := desk.commands.find("c1")) or not await one.read():
        await asyncio.wait({beginning}, timeout=0.01)
    beginning.cancel()
    outcome = await beginning
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.CANCELLED
    assert (desk.ended, desk.commands.running) == ([], ())


async def test_one_that_is_still_ending_when_its_call_is_given_up_is_known_until_it_has_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, over = asyncio.Event(), asyncio.Event()

    async def work() -> CommandEnd:
        try:
            await over.wait()
        finally:
            ending.set()
            await over.wait()
        raise AssertionError

    monkeypatch.setattr(module, "START_S", 600.0)
    beginning = asyncio.ensure_future(
        desk.commands.start("c1", "slow", work(), Output(lambda _: None))
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    beginning.cancel()
    await ending.wait()
    beginning.cancel()
    await asyncio.wait({beginning})
    [one] = desk.commands.running
    over.set()
    await asyncio.wait({one.work})
    await asyncio.sleep(0)
    assert (desk.ended, desk.commands.running) == ([], ())


async def test_where_nobody_looks_after_it_nothing_is_begun(desk: Desk, folder: Path) -> None:
    asked = ToolCall("c1", "bash", json.dumps({"command": "touch made", "background": True}))
    registry = Registry(builtin_tools(), workspace=folder)
    refused = await registry.execute(asked, key="c1", progress=lambda _: None)
    assert isinstance(refused, ToolExecutionOutcome.Error)
    assert "without `background`" in refused.error.message
    assert not (folder / "made").exists()
