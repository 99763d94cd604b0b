"""Runs other programs in this terminal, and ends them when this one is told to end."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from treadle import helper_programs
from treadle.terminal.keyboard_modes import asking_keyboard, silent_keyboard

KILL_DELAY_S: Final = 1.0
"""What does not end when it is asked to is killed so much later."""

_running: set[subprocess.Popen[bytes]] = set()


def run_cli_command(arguments: Sequence[str], folder: str) -> int:
    """The exit code of a command of the command line; -2 if Ctrl+C has ended it.

    What is typed meanwhile is not shown; the chat hears it afterwards.

    Args:
        arguments: the command and its arguments.
        folder: where it runs.

    Raises:
        OSError: it cannot be started.
    """
    # -P: a folder that is called `treadle` in the workspace is not what is meant.
    # It gets the whole environment: the commands of its agents are given that.
    words = [sys.executable, "-P", "-m", "treadle", *arguments]
    with silent_keyboard():
        return _wait(subprocess.Popen(words, cwd=folder))


def run_program(words: Sequence[str]) -> int:
    """The exit code of a helper program; the number of the signal that has ended it, negative.

    Raises:
        OSError: it cannot be started.
    """
    with asking_keyboard():
        return _wait(subprocess.Popen(_find(words), env=helper_programs.environment()))


def start_pager(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """A helper program that reads what it shows; whoever starts it writes that, and waits.

    Without settings of the person's, `less` shows colours and ends where one screen is enough.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(
        _find(words),
        env={"LESS": "FRX", "LV": "-c", **helper_programs.environment()},
        stdin=subprocess.PIPE,
    )


def _find(words: Sequence[str]) -> list[str]:
    program = helper_programs.find_program(words[0])
    if program is None:
        raise OSError(errno.ENOENT, helper_programs.why_missing(words[0]))
    return [program, *words[1:]]


def wait_for_pager(process: subprocess.Popen[bytes]) -> None:
    """Until the person leaves it; it has the terminal, so Ctrl+C is for it."""
    while process.poll() is None:
        with suppress(KeyboardInterrupt):
            process.wait()


def _wait(process: subprocess.Popen[bytes]) -> int:
    _running.add(process)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        _running.discard(process)


def terminate_all() -> None:
    """Have what runs end soon, whether it wants to or not."""
    for process in tuple(_running):
        with suppress(OSError):
            process.terminate()
        timer = threading.Timer(KILL_DELAY_S, _kill, [process])
        timer.daemon = True
        timer.start()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        process.kill()
