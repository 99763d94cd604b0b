"""The tool that runs shell commands. It is not a sandbox: a command can do what the person can."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import Annotated, Final

from msgspec import Meta

from treadle.core.tools import EffectClass, RiskLevel, ToolErrorKind
from treadle.tools.failure import ToolFailure
from treadle.tools.output import Output
from treadle.tools.paths import as_failure
from treadle.tools.process import Cause, Ended, clean_environment, run
from treadle.tools.registry import ToolContext, tool

TIMEOUT_S: Final = 60.0
TIMEOUT_S_MAX: Final = 300.0
"""The original program's limits."""


@tool(effect=EffectClass.MUTATE, risk=RiskLevel.HIGH)
async def bash(
    context: ToolContext,
    command: str,
    timeout_s: Annotated[float, Meta(gt=0, le=TIMEOUT_S_MAX)] = TIMEOUT_S,
    cwd: str = ".",
) -> str:
    """Run a shell command and return its output (stdout and stderr together) and exit code.

    Standard input is empty and there is no terminal, so nothing can be asked. The command ends
    with everything it started: processes left in the background are killed when it exits. Very
    long output is cut in the middle. Environment variables whose names look like credentials are
    not passed on.

    Args:
        context: The workspace, and who is told of the output.
        command: What to run, for bash (sh where there is no bash).
        timeout_s: Seconds until it is stopped.
        cwd: The folder to run it in, relative to the workspace.
    """
    output = Output(context.progress)
    folder = context.workspace.open_folder(cwd)
    # The descriptor's own name cannot be swapped for another folder meanwhile.
    where = f"/proc/self/fd/{folder}" if sys.platform == "linux" else context.workspace.path / cwd
    try:
        with as_failure("the command"):
            ended = await run(
                [_shell(), "-c", command],
                cwd=str(where),
                env=clean_environment(os.environ),
                timeout_s=timeout_s,
                sink=output.add,
            )
    except ValueError as error:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, f"command: {error}") from error
    finally:
        os.close(folder)
        output.close()
    if ended.cause is Cause.EXIT:
        return _report(output.text(), ended)
    text = output.text()
    what = f"stopped after {timeout_s:g} s" if ended.cause is Cause.TIMEOUT else "stopped"
    kind = ToolErrorKind.TIMEOUT if ended.cause is Cause.TIMEOUT else ToolErrorKind.CANCELLED
    raise ToolFailure(kind, f"{what}, its output so far:" if text else f"{what}, no output", text)


def _shell() -> str:
    return shutil.which("bash") or "/bin/sh"


def _report(text: str, ended: Ended) -> str:
    lines = [text] if text else []
    if ended.left_count:
        plural = "" if ended.left_count == 1 else "es"
        lines.append(f"[killed at the end: {ended.left_count} process{plural} in the background]")
    if ended.exit_code < 0:
        number = -ended.exit_code
        lines.append(f"[killed by signal {number}: {signal.strsignal(number)}]")
    else:
        lines.append(f"[exit code {ended.exit_code}]")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).rstrip("\n")
