"""The prompt of a command: what was written, with what was piped into it."""

from __future__ import annotations

import select
import stat
import sys
from pathlib import Path
from typing import Final

import click

from treadle.errors import UsageError

STDIN_SIZE_MAX: Final = 8 * 1024 * 1024
STDIN_WAIT_S_MAX: Final = 3.0
"""After so long a silence it is told what is waited for."""


def read_prompt(written: str) -> tuple[str, str]:
    """What was written, and what was piped in; `-` stands for piped input alone.

    Raises:
        UsageError: there is nothing in it, or too much in the pipe.
    """
    piped = _read_piped_input()
    prompt = "" if written == "-" else written
    if not (prompt + piped).strip():
        raise UsageError("the prompt is empty", hint="say what the agent is to do")
    return prompt, piped if piped.strip() else ""


def _read_piped_input() -> str:
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():
        return ""
    mode = Path(f"/dev/fd/{stdin.fileno()}").stat().st_mode
    if stat.S_ISCHR(mode):
        return ""
    if not stat.S_ISREG(mode) and not select.select([stdin], [], [], STDIN_WAIT_S_MAX)[0]:
        click.echo("treadle: waiting for the end of stdin (`< /dev/null` goes without)", err=True)
    data = stdin.buffer.read(STDIN_SIZE_MAX + 1)
    if len(data) > STDIN_SIZE_MAX:
        raise UsageError(
            f"stdin is over {STDIN_SIZE_MAX // 2**20} MiB, which no model reads",
            hint="put it into a file: the agent can look at parts of it",
        )
    return data.decode(errors="replace")
