"""What a repository tells agents: its AGENTS.md files, from the root down to the working folder.

The convention is that of agents.md: the file nearest to the work wins, so it comes last. They are
read once, when a thread begins, and recorded with it: a resumed thread sends the same prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.workspace.bounded_files import find_repository_root, list_folders_up, read_within

FILE_NAME: Final = "AGENTS.md"

SIZE_MAX: Final = 32 * 1024
"""Bytes of all files together, the nearest first; the rest is left out, and people are told."""


class Instructions(Struct, frozen=True):
    """The text for the system prompt (empty if there is none), and what people should know."""

    text: str = ""
    notices: tuple[str, ...] = ()


def read_instructions(
    folder: str | Path, hides: Callable[[Path], bool] = lambda path: False
) -> Instructions:
    """The AGENTS.md files that hold for a folder. Never fails: what cannot be read is a notice.

    The nearest file gets its room first, because it wins; the text begins with that of the root.

    Args:
        folder: where the agent works. The root is the nearest folder above it that holds `.git`;
            without one only the folder itself is looked at.
        hides: whether a path is hidden from tools; no link is followed there.
    """
    here = Path(folder).resolve()
    root = find_repository_root(here)
    sections: list[str] = []
    notices: list[str] = []
    left = SIZE_MAX
    for path in _nearest_first(root, here):
        name = str(path.relative_to(root))
        try:
            if path.is_symlink() and hides(path):
                raise ValueError("it is a link to what is hidden from tools")
            data, is_cut = read_within(path, root, left)
        except (OSError, ValueError) as error:
            notices.append(f"{name} is not used: {error}")
            continue
        left -= len(data)
        text = data.decode(errors="replace" if not is_cut else "ignore").strip()
        if is_cut:
            what = "cut" if text else "left out"
            notices.append(f"{name} is {what}: all {FILE_NAME} files may have {SIZE_MAX} bytes")
        if text:
            sections.append(f"Instructions from {name}:\n\n{text}")
    return Instructions("\n\n".join(reversed(sections)), tuple(reversed(notices)))


def _nearest_first(root: Path, here: Path) -> Iterator[Path]:
    for folder in list_folders_up(root, here):
        path = folder / FILE_NAME
        if path.is_symlink() or path.exists():
            yield path
