"""The tool that writes whole files."""

from __future__ import annotations

from treadle.core.tools import EffectClass, RiskLevel
from treadle.tools.context import ToolContext
from treadle.tools.files import Check, check_overwrite, overwrite
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.known_files import refuse_unseen
from treadle.tools.tool_return import ToolReturn
from treadle.tools.write_scope import make_write_result, risk_of_writing, scope_of_writing


def check_writing(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `write_file` would."""
    path = arguments["path"]
    check_overwrite(context.workspace, path, _make_check(context, path))


def _make_check(context: ToolContext, path: str) -> Check:
    def check(digest: str, old: bytes | None) -> None:
        refuse_unseen(context.sightings, context.workspace.name_of(path), digest, old)

    return check


@tool(
    effect=EffectClass.MUTATE,
    risk=RiskLevel.MEDIUM,
    risk_of=risk_of_writing,
    scope_of=scope_of_writing,
    check=check_writing,
)
def write_file(context: ToolContext, path: str, content: str) -> ToolReturn:
    """Write a whole file, replacing what it held; missing folders are made.

    The content is written exactly as given, as UTF-8. To change a part of a file, use edit_file.

    Args:
        context: The workspace.
        path: The file, relative to the workspace.
        content: All of the new content.
    """
    written = overwrite(context.workspace, path, content.encode(), _make_check(context, path))
    was = "" if written.size_before is None else f" (was {written.size_before})"
    return make_write_result(written, f"wrote {written.name}, {written.size} bytes{was}")
