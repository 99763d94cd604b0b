"""The tool that searches files; the work is done by `grep.py`, in another process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import msgspec

from treadle import helper_programs
from treadle.core.conversation import OUTPUT_PREFIX
from treadle.core.tools import EffectClass, RiskLevel, ToolErrorKind
from treadle.process.environment import clean_environment
from treadle.process.program import Cause, run
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.globs import expand_braces
from treadle.tools.grep import EXIT_BAD_PATTERN, Request
from treadle.tools.paths import Root, as_failure

SEARCH_S_MAX: Final = 20.0
"""Seconds for one search; 100,000 files need a few."""

# Isolated and without `site`, so that neither a `re.py` in the workspace nor a `.pth` file is run.
_HOMES: Final = [str(Path(__file__).parents[2]), str(Path(str(msgspec.__file__)).parents[1])]
_MAIN: Final = f"""\
import sys
sys.path += {_HOMES}
from treadle.tools.grep import main
sys.exit(main())
"""
_GREP: Final = (sys.executable, "-I", "-S", "-W", "ignore", "-c", _MAIN)


def check_search(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `search_files` would of a place that it cannot search."""
    if not arguments["path"].startswith(OUTPUT_PREFIX):
        expand_braces(arguments["glob"])
        _is_file(context.workspace, arguments["path"])


@tool(effect=EffectClass.READ, risk=RiskLevel.LOW, check=check_search)
async def search_files(
    context: ToolContext, pattern: str, path: str = ".", glob: str = "**"
) -> str:
    """Search text files for lines that match a regular expression.

    Answers with lines of the form `path:line: text`. What .gitignore leaves out is not searched,
    nor are binary files. Begin the pattern with (?i) to ignore case.

    Args:
        context: The workspace.
        pattern: A regular expression, in Python's syntax, for one line.
        path: The folder or file to search, relative to the workspace; `output:ID` for a result
            that was cut and says so.
        glob: Which files: `*.py` at any depth, `src/**/*.{ts,tsx}` relative to the folder.
    """
    return await _search(make_request(context.workspace, pattern, path, glob))


def make_request(root: Root, pattern: str, path: str = ".", glob: str = "**") -> Request:
    """What another process is to search, which sees the folder as it is when it gets there.

    Raises:
        ToolFailure: the path leads outside, to a hidden place or nowhere, or the glob is none.
    """
    expand_braces(glob)
    is_file = _is_file(root, path)
    ripgrep = helper_programs.find_program("rg")
    name = root.name_of(path)
    return Request(str(root.path), pattern, name, is_file, glob, ripgrep, root.rules)


async def search_output(data: bytes, name: str, pattern: str) -> str:
    """The lines of a kept output that match, as `search_files` gives those of files.

    Raises as that does.
    """
    # By a file and not by an argument, which everybody sees and whose size the system bounds.
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        return await _search(Request("/", pattern, name, text_fd=file.fileno()), file.fileno())


async def _search(request: Request, *pass_fds: int) -> str:
    found = bytearray()
    with as_failure("the search"):
        ended = await run(
            [*_GREP, msgspec.json.encode(request).decode()],
            cwd="/",
            env=clean_environment(helper_programs.environment()),
            timeout_s=SEARCH_S_MAX,
            sink=found.extend,
            pass_fds=pass_fds,
        )
    text = found.decode(errors="replace").removesuffix("\n")
    if ended.cause is Cause.CANCEL:
        raise ToolFailure(ToolErrorKind.CANCELLED, "the search was stopped", text)
    if ended.cause is Cause.TIMEOUT:
        remark = f"[stopped after {SEARCH_S_MAX:g} s: simplify the pattern, or search less]"
        return f"{text}\n{remark}" if text else remark
    if ended.exit_code == EXIT_BAD_PATTERN:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, text)
    if ended.exit_code:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the search failed", text)
    return text


def _is_file(root: Root, path: str) -> bool:
    try:
        os.close(root.open_file(path))
    except ToolFailure as failure:
        if failure.kind is ToolErrorKind.REJECTED:
            raise
        os.close(root.open_folder(path))  # raises what is wrong, if it is no folder either
        return False
    return True
