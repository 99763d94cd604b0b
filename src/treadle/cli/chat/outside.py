"""Runs a command of the command line as a process of its own, in this terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


def run(arguments: Sequence[str], folder: str) -> int:
    """Its exit code; -2 if Ctrl+C has ended it.

    Args:
        arguments: the command and its arguments.
        folder: where it runs.
    """
    # -P: a folder that is called `treadle` in the workspace is not what is meant.
    process = subprocess.Popen([sys.executable, "-P", "-m", "treadle", *arguments], cwd=folder)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
