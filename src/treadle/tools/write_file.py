"""The tool that writes whole files."""

from __future__ import annotations

from treadle.core.tools import EffectClass, RiskLevel
from treadle.tools.files import overwrite
from treadle.tools.known_files import refuse_unseen
from treadle.tools.registry import ToolContext, ToolReturn, tool
from treadle.tools.write_scope import make_write_result, risk_of_writing, scope_of_writing


@tool(
    effect=EffectClass.MUTATE,
    risk=RiskLevel.MEDIUM,
    risk_of=risk_of_writing,
    scope_of=scope_of_writing,
)
def write_file(context: ToolContext, path: str, content: str) -> ToolReturn:
    """Write a whole file, replacing what it held; missing folders are made.

    The content is written exactly as given, as UTF-8. To change a part of a file, use edit_file.

    Args:
        context: The workspace.
        path: The file, relative to the workspace.
        content: All of the new content.
    """
    root, data = context.workspace, content.encode()

    def check(digest: str, old: bytes | None) -> None:
        refuse_unseen(context.sightings, root.name_of(path), digest, old)

    written = overwrite(root, path, data, check)
    was = "" if written.size_before is None else f" (was {written.size_before})"
    return make_write_result(written, f"wrote {written.name}, {written.size} bytes{was}")
