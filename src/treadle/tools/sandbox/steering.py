"""What the settings of git lead to: files that they include, and the folder of hooks they name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from treadle import helper_programs

_WANTED: Final = r"^(core\.hookspath|include\.path|includeif\..*\.path)$"
_READ_S_MAX: Final = 5.0
_COUNT_MAX: Final = 50
"""Files of settings that lead to each other."""
_known: Final[dict[tuple[str, int, int, int], tuple[tuple[str, str], ...]]] = {}


def steered_by(settings: Path, root: Path) -> Iterator[tuple[str, bool]]:
    """Absolute paths, each with whether it is a folder of hooks; also those that are not there.

    Args:
        settings: a file of git's settings.
        root: the work tree, which hooks run in.
    """
    todo, seen = [settings], {settings}
    while todo and len(seen) < _COUNT_MAX:
        file = todo.pop()
        for key, value in _read(file):
            if key == "core.hookspath":
                folder = _expanded(value, root)
                # What husky has in `_` calls what lies beside it.
                yield str(folder.parent if folder.name == "_" else folder), True
            else:
                included = _expanded(value, file.parent)
                yield str(included), False
                if included not in seen:
                    seen.add(included)
                    todo.append(included)


def own_settings(environ: dict[str, str]) -> list[Path]:
    """The files of settings that hold for every repository of this person."""
    home = environ.get("HOME", "/")
    at = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    own = environ.get("GIT_CONFIG_GLOBAL")
    names = [own] if own else [f"{home}/.gitconfig", f"{at}/git/config"]
    return [Path(name) for name in ("/etc/gitconfig", *names)]


def _expanded(value: str, base: Path) -> Path:
    return Path(os.path.normpath(os.path.join(base, os.path.expanduser(value))))  # noqa: PTH111, PTH118


def _read(file: Path) -> tuple[tuple[str, str], ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    version = str(file), found.st_ino, found.st_mtime_ns, found.st_size
    if version not in _known:
        _known[version] = tuple(_asked(file))
    return _known[version]


def _asked(file: Path) -> Iterator[tuple[str, str]]:
    program = helper_programs.find_program("git")
    if program is None:
        return
    command = (program, "config", "--file", str(file), "--no-includes", "-z", "--get-regexp")
    try:
        said = subprocess.run(
            (*command, _WANTED),
            cwd="/",
            env=helper_programs.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_READ_S_MAX,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for setting in filter(None, said.split(b"\0")):
        key, _, value = os.fsdecode(setting).partition("\n")
        # Of the key of a condition only the last part is sure to be in small letters.
        yield key.lower(), value
