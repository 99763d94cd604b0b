"""Asks a person, in a terminal, about a call that a crash left uncertain."""

from __future__ import annotations

import asyncio
import sys

import click

from treadle.cli.render import describe_call
from treadle.core.messages import ToolCall
from treadle.runtime.recovery import Answer, Resolution


def is_somebody_there() -> bool:
    """Whether a question would be seen and could be answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


async def ask(call: ToolCall) -> Answer:
    """What to do with the call. Asked without blocking the event loop."""
    return await asyncio.to_thread(_ask, call)


def _ask(call: ToolCall) -> Answer:
    click.echo(
        "The process died while this was running. It may or may not have happened:", err=True
    )
    click.secho(f"  {describe_call(call)}", fg="cyan", err=True)
    word = click.prompt(
        "Run it again (r), count it as failed (f), or enter its result (e)",
        type=click.Choice(["r", "f", "e"]),
        err=True,
    )
    if word == "r":
        return Answer(Resolution.RUN_AGAIN)
    if word == "f":
        return Answer(Resolution.FAILED)
    return Answer(Resolution.RESULT, click.prompt("Its result, in a line", err=True))
