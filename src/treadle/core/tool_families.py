"""The one place where tools have names: what each does, and what it is called for whom.

Models have learnt some shapes of the same tools. A family of models is offered ours in the shape
that it knows: other names, other arguments, an edit by itself instead of a list of them. Nothing
else differs, so a shape is data. It is chosen when a thread begins and recorded with its
configuration. Whoever looks at a call later knows its tool by the name alone, whatever the family:
a name means the same tool in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class ToolKind(Enum):
    """What one of the built-in tools does."""

    READ = "reads a file"
    LIST = "lists files"
    SEARCH = "searches files"
    EDIT = "replaces text in a file"
    WRITE = "writes a whole file"
    RUN = "runs a command"
    BACKGROUND = "looks after commands in the background"
    FETCH = "fetches a page"
    PLAN = "tells the plan"
    EXPLORE = "has a sub-agent find something out"
    DELEGATE = "hands a job to a sub-agent"


OWN_NAMES: Final[Mapping[ToolKind, str]] = MappingProxyType(
    {
        ToolKind.READ: "read_file",
        ToolKind.LIST: "list_files",
        ToolKind.SEARCH: "search_files",
        ToolKind.EDIT: "edit_file",
        ToolKind.WRITE: "write_file",
        ToolKind.RUN: "bash",
        ToolKind.BACKGROUND: "background_command",
        ToolKind.FETCH: "web_fetch",
        ToolKind.PLAN: "plan",
        ToolKind.EXPLORE: "explore",
        ToolKind.DELEGATE: "delegate",
    }
)
"""What we call them ourselves, which is what they are called where no family says otherwise."""

_KINDS: Final[Mapping[str, ToolKind]] = {name: kind for kind, name in OWN_NAMES.items()}

FILE_CHANGES: Final = frozenset({ToolKind.EDIT, ToolKind.WRITE})
"""What changes files by itself, without a command."""
COMMAND_NAME: Final = OWN_NAMES[ToolKind.RUN]
PERSONS_COMMAND: Final = "!"
"""What stands for a tool's name where a person runs a command."""


def kind_of(tool_name: str) -> ToolKind | None:
    """What a tool does, by what it is called; `None` if it is none of ours."""
    return _KINDS.get(tool_name)


def names_of(*kinds: ToolKind) -> frozenset[str]:
    """All names of the tools that do this, those of every family."""
    return frozenset(name for name, kind in _KINDS.items() if kind in kinds)
