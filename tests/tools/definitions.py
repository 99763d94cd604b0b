"""What models are told of the built-in tools; `make fmt` writes it to builtin_tools.json."""

from __future__ import annotations

import sys

import msgspec

from treadle.tools.builtin import builtin_tools


def format_definitions() -> bytes:
    """All that models are told of the tools, as JSON with a line for each value."""
    definitions = [tool.definition for tool in builtin_tools()]
    return msgspec.json.format(msgspec.json.encode(definitions)) + b"\n"


def list_path_tools() -> list[str]:
    """The built-in tools that are told a path, by name."""
    return [
        tool.definition.name
        for tool in builtin_tools()
        if any("path" in argument for argument in tool.definition.input_schema["properties"])
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(format_definitions())
