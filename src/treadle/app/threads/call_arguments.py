"""The arguments of a call as its tool takes them, for whoever shows, changes or judges the call.

Models give some arguments under other names than ours, or in other types, and the tools take them
(`tools/argument_names.py`). Who looks at the text alone would not see what the call does.
"""

from __future__ import annotations

from typing import Any, Final

from treadle.core.messages import ToolCall
from treadle.core.tool_families import FILE_CHANGES, ToolKind, kind_of
from treadle.thread.question_text import read_object

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(
        ("path", "content", "pattern", "glob", "command", "cwd", "access", "input"), str
    ),
    **dict.fromkeys(("start_line", "end_line", "depth"), int),
    **dict.fromkeys(("network", "outside"), bool),
    "timeout_s": (int, float),
    "edits": list,
}
"""The names and types that the built-in tools have; what fits them is as it is taken."""
_EDIT: Final = frozenset({"old_str", "new_str", "replace_all"})


def read_arguments(call: ToolCall) -> dict[str, Any] | None:
    """The arguments as an object, as the tool takes them; `None` if they are no object.

    Those of a tool that is not built in, and those that no tool takes, are as they were written.
    """
    arguments = read_object(call.arguments_json)
    if arguments is None or _fits(arguments):
        return arguments
    # Only here: a list of threads shows calls, and need not load what runs them.
    from treadle.tools.argument_names import ArgumentConflictError
    from treadle.tools.builtin import find_builtin_tool

    tool = find_builtin_tool(call.tool_name)
    try:
        adapted: dict[str, Any] = arguments if tool is None else tool.signature.adapt(arguments)
    except ArgumentConflictError:
        return arguments
    return adapted


def list_written_paths(call: ToolCall) -> list[str]:
    """The paths that a call of a tool which changes files by itself would write, as it has them.

    Empty if it is none, or if nobody can tell, because it will fail.
    """
    kind = kind_of(call.tool_name)
    arguments = (read_arguments(call) or {}) if kind in FILE_CHANGES else {}
    if kind is ToolKind.PATCH:
        from treadle.tool_failure import ToolFailure
        from treadle.tools.patch_format import list_patch_paths, parse_patch

        try:
            return list_patch_paths(parse_patch(str(arguments.get("input", ""))))
        except ToolFailure:
            return []
    path = arguments.get("path")
    return [path] if isinstance(path, str) else []


def _fits(arguments: dict[str, Any]) -> bool:
    if not all(isinstance(value, _TYPES.get(name, ())) for name, value in arguments.items()):
        return False
    edits = arguments.get("edits", ())
    return all(isinstance(one, dict) and one.keys() <= _EDIT for one in edits)
