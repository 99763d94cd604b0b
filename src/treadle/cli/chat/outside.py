"""Runs other programs in this terminal, and ends them when this one is told to end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

MERCY_S: Final = 1.0
"""What does not end when it is asked to is killed so much later."""

_running: set[subprocess.Popen[bytes]] = set()


def run(arguments: Sequence[str], folder: str) -> int:
    """The exit code of a command of the command line; -2 if Ctrl+C has ended it.

    Args:
        arguments: the command and its arguments.
        folder: where it runs.

    Raises:
        OSError: it cannot be started.
    """
    # -P: a folder that is called `treadle` in the workspace is not what is meant.
    return run_program([sys.executable, "-P", "-m", "treadle", *arguments], folder)


def run_program(words: Sequence[str], folder: str | None = None) -> int:
    """The exit code of a program; the number of the signal that has ended it, negative.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen([*words], cwd=folder)
    _running.add(process)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        _running.discard(process)


def end_all() -> None:
    """Have what runs end soon, whether it wants to or not."""
    for process in tuple(_running):
        with suppress(OSError):
            process.terminate()
        timer = threading.Timer(MERCY_S, _kill, [process])
        timer.daemon = True
        timer.start()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        process.kill()
