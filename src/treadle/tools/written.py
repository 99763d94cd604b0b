"""What a yes to writing a file covers: its folder, the file as it is, and what would run it later.

Some files are run by other programs without anybody asking for it: a hook of git, a task of an
editor, what a shell reads when it starts. Writing one of them is asked about like a command, and no
grant stands for it.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from treadle.core.approval import Scope
from treadle.core.tools import Rewritten, RiskLevel, ToolErrorKind
from treadle.tools.failure import ToolFailure
from treadle.tools.files import Written, content_of
from treadle.tools.paths import Root
from treadle.tools.registry import Arguments, ToolContext, ToolReturn

RUN_FOLDERS: Final = frozenset(
    {".git", ".githooks", ".husky", ".idea", ".treadle", ".vscode", ".devcontainer"}
)
"""Folders out of which programs are run by git, editors and Treadle itself."""
RUN_FILES: Final = frozenset(
    {".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".envrc", ".gitconfig"}
    | {".gitmodules", ".pre-commit-config.yaml", ".profile", ".zlogin", ".zprofile", ".zshenv"}
    | {".zshrc"}
)
"""Files that are run, or name what is run, when a folder is entered or a commit is made."""


def risk_of_writing(arguments: Arguments) -> RiskLevel:
    """High for a file that other programs run by themselves, as far as its path says so."""
    return RiskLevel.HIGH if _run_by(arguments["path"]) else RiskLevel.MEDIUM


def scope_of_writing(arguments: Arguments, context: ToolContext) -> Scope:
    """What a yes to writing this file covers.

    A file in the workspace itself is a kind of its own; any other stands for its folder. One that
    links lead to is told by where it really is.

    Raises:
        ToolFailure: the path leads outside; the call will fail by itself.
        OSError: the file cannot be read.
    """
    root, path = context.workspace, arguments["path"]
    name = _real_name(root, path)
    place = _run_by(name)
    folder = name.rpartition("/")[0]
    kinds = (f"{folder}/" if folder else name,)
    reasons = [f"programs run what is in {place} without being asked"] if place else []
    if name != _plain(root.relative(path)):
        reasons.append(f"the path leads to {name}")
    return Scope(
        reasons=tuple(reasons),
        kinds=() if place else kinds,
        ground=sha256(os.fsencode(root.path)).hexdigest(),
        content=content_of(root, path),
        must_ask=bool(place) and not _run_by(path),
        file=name,
    )


def told(written: Written, text: str) -> ToolReturn:
    """What a tool returns that wrote a file: a text, and what a later yes is measured by."""
    rewritten = Rewritten(written.name, written.before, written.after)
    return ToolReturn(text, (written.name,), (rewritten,))


def _run_by(path: str) -> str:
    """The folder or the file on the path that other programs run; empty if there is none.

    The case of letters does not matter, as it does not on some file systems.
    """
    *folders, name = PurePosixPath(path).parts or ("",)
    for folder in folders:
        if folder.casefold() in RUN_FOLDERS:
            return f"{folder}/"
    return name if name.casefold() in RUN_FILES | RUN_FOLDERS else ""


def _plain(path: str) -> str:
    return os.path.normpath(path)


def _real_name(root: Root, path: str) -> str:
    """The name relative to the root without links; need not exist."""
    real = os.path.realpath(root.path / root.relative(path))
    name = os.path.relpath(real, root.path)
    if name.split("/")[0] == "..":
        raise ToolFailure(ToolErrorKind.PATH_OUTSIDE_WORKSPACE, path)
    return name
