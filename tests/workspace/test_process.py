"""Running a program to its end, or ending it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from runtime.fifo import read_fifo
from treadle.workspace import process
from treadle.workspace.process import NOT_STARTED, Ran, run
from workspace.repo import is_gone


async def sh(script: str, folder: Path, **options: object) -> Ran:
    settings: dict[str, object] = {"timeout_s": 100.0, "out_size_max": 1000, **options}
    return await run(("/bin/sh", "-c", script), folder, dict(os.environ), **settings)  # type: ignore[arg-type]


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
    ran = await sh("yes", tmp_path, ends_when_full=True)
    assert ran.is_cut
    assert ran.was_ended


async def test_a_program_that_cannot_start_has_a_status_and_a_reason(tmp_path: Path) -> None:
    ran = await run(("/nowhere/git",), tmp_path, {}, timeout_s=1, out_size_max=10)
    assert ran.status == NOT_STARTED
    assert b"No such file" in ran.err


async def test_a_program_out_of_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 60.0)
    ran = await sh("exec sleep 60", tmp_path, timeout_s=0.1)
    assert ran.was_ended
    assert ran.status == -signal.SIGTERM


FULL: dict[str, object] = {"out_size_max": 1, "ends_when_full": True}
"""With these a test says when a program is to be ended: when it writes."""


async def test_a_program_is_ended_with_its_children(tmp_path: Path) -> None:
    ran = await sh("sleep 60 & echo $! > child; echo go; wait", tmp_path, **FULL)
    assert ran.was_ended
    assert is_gone(int((tmp_path / "child").read_text()))


async def test_children_that_ignore_the_polite_signal_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 60.0)
    child = "trap '' TERM; echo $$ > child; echo go; sleep 60; sleep 60"
    (tmp_path / "child.sh").write_text(child)
    ran = await sh("trap 'exit 4' TERM; sh child.sh & wait", tmp_path, **FULL)
    assert ran.status == 4
    assert is_gone(int((tmp_path / "child").read_text()))


async def test_a_program_that_ignores_the_polite_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_S", 0.1)
    ran = await sh("trap '' TERM; echo go; sleep 60; sleep 60", tmp_path, **FULL)
    assert ran.status == -signal.SIGKILL


async def test_a_cancelled_run_has_ended_its_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    task = asyncio.ensure_future(sh("echo $$ > pid; exec sleep 60", tmp_path, timeout_s=60))
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
    ran = await run(
        (sys.executable, "-c", "open('/dev/tty')"),
        tmp_path,
        {},
        timeout_s=100,
        out_size_max=10_000,
    )
    assert ran.status == 1
