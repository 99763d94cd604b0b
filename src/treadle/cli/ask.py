"""Asks a person, in a terminal, about a call that a crash left uncertain."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import click

from treadle.cli.render import describe_call
from treadle.core.messages import ToolCall
from treadle.runtime.recovery import Answer, Resolution

_LINE_SIZE_MAX: Final = 4096
"""Bytes a terminal gives as one line."""

_MEANING: Final = {
    "r": Resolution.RUN_AGAIN,
    "f": Resolution.FAILED,
    "e": Resolution.RESULT,
}


def is_somebody_there() -> bool:
    """Whether a question would be seen and could be answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def ask(call: ToolCall) -> Answer:
    """What to do with the call. The event loop goes on meanwhile, so that Ctrl-C is heard."""
    click.echo(
        "The process died while this was running. It may or may not have happened:", err=True
    )
    click.secho(f"  {describe_call(call)}", fg="cyan", err=True)
    word = ""
    while word not in _MEANING:
        word = (await _line("Run it again (r), count it as failed (f), or enter its result (e)"))[
            :1
        ]
    text = await _line("Its result, in a line") if word == "e" else ""
    return Answer(_MEANING[word], text)


async def _line(question: str) -> str:
    """A line from the terminal; the end of input means that nobody answers."""
    click.echo(f"{question}: ", nl=False, err=True)
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    arrived: asyncio.Future[None] = loop.create_future()

    def has_line() -> None:
        if not arrived.done():
            arrived.set_result(None)

    loop.add_reader(terminal, has_line)
    try:
        await arrived
    finally:
        loop.remove_reader(terminal)
    data = os.read(terminal, _LINE_SIZE_MAX)
    if not data:
        raise click.Abort
    return data.decode(errors="replace").strip()
