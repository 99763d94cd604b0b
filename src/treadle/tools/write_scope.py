"""What a yes to writing a file covers: its folder, the file as it is, and what would run it later.

Some files are run by other programs without anybody asking for it (`run_files.py`). Writing one of
them is asked about like a command, and no grant stands for it. What git would read is asked about
under every policy, as its path does not say so: commands cannot change it at all. Where the
workspace holds a home folder, everything that is written is asked about under every policy.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from treadle.core.approval import Scope
from treadle.core.messages import SeenFile
from treadle.core.tools import RewrittenFile, RiskLevel, ToolErrorKind
from treadle.risk.run_files import runs_by_itself
from treadle.sandbox.git_includes import why_git_runs
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.files import Written, content_of
from treadle.tools.function_tool import Arguments
from treadle.tools.line_digests import digest_lines
from treadle.tools.paths import Root
from treadle.tools.syntax_remark import describe_syntax
from treadle.tools.tool_return import ToolReturn


def risk_of_writing(arguments: Arguments) -> RiskLevel:
    """High for a file that other programs run by themselves, as far as its path says so."""
    return risk_of_path(arguments["path"])


def risk_of_path(path: str) -> RiskLevel:
    """The risk of writing a file of this path."""
    return RiskLevel.HIGH if runs_by_itself(path)[0] else RiskLevel.MEDIUM


def scope_of_writing(arguments: Arguments, context: ToolContext) -> Scope:
    """What a yes to writing this file covers. As `scope_of_path`."""
    return scope_of_path(arguments["path"], context)


def scope_of_path(path: str, context: ToolContext) -> Scope:
    """What a yes to writing the file of this path covers.

    A file in the workspace itself is a kind of its own; any other stands for its folder. One that
    links lead to is told by where it really is.

    Raises:
        ToolFailure: the path leads outside; the call will fail by itself.
        OSError: the file cannot be read.
    """
    root = context.workspace
    name = _real_name(root, path)
    if root.rules.hides(root.path / name):
        return Scope(refused=_why_refused(root, path))
    place, why = runs_by_itself(name)
    if not place:
        place, why = why_git_runs(Path(os.path.realpath(root.path / name)), os.environ)
    folder = name.rpartition("/")[0]
    kinds = (f"{folder}/" if folder else name,)
    reasons = [f"programs run what is in {place} without being asked: {why}"] if place else []
    if root.rules.why_wide:
        reasons.insert(0, root.rules.why_wide)
    if name != _plain(root.relative(path)):
        reasons.append(f"the path leads to {name}")
    return Scope(
        reasons=tuple(reasons),
        kinds=() if place else kinds,
        ground=sha256(os.fsencode(root.path)).hexdigest(),
        content=content_of(root, path),
        must_ask=bool(root.rules.why_wide) or (bool(place) and not runs_by_itself(path)[0]),
        file=name,
    )


def make_write_result(written: Written, text: str) -> ToolReturn:
    """What a tool returns that wrote a file: a text, and what a later yes is measured by.

    The text says besides if the file does not parse.
    """
    rewritten = RewrittenFile(written.name, written.before, written.after)
    remark = describe_syntax(written)
    output = f"{text}\n{remark}" if remark else text
    seen = SeenFile(written.name, written.after, lines=digest_lines(written.new))
    return ToolReturn(output, (written.name,), (rewritten,), (seen,))


def _why_refused(root: Root, path: str) -> str:
    """Why a hidden path is refused, in the words of the refusal itself."""
    try:
        with root.locate(path):
            return f"{path} is hidden from tools"
    except ToolFailure as failure:
        return failure.message


def _plain(path: str) -> str:
    return os.path.normpath(path)


def _real_name(root: Root, path: str) -> str:
    """The name relative to the root without links; need not exist."""
    real = os.path.realpath(root.path / root.relative(path))
    name = os.path.relpath(real, root.path)
    if name.split("/")[0] == "..":
        raise ToolFailure(ToolErrorKind.PATH_OUTSIDE_WORKSPACE, path)
    return name
