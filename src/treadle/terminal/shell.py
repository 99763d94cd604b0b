"""`!command`: a command that the person runs, in the folder, with their own environment.

It is shown as the agent's calls are, and told to the agent with the next prompt. That it
begins is on disk before it does, see `turns.Turns.runs`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from treadle import helper_programs
from treadle.errors import UsageError

if TYPE_CHECKING:
    from treadle.terminal.view import ChatView

TIME_S_MAX: Final = 24 * 3600.0
OUTPUT_SIZE_MAX: Final = 1024 * 1024
"""Bytes of the output that are kept: its end."""

NOT_STARTED: Final = 126
"""The exit code with which shells say that a program could not be started."""

_numbers = count(1)


def find_shell() -> str:
    """The person's shell, or one that is there.

    Raises:
        UsageError: there is none.
    """
    find = helper_programs.find_program
    shell = find(os.environ.get("SHELL") or "bash") or find("sh")
    if not shell:
        raise UsageError("there is no shell to run it", hint="set SHELL")
    return shell


def check_command(command: str) -> None:
    """Refuse what no system can run.

    Raises:
        UsageError: it holds a NUL character, which ends a text there.
    """
    if not command:
        raise UsageError("there is no command", hint="write it behind the !, as in `!git status`")
    if "\0" in command:
        raise UsageError(
            "the command was not run: it holds a NUL character (Ctrl+@), which no command can",
            hint="type it without that",
        )


async def run_shell(
    shell: str,
    command: str,
    folder: str,
    view: ChatView,
    record: Callable[[str, int], Awaitable[None]],
) -> None:
    """Run it, record what came of it, and show that; also if Esc, or a closed window, has ended it.

    Args:
        shell: runs it.
        command: as it was typed.
        folder: where it runs.
        view: shows it.
        record: (output, exit code) makes it durable; whoever is cancelled meanwhile waits for it.
    """
    from treadle.core.messages import ToolCall
    from treadle.core.tool_families import PERSONS_COMMAND
    from treadle.core.tools import ToolError, ToolErrorKind, ToolExecutionOutcome
    from treadle.outputs import ToolFinished, ToolStarted
    from treadle.process.program import Cause, run

    call = ToolCall(f"own-{next(_numbers)}", PERSONS_COMMAND, json.dumps({"command": command}))
    output, size = bytearray(), 0

    def add_output(data: bytes) -> None:
        nonlocal size
        size += len(data)
        output.extend(data)
        del output[:-OUTPUT_SIZE_MAX]

    argv = [shell, "-c", command]
    view.show(ToolStarted(call))
    try:
        ended = await run(argv, cwd=folder, env=os.environ, timeout_s=TIME_S_MAX, sink=add_output)
    except OSError as refused:
        text = f"it could not be started: {refused}"
        await _wait_uncancelled(record(text, NOT_STARTED))
        error = ToolError(ToolErrorKind.FAILED, text)
        view.show(ToolFinished(call.id, call.tool_name, ToolExecutionOutcome.Error(call.id, error)))
        return
    is_cancelled = ended.cause is Cause.CANCEL
    if is_cancelled:
        asyncio.current_task().uncancel()  # type: ignore[union-attr]
    text = _read_end(bytes(output), size)
    await _wait_uncancelled(record(text, ended.exit_code))  # first: the terminal may be gone
    told = f"{text}\n[exit code {ended.exit_code}]" if text else f"[exit code {ended.exit_code}]"
    if is_cancelled:
        error = ToolError(ToolErrorKind.CANCELLED, f"{told} [ended by Esc]")
        view.show(ToolFinished(call.id, call.tool_name, ToolExecutionOutcome.Error(call.id, error)))
    elif ended.exit_code:
        error = ToolError(ToolErrorKind.FAILED, told)
        view.show(ToolFinished(call.id, call.tool_name, ToolExecutionOutcome.Error(call.id, error)))
    else:
        view.show(
            ToolFinished(call.id, call.tool_name, ToolExecutionOutcome.Success(call.id, told))
        )


def _read_end(output: bytes, size: int) -> str:
    """The end of an output as text, with a word on the bytes before it, if they were not kept."""
    dropped = size - len(output)
    if not dropped:
        return output.decode("utf-8", "replace").rstrip("\n")
    broken = output.find(b"\n") + 1  # of the line that the cut went through
    text = output[broken:].decode("utf-8", "replace").rstrip("\n")
    return f"[... {dropped + broken} bytes of output before this were not kept ...]\n{text}"


async def _wait_uncancelled(work: Awaitable[None]) -> None:
    """Await it, whoever wants to cancel that."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
    task.result()
