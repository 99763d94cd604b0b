"""The settings of one repository, while a command may write some of them.

A person has said yes to settings that a question named. After the command, a file in which
anything else has changed, or that has come to name a program, is as it was before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from treadle.risk.settings import Setting
from treadle.sandbox.git_settings import may_be_written, read_settings
from treadle.sandbox.protected import Protected, is_in
from treadle.sandbox.put_back import Copies


def files_to_open(protected: Protected, folder: str) -> tuple[str, ...]:
    """The settings of the repository that a command in a folder works in, and of its submodules."""
    files = [one for one in protected.shut if Path(one).name == "config"]
    of_folder = [
        str(Path(above, ".git", "config")) for above in (Path(folder), *Path(folder).parents)
    ]
    nearest = next((one for one in of_folder if one in files), None)
    if nearest is None:
        return ()
    modules = str(Path(nearest).with_name("modules"))
    return (nearest, *(one for one in files if is_in(one, modules)))


class OpenSettings:
    """Files of settings as they were before the command.

    Args:
        files: absolute paths.
        allowed: what a person said yes to.

    Raises:
        ToolFailure: the files are too large to be kept safe.
    """

    def __init__(self, files: Iterable[str], allowed: tuple[Setting, ...]) -> None:
        self._allowed: Final = allowed
        self._before: Final = {file: (read_settings(Path(file)), Copies([file])) for file in files}

    def put_back(self) -> list[str]:
        """Put back what was written besides; the paths, each with why."""
        said = []
        for file, (before, copies) in self._before.items():
            if why := self._judge(before, read_settings(Path(file))):
                said += [f"{path} ({why})" for path in copies.restore()]
        return said

    def _judge(
        self, before: list[tuple[str, str]] | None, after: list[tuple[str, str]] | None
    ) -> str:
        if before is None or after is None:
            return "it cannot be read"
        added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
        for key, value in added:
            if not may_be_written(key, value):
                return f"{key} can make git run programs, or leads it elsewhere"
        for key, _ in (*added, *removed):
            if not any(one.covers(key) for one in self._allowed):
                return f"nobody was asked about {key}"
        return ""
