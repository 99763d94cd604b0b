"""The arguments of a call as its tool takes them, for whoever shows, changes or judges the call.

Models give some arguments under other names than ours, or in other types, and the tools take them
(`tools/argument_names.py`). Who looks at the text alone would not see what the call does.
"""

from __future__ import annotations

from typing import Any, Final

from treadle.app.threads.question_text import read_object
from treadle.core.messages import ToolCall

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("path", "content", "pattern", "glob", "command", "cwd", "access"), str),
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
    from treadle.tools.builtin import builtin_tools

    for tool in builtin_tools():
        if tool.definition.name == call.tool_name:
            try:
                adapted: dict[str, Any] = tool.signature.adapt(arguments)
            except ArgumentConflictError:
                return arguments
            return adapted
    return arguments


def _fits(arguments: dict[str, Any]) -> bool:
    if not all(isinstance(value, _TYPES.get(name, ())) for name, value in arguments.items()):
        return False
    edits = arguments.get("edits", ())
    return all(isinstance(one, dict) and one.keys() <= _EDIT for one in edits)
