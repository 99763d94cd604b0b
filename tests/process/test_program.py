"""Running a program to its end, or scope it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime.fifo import read_fifo
from treadle.process import program as process
from treadle.process.program import TerminationScope, run_bounded
from treadle.process.result import Bounds, Ran
from workspace.repo import is_gone

BOUNDS = Bounds(100.0, 1000)
FULL = Bounds(100.0, 1, ends_when_full=True)
"""With these a test says when a program is to be ended: when it writes."""


async def sh(script: str, folder: Path, bounds: Bounds = BOUNDS, **options: Any) -> Ran:
    return await run_bounded(("/bin/sh", "-c", script), folder, os.environ, bounds, **options)


async def test_what_it_writes_and_its_status_are_told(tmp_path: Path) -> None:
    ran = await sh("echo out; echo err >&2; exit 3", tmp_path)
    assert ran == Ran(3, b"out\n", b"err\n", 4)


async def test_it_reads_what_it_is_given_and_nothing_otherwise(tmp_path: Path) -> None:
    assert (await sh("cat", tmp_path, data=b"x" * 900)).out == b"x" * 900
    assert (await sh("cat", tmp_path)).out == b""


async def test_data_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    assert (await sh("exit 0", tmp_path, data=b"x" * 1_000_000)).status == 0


async def test_more_than_is_kept_is_counted(tmp_path: Path) -> None:
    ran = await sh("head -c 5000 /dev/zero", tmp_path)
    assert (len(ran.out), ran.out_size, ran.is_cut, ran.was_ended) == (1000, 5000, True, False)


async def test_endless_output_can_be_ended_when_enough_is_there(tmp_path: Path) -> None:
    ran = await sh("yes", tmp_path, Bounds(100.0, 1000, ends_when_full=True))
    assert ran.is_cut
    assert ran.was_ended


async def test_a_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_bounded(("/nowhere/git",), tmp_path, {}, BOUNDS)


async def test_a_program_out_of_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 60.0)
    ran = await sh("exec sleep 60", tmp_path, Bounds(0.1))
    assert ran.was_ended
    assert ran.status == -signal.SIGTERM


async def test_a_program_is_ended_with_its_children(tmp_path: Path) -> None:
    ran = await sh("sleep 60 & echo $! > child; echo go; wait", tmp_path, FULL)
    assert ran.was_ended
    assert is_gone(int((tmp_path / "child").read_text()))


async def test_children_that_ignore_the_polite_signal_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 60.0)
    child = "trap '' TERM; echo $$ > child; echo go; sleep 60; sleep 60"
    (tmp_path / "child.sh").write_text(child)
    ran = await sh("trap 'exit 4' TERM; sh child.sh & wait", tmp_path, FULL)
    assert ran.status == 4
    assert is_gone(int((tmp_path / "child").read_text()))


async def test_a_program_that_ignores_the_polite_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 0.1)
    ran = await sh("trap '' TERM; echo go; sleep 60; sleep 60", tmp_path, FULL)
    assert ran.status == -signal.SIGKILL


async def test_a_cancelled_run_has_ended_its_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    task = asyncio.ensure_future(sh("echo $$ > pid; exec sleep 60", tmp_path, Bounds(60.0)))
    pid = int(await read_fifo(tmp_path / "pid"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(pid)


async def test_a_child_left_behind_with_the_pipe_does_not_hold_the_run_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    ran = await sh("cat end & echo done", tmp_path)
    assert ran.out == b"done\n"
    (tmp_path / "end").write_text("")  # it was there, and need not be any more


async def test_there_is_no_terminal_to_ask_on(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "open('/dev/tty')")
    assert (await run_bounded(argv, tmp_path, {}, BOUNDS)).status == 1


async def test_output_that_nobody_wants_goes_nowhere(tmp_path: Path) -> None:
    ran = await sh("echo out; echo $(readlink /proc/$$/fd/1) >&2", tmp_path, has_output=False)
    assert ran == Ran(0, b"", b"/dev/null\n")


async def test_a_group_that_is_ended_at_once_is_not_asked(tmp_path: Path) -> None:
    ran = await sh(
        "trap '' TERM; echo go; sleep 60", tmp_path, FULL, scope=TerminationScope.GROUP_AT_ONCE
    )
    assert (ran.status, ran.problem) == (-signal.SIGKILL, "printed more than 1 bytes")


@pytest.mark.parametrize("scope", [TerminationScope.GROUP, TerminationScope.GROUP_AT_ONCE])
async def test_what_a_program_leaves_in_its_group_goes_on_unless_it_is_ended_at_once(
    tmp_path: Path, scope: TerminationScope
) -> None:
    os.mkfifo(tmp_path / "end")
    ran = await sh("cat end >/dev/null 2>&1 & echo $!", tmp_path, scope=scope)
    if scope is TerminationScope.GROUP:
        (tmp_path / "end").write_text("")  # somebody reads, else this would wait for ever
    assert is_gone(int(ran.out))
