"""Short commands for which the caller waits; those that have the terminal are in tests/config."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.process.command import run_command
from treadle.process.result import Bounds, Ran
from workspace.repo import is_gone

BOUNDS = Bounds(100.0, 1000)


def sh(script: str, bounds: Bounds = BOUNDS, **options: Any) -> Ran:
    return run_command(("/bin/sh", "-c", script), os.environ, bounds, **options)


def test_what_it_prints_and_its_status_are_told() -> None:
    assert sh("echo out; echo err >&2; exit 3") == Ran(3, b"out\n", b"err\n", 4)
    assert sh("kill -9 $$").status == -signal.SIGKILL


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_it_reads_what_it_is_given_while_it_prints(size: int) -> None:
    data = os.urandom(size)
    assert sh("cat", Bounds(100.0), data=data).out == data


def test_without_data_there_is_nothing_to_read() -> None:
    assert sh("cat").out == b""


def test_data_that_nobody_reads_is_no_error() -> None:
    assert sh("exit 4", data=b"x" * 1_000_000).status == 4


def test_more_than_is_kept_is_counted_or_ends_it() -> None:
    ran = sh("head -c 5000 /dev/zero")
    assert (len(ran.out), ran.out_size, ran.is_cut, ran.was_ended) == (1000, 5000, True, False)
    ran = sh("yes", Bounds(100.0, 1000, ends_when_full=True))
    assert (ran.status, ran.problem) == (-signal.SIGKILL, "printed more than 1000 bytes")


def test_one_that_takes_too_long_is_killed_with_its_group(tmp_path: Path) -> None:
    ran = sh("sleep 60 & echo $!; wait", Bounds(0.5))
    assert (ran.status, ran.problem) == (-signal.SIGKILL, "was not done in 0.5 seconds")
    assert is_gone(int(ran.out))


def test_one_that_hangs_without_its_outputs_is_late_too() -> None:
    assert sh("exec >&- 2>&-; sleep 60", Bounds(0.1)).problem == "was not done in 0.1 seconds"


def test_what_it_leaves_with_other_outputs_goes_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    left = int(sh("cat end >/dev/null 2>&1 & echo $!", folder=tmp_path).out)
    (tmp_path / "end").write_text("")  # somebody reads, else this would wait for ever
    assert is_gone(left)


def test_it_has_the_folder_and_the_descriptors_that_it_is_given_and_no_terminal(
    tmp_path: Path,
) -> None:
    near, far = os.pipe()
    try:
        ran = sh(
            f"pwd -P; (: </dev/tty) || echo x >/dev/fd/{far}", folder=tmp_path, pass_fds=(far,)
        )
        assert ran.out.decode() == f"{tmp_path.resolve()}\n"
        os.set_blocking(near, False)
        assert os.read(near, 10) == b"x\n"
    finally:
        os.close(near)
        os.close(far)


def test_one_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_command(("/nowhere/git",), {}, BOUNDS)
    with pytest.raises(ValueError, match="null byte"):
        run_command((sys.executable, "\0"), {}, BOUNDS)
