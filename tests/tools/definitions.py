"""What models are told of the built-in tools; `make fmt` writes it to a file for each family."""

from __future__ import annotations

import sys

import msgspec

from treadle.core.tool_families import FILE_CHANGES, kind_of
from treadle.tools.builtin import OWN_TOOLS, builtin_tools

SHAPED = ("openai", "gemini")
"""The families that are told of other shapes than our own: each has a file `tools_NAME.json`."""


def format_definitions(family: str = "") -> bytes:
    """All that models of a family are told of the tools, as JSON with a line for each value."""
    definitions = [tool.definition for tool in builtin_tools(family)]
    return msgspec.json.format(msgspec.json.encode(definitions)) + b"\n"


def list_path_tools() -> list[str]:
    """The built-in tools that are told a path, by our own names; those in a patch count."""
    return [
        tool.definition.name
        for tool in OWN_TOOLS
        if any("path" in argument for argument in tool.definition.input_schema["properties"])
        or kind_of(tool.definition.name) in FILE_CHANGES
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(format_definitions(*sys.argv[1:]))
