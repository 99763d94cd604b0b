"""The tools that come with Treadle."""

from __future__ import annotations

from treadle.tools.background_command import background_command
from treadle.tools.bash import bash
from treadle.tools.edit_file import edit_file
from treadle.tools.list_files import list_files
from treadle.tools.plan import plan
from treadle.tools.read_file import read_file
from treadle.tools.registry import AnyTool
from treadle.tools.search_files import search_files
from treadle.tools.web_fetch import web_fetch
from treadle.tools.write_file import write_file


def builtin_tools() -> tuple[AnyTool, ...]:
    """All of them, in the order in which models are told of them; they need a workspace."""
    files = (read_file, list_files, search_files, edit_file, write_file)
    return (*files, bash, background_command, web_fetch, plan)
