"""The tools that come with Treadle, in the shape of each family of models."""

from __future__ import annotations

from functools import cache
from typing import Final

from treadle.core.tool_families import (
    DEFAULT_FAMILY,
    OWN_NAMES,
    OfferedTool,
    find_family,
    find_shape,
)
from treadle.tools.apply_patch import apply_patch
from treadle.tools.background_command import background_command
from treadle.tools.bash import bash
from treadle.tools.edit_file import edit_file
from treadle.tools.function_tool import AnyTool
from treadle.tools.list_files import list_files
from treadle.tools.plan import plan
from treadle.tools.read_file import read_file
from treadle.tools.search_files import search_files
from treadle.tools.web_fetch import web_fetch
from treadle.tools.write_file import write_file

OWN_TOOLS: Final[tuple[AnyTool, ...]] = (
    *(read_file, list_files, search_files),
    *(edit_file, write_file, apply_patch),
    *(bash, background_command, web_fetch, plan),
)
"""All of them, in our own shapes."""
_BY_NAME: Final = {tool.definition.name: tool for tool in OWN_TOOLS}


def builtin_tools(family: str = DEFAULT_FAMILY) -> tuple[AnyTool, ...]:
    """Those of a family of models, in the order in which models are told of them.

    They need a workspace. A family that nobody knows is the default one.
    """
    return tuple(map(_shape_tool, find_family(family).tools))


@cache
def find_builtin_tool(name: str) -> AnyTool | None:
    """The tool that is called so in any family, which takes the arguments that it has in each."""
    shape = find_shape(name)
    is_tool = shape is not None and OWN_NAMES[shape.kind] in _BY_NAME
    return _shape_tool(shape) if shape is not None and is_tool else None


def _shape_tool(shape: OfferedTool) -> AnyTool:
    tool = _BY_NAME[OWN_NAMES[shape.kind]]
    is_own = shape == OfferedTool(shape.kind, tool.definition.name)
    return tool if is_own else tool.offered_as(shape)
