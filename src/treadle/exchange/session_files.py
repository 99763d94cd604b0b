"""The session files among files: which program wrote one, and what sessions it holds.

Programs are told apart by what a file holds, not by its name. Only regular files are opened, and
links to folders are not followed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct

from treadle.errors import UsageError
from treadle.exchange import claude_code, codex, gemini, opencode, pi, trajectories
from treadle.exchange.lines import (
    FILE_SIZE_MAX,
    LINE_SIZE_MAX,
    Line,
    parse,
    read_lines,
)
from treadle.exchange.steps import Session

TREADLE: Final = "treadle"
SUFFIXES: Final = (".jsonl", ".json", ".traj")
WHOLE_SUFFIXES: Final = (".json", ".traj")
"""Files that are one JSON value."""

_HEAD_COUNT: Final = 50
"""Lines that are looked at to tell whose file it is."""

_JOURNAL: Final = b'{"seq":1,"at":"'
"""How a journal begins."""

_PROMPTS_ONLY: Final = "logs.json"
"""A file of Gemini CLI that says less than its neighbours: taken when it is named, not searched."""

_Convert: TypeAlias = Callable[[Iterable[Line], str, Counter[str]], list[Session]]

_PROGRAMS: Final[Mapping[str, tuple[Callable[..., bool], _Convert]]] = MappingProxyType(
    {
        claude_code.SOURCE: (claude_code.is_one, claude_code.convert),
        codex.SOURCE: (codex.is_one, codex.convert),
        gemini.SOURCE: (gemini.is_one, gemini.convert),
        pi.SOURCE: (pi.is_one, pi.convert),
    }
)

_ConvertWhole: TypeAlias = Callable[[object, str, Counter[str]], list[Session]]
_WHOLE: Final[Mapping[str, tuple[Callable[[object], bool], _ConvertWhole]]] = MappingProxyType(
    {
        gemini.SOURCE: (gemini.is_one, gemini.convert_whole),
        opencode.SOURCE: (opencode.is_one, opencode.convert_whole),
        trajectories.SOURCE: (trajectories.is_one, trajectories.convert_whole),
    }
)

SOURCES: Final = (*dict.fromkeys((*_PROGRAMS, *_WHOLE)), TREADLE)
"""The programs whose files are known."""

FORMATS: Final = (
    "sessions of Claude Code, Codex CLI, Gemini CLI and Pi (JSON Lines), `opencode export`, "
    "trajectories of SWE-agent and mini-swe-agent (.traj, .traj.json), exported journals"
)


class Found(Struct, frozen=True):
    """A file, and the program that wrote it; none if it is not known here."""

    path: Path
    source: str = ""
    is_one_value: bool = False


def default_folders(source: str, environment: Mapping[str, str], home: Path) -> list[Path]:
    """Where a program keeps its sessions.

    Args:
        source: the program.
        environment: its own variables move the folder.
        home: the home folder.
    """
    if source == claude_code.SOURCE:
        return [Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]
    if source == codex.SOURCE:
        root = Path(environment.get("CODEX_HOME") or home / ".codex")
        return [root / "sessions", root / "archived_sessions"]
    if source == gemini.SOURCE:
        return [home / ".gemini" / "tmp"]
    if source == pi.SOURCE:
        root = Path(environment.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
        return [root / "sessions"]
    return []


def search(folder: Path) -> Iterator[Path]:
    """The files in a folder and all below it that may be sessions, sorted."""
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(SUFFIXES) and name != _PROMPTS_ONLY:
                yield Path(root, name)


def look_at(path: Path) -> Found:
    """Whose file it is.

    Raises:
        UsageError: it is no regular file, or too large.
        OSError: it cannot be read.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(f"{path} is no regular file")
    if about.st_size > FILE_SIZE_MAX:
        raise UsageError(
            f"{path} has {about.st_size} bytes; up to {FILE_SIZE_MAX} are imported",
            hint="it may hold something else than a session; split it if it does not",
        )
    with path.open("rb") as file:
        if file.read(len(_JOURNAL)) == _JOURNAL:
            return Found(path, TREADLE)
    if path.suffix in WHOLE_SUFFIXES:
        value = _value_of(path)
        known = (source for source, (is_one, _) in _WHOLE.items() if is_one(value))
        return Found(path, next(known, ""), is_one_value=True)
    for line in islice(_lines_of(path, Counter()), _HEAD_COUNT):
        for source, (is_one, _) in _PROGRAMS.items():
            if line.fields is not None and is_one(line.fields):
                return Found(path, source)
    return Found(path)


def sessions_of(found: Found) -> list[Session]:
    """The sessions of a file of another program.

    Raises:
        UsageError: it is not one of a program that is known here.
        OSError: it cannot be read.
    """
    if found.source not in (_WHOLE if found.is_one_value else _PROGRAMS):
        if not (found.source or found.is_one_value) and _has_long_line(found.path):
            raise UsageError(
                f"{found.path} has a line of more than {LINE_SIZE_MAX} bytes, which is not read",
                hint="one JSON value is read whole, in a file whose name ends in .json or .traj",
            )
        raise UsageError(
            f"{found.path} is no session of a program that is known here",
            hint=f"known are: {FORMATS}",
        )
    faults: Counter[str] = Counter()
    stem = found.path.name.removesuffix(found.path.suffix)
    if found.is_one_value:
        return _WHOLE[found.source][1](_value_of(found.path), stem, faults)
    convert = _PROGRAMS[found.source][1]
    return convert(_lines_of(found.path, faults), stem, faults)


def _lines_of(path: Path, faults: Counter[str]) -> Iterator[Line]:
    with path.open("rb") as file:
        pieces = iter(lambda: file.readline(LINE_SIZE_MAX + 1), b"")
        yield from read_lines(pieces, faults)


def _has_long_line(path: Path) -> bool:
    """Whether one stands where it is looked whose file it is."""
    with path.open("rb") as file:
        return any(
            len(file.readline(LINE_SIZE_MAX + 1)) > LINE_SIZE_MAX for _ in range(_HEAD_COUNT)
        )


def _value_of(path: Path) -> object:
    """What a file of JSON holds; nothing if it is none, as one that is half written."""
    try:
        return parse(path.read_bytes().decode("utf-8-sig", "replace"))
    except ValueError:
        return None
