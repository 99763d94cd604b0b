"""The tool that lists files."""

from __future__ import annotations

import os
import time
from typing import Annotated, Final

from msgspec import Meta

from treadle.core.tools import EffectClass, RiskLevel
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.globs import make_filter
from treadle.tools.walk import walk

ENTRY_COUNT_MAX: Final = 500
"""Names in one answer; more are noise to a model, which should ask more precisely."""
LIST_S_MAX: Final = 20.0
"""Seconds of looking; a network folder with millions of files must not hold up the turn."""


def check_listing(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `list_files` would of a folder that it cannot open."""
    make_filter(context.workspace.name_of(arguments["path"]), arguments["pattern"])
    os.close(context.workspace.open_folder(arguments["path"]))


@tool(effect=EffectClass.READ, risk=RiskLevel.LOW, check=check_listing)
def list_files(
    context: ToolContext,
    path: str = ".",
    pattern: str = "**",
    depth: Annotated[int, Meta(ge=1)] | None = None,
) -> str:
    """List files beneath a folder, one a line, sorted, relative to the workspace.

    What .gitignore leaves out is not listed, nor is .git.

    Args:
        context: The workspace.
        path: The folder, relative to the workspace.
        pattern: Which files: `*.py` at any depth, `src/**/*.{ts,tsx}` relative to the folder.
        depth: How many levels to go down; folders of the last level are listed with a slash at
            the end. 1 gives an overview. By default all levels.
    """
    matches = make_filter(context.workspace.name_of(path), pattern)
    deadline = time.monotonic() + LIST_S_MAX
    lines: list[str] = []
    for entry in walk(context.workspace, path, depth=depth):
        if time.monotonic() > deadline:
            lines.append(f"[stopped after {LIST_S_MAX:g} s: ask for fewer]")
            break
        if not matches(entry.path):
            continue
        if len(lines) == ENTRY_COUNT_MAX:
            lines.append(f"[stopped after {ENTRY_COUNT_MAX} files: there are more]")
            break
        lines.append(f"{entry.path}/" if entry.is_folder else entry.path)
    return "\n".join(lines) or "[no files]"
