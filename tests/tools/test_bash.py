"""Commands, also hostile ones (T4): they end in time, and nothing of them survives."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime.clock import use_up
from tools.descriptors import opened
from treadle.core.tools import Outcome, ToolErrorKind, ToolExecutionOutcome, ToolProgress
from treadle.platform.descendants import choose_lister
from treadle.process import program as process
from treadle.process import termination
from treadle.tools.bash import TIMEOUT_S_MAX
from treadle.tools.output import HEAD_SIZE_MAX, REPORT_S, TAIL_SIZE_MAX

Success = ToolExecutionOutcome.Success


@pytest.fixture
def name() -> Iterator[str]:
    """A name for processes that may try to survive; they must not."""
    token = f"treadle-test-{secrets.token_hex(8)}"
    yield token
    assert survivors(token) == []


def survivors(token: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if token in line:
                found.append(line)
    return found


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n[exit code 0]"),
        ("printf x", "x\n[exit code 0]"),
        ("true", "[exit code 0]"),
        ("echo x; exit 3", "x\n[exit code 3]"),
        ("false | true; echo ${PIPESTATUS[0]}", "1\n[exit code 0]"),
        ("no-such-program-here 2>/dev/null", "[exit code 127]"),
        ("kill -9 $$", "[killed by signal 9: Killed]"),
        ("cat", "[exit code 0]"),
        ("read x || echo nothing to read", "nothing to read\n[exit code 0]"),
        ("tty", "not a tty\n[exit code 1]"),
        ("(: </dev/tty) 2>/dev/null || echo no terminal", "no terminal\n[exit code 0]"),
        ("printf '\\377\\0\\303'", "\ufffd\0\ufffd\n[exit code 0]"),
        ("exec 1>&- 2>&-; echo x", "[exit code 1]"),
        ("echo 'ä\u2028€'", "ä\u2028€\n[exit code 0]"),
        ("ls /proc/self/fd | wc -l", "4\n[exit code 0]"),
    ],
)
async def test_a_command_that_runs_is_a_success_with_its_output_and_exit_code(
    succeed: Any, command: str, shown: str
) -> None:
    assert await succeed("bash", command=command) == shown


async def test_it_runs_in_the_folder_asked_for(succeed: Any, folder: Path) -> None:
    (folder / "a b/c").mkdir(parents=True)
    (folder / "link").symlink_to("a b/c")
    assert await succeed("bash", command="pwd -P") == f"{folder}\n[exit code 0]"
    for cwd in ("a b/c", "link", f"{folder}/a b/c"):
        assert await succeed("bash", command="pwd", cwd=cwd) == f"{folder}/a b/c\n[exit code 0]"


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"command": "x\0y"}, ToolErrorKind.INVALID_ARGUMENTS, "command: embedded null byte"),
        ({"command": "x" * 200_000}, ToolErrorKind.IO, "the command: Argument list too long"),
        ({"command": "", "cwd": ".."}, ToolErrorKind.PATH_OUTSIDE_WORKSPACE, ".."),
        ({"command": "", "cwd": "no"}, ToolErrorKind.FILE_NOT_FOUND, "no"),
        (
            {"command": "", "timeout_s": 0},
            ToolErrorKind.INVALID_ARGUMENTS,
            "Expected `float` > 0.0 - at `$.timeout_s`",
        ),
        (
            {"command": "", "timeout_s": 43201},
            ToolErrorKind.INVALID_ARGUMENTS,
            "Expected `float` <= 43200.0 - at `$.timeout_s`",
        ),
    ],
)
async def test_a_command_that_cannot_be_started_is_an_error(
    fail: Any, options: dict[str, Any], kind: ToolErrorKind, message: str
) -> None:
    assert await fail("bash", **options) == (kind, message)


async def test_a_command_sees_the_clean_environment(
    succeed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "x")
    monkeypatch.setenv("SOMETHING_ELSE", "y")
    shown = await succeed("bash", command='echo "$SOME_API_KEY-$SOMETHING_ELSE-$TERM"')
    assert shown == "-y-dumb\n[exit code 0]"


async def test_output_is_reported_while_it_comes(
    call: Any, reports: list[ToolProgress], folder: Path
) -> None:
    os.mkfifo(folder / "go")
    task = asyncio.ensure_future(call("bash", command="echo first; cat go; echo last"))
    await started(task, reports)
    assert reports == [ToolProgress(message="first\n", units_processed=6)]
    (folder / "go").write_text("second\n")
    assert await task == Success("call-0", "first\nsecond\nlast\n[exit code 0]")
    assert "".join(report.message or "" for report in reports) == "first\nsecond\nlast\n"
    assert reports[-1].units_processed == 18


async def test_a_hundred_megabytes_do_not_hold_up_the_others(
    succeed: Any, reports: list[ToolProgress]
) -> None:
    size = 100_000_000
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    clock = asyncio.get_running_loop().time
    task = asyncio.ensure_future(others())
    began = clock()
    shown = await succeed(
        "bash", command=f"head -c {size} /dev/zero | tr '\\0' x; echo end", timeout_s=TIMEOUT_S_MAX
    )
    took = clock() - began
    task.cancel()
    assert turns > 1000
    assert len(shown) < HEAD_SIZE_MAX + TAIL_SIZE_MAX + 100
    dropped_size = size + len("end\n") - HEAD_SIZE_MAX - TAIL_SIZE_MAX
    assert f"x\n[{dropped_size} bytes dropped here]\nx" in shown
    assert shown.endswith("xend\n[exit code 0]")
    assert reports[-1].units_processed == size + 4
    assert len(reports) < took / REPORT_S + 2


# What it does, and what it says before its time is over.
STUBBORN = {
    "sleeps": ("echo on; exec -a {name} sleep 1000", "on\n"),
    "ignores TERM": ("trap '' TERM; echo on; (exec -a {name} sleep 1000); sleep 1000", "on\n"),
    "is endless": ("exec -a {name} yes", None),
    "closes its output": ("echo on; exec 1>&- 2>&-; (exec -a {name} sleep 1000)", "on\n"),
    "stops itself": ("echo on; bash -c 'kill -STOP $$' {name}", "on\n"),
    "stops its group": ("echo on; bash -c 'kill -STOP 0' {name}", "on\n"),
    "leaves the session": (
        "setsid -w bash -c 'echo on; trap \"\" TERM; exec -a {name} sleep 1000'",
        "on\n",
    ),
    "hides": ("setsid -w env -i bash -c 'echo on; exec -a {name} sleep 1000'", "on\n"),
    "tidies up on TERM": (
        "trap 'echo bye; exit' TERM; echo on; (exec -a {name} sleep 1000) & wait",
        "on\nbye\n",
    ),
}


@pytest.mark.parametrize("way", STUBBORN)
async def test_a_command_that_does_not_end_is_ended(
    call: Any,
    reports: list[ToolProgress],
    way: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command, output = STUBBORN[way]
    monkeypatch.setattr(process, "TERM_S", 60.0 if way == "tidies up on TERM" else 0.1)
    asked = call("bash", command=command.format(name=name), timeout_s=TIMEOUT_S_MAX)
    task = asyncio.ensure_future(asked)
    await started(task, reports)
    await use_up(TIMEOUT_S_MAX)
    outcome = await task
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.TIMEOUT
    assert outcome.error.message == f"stopped after {TIMEOUT_S_MAX:g} s"
    if output is not None:
        assert outcome.error.output == output


# What it leaves behind when it exits by itself, and how many processes.
LEFT = {
    "in the background": ("(exec -a {name} sleep 1000) &", 1),
    "without its output": ("(exec -a {name} sleep 1000) >/dev/null 2>&1 &", 1),
    "several": ("for i in 1 2 3; do (exec -a {name} sleep 1000) & done", 3),
    "deaf to TERM and HUP": ("(trap '' TERM HUP; exec -a {name} sleep 1000) &", 1),
    "in a session of its own": ("setsid bash -c 'exec -a {name} sleep 1000' &", 1),
    "as a daemon": (
        "(setsid bash -c '(exec -a {name} sleep 1000) </dev/null >/dev/null 2>&1 &')",
        1,
    ),
    "without its environment": (
        "env -i bash -c 'exec -a {name} sleep 1000' >/dev/null 2>&1 &",
        1,
    ),
    "stopped": ("(exec -a {name} bash -c 'kill -STOP $$') &", 1),
}


@pytest.mark.parametrize("way", LEFT)
async def test_what_is_left_behind_is_killed_and_said_to_be(
    succeed: Any, way: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, count = LEFT[way]
    monkeypatch.setattr(process, "PIPE_S", 0.05)  # nothing comes that could be waited for
    # It waits until what it leaves behind is there.
    found = f"grep -las '^{name}' /proc/[0-9]*/cmdline | wc -l"
    wait = f'while [ "$({found})" != {count} ]; do sleep 0.01; done; echo done'
    shown = await succeed("bash", command=f"{command.format(name=name)}\n{wait}")
    plural = "" if count == 1 else "es"
    remark = f"[killed at the end: {count} process{plural} in the background]"
    assert shown == f"done\n{remark}\n[exit code 0]"


@pytest.mark.parametrize("way", LEFT)
async def test_where_there_is_no_proc_what_is_left_is_found_by_ps(
    succeed: Any, name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lister = choose_lister(sys.platform, termination.read_listing, has_proc=False)
    monkeypatch.setattr(termination, "_list_processes", lister)
    await test_what_is_left_behind_is_killed_and_said_to_be(succeed, way, name, monkeypatch)


async def test_a_fork_bomb_ends_with_its_command(call: Any, name: str) -> None:
    # Each process starts two more, in sessions of their own, eight levels deep: 511 in all.
    bomb = (
        'bomb() { [ "$1" = 0 ] || for _ in 1 2; do setsid bash -c "$code" "$0" $(($1 - 1)) & done; '
        "sleep 1000; }; bomb $1"
    )
    command = f"export code='{bomb}'; bash -c \"$code\" {name} 8"
    outcome = await call("bash", command=command, timeout_s=0.5)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.TIMEOUT


async def started(task: asyncio.Task[Outcome], reports: list[ToolProgress]) -> None:
    while not reports:
        assert not task.done()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_command_is_ended_and_keeps_its_output(
    call: Any,
    reports: list[ToolProgress],
    name: str,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Asked twice, it does not wait for TERM.
    monkeypatch.setattr(process, "TERM_S", 1000.0 if times == 2 else 0.1)
    command = f"trap '' TERM; echo on; (exec -a {name} sleep 1000) & wait; wait"
    task = asyncio.ensure_future(call("bash", command=command))
    await started(task, reports)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)
    outcome = await task
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.text == "Cancelled: stopped\non\n"


async def test_a_command_whose_time_is_limited_from_outside_is_ended(call: Any, name: str) -> None:
    async with asyncio.timeout(0.3):
        outcome = await call("bash", command=f"exec -a {name} sleep 1000")
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.text == "Cancelled: stopped, no output"


async def test_where_processes_are_not_told_of_the_group_is_killed_all_the_same(
    succeed: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(termination, "_list_processes", lambda mark: ())
    monkeypatch.setattr(process, "PIPE_S", 0.05)
    shown = await succeed("bash", command=f"(trap '' TERM; exec -a {name} sleep 1000) & echo x")
    assert shown == "x\n[exit code 0]"
    while survivors(name):  # noqa: ASYNC110  nobody waits for the dying
        await asyncio.sleep(0.01)


async def test_nothing_is_read_from_where_the_agent_reads(succeed: Any) -> None:
    ours, (near, far) = os.dup(0), os.pipe()
    try:
        os.dup2(near, 0)
        assert await succeed("bash", command="cat") == "[exit code 0]"
    finally:
        os.dup2(ours, 0)
        for fd in (ours, near, far):
            os.close(fd)


async def test_where_processes_have_no_descriptors_a_thread_waits(
    succeed: Any, fail: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert await succeed("bash", command="echo x; exit 3") == "x\n[exit code 3]"
    kind, _ = await fail("bash", command=f"exec -a {name} sleep 1000", timeout_s=0.1)
    assert kind is ToolErrorKind.TIMEOUT


async def test_commands_run_side_by_side(succeed: Any) -> None:
    meet = "while [ $(ls here.* | wc -l) != 8 ]; do sleep 0.01; done"
    shown = await asyncio.gather(
        *(
            succeed("bash", command=f"touch here.{number}; {meet}; echo {number}")
            for number in range(8)
        )
    )
    assert shown == [f"{number}\n[exit code 0]" for number in range(8)]


def children() -> list[str]:
    """Also the dead that nobody has waited for."""
    found = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread of somebody else has just ended
            found += task.read_text().split()
    return found


async def test_nothing_is_left_open_and_no_zombie_remains(succeed: Any, call: Any) -> None:
    await succeed("bash", command="true")
    before, others = opened(), set(children())
    for _ in range(3):
        await succeed("bash", command="echo x & sleep 0.01")
        await call("bash", command="sleep 9", timeout_s=0.01)
        await call("bash", command="x" * 200_000)
    assert opened() <= before
    assert set(children()) <= others
