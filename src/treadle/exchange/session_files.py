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
from treadle.exchange.json_lines import (
    FILE_SIZE_MAX,
    LINE_SIZE_MAX,
    JsonLine,
    parse_json,
    read_lines,
)
from treadle.exchange.session_steps import ImportedSession

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

_ConvertLines: TypeAlias = Callable[[Iterable[JsonLine], str, Counter[str]], list[ImportedSession]]

_LINE_FORMATS: Final[Mapping[str, tuple[Callable[..., bool], _ConvertLines]]] = MappingProxyType(
    {
        claude_code.SOURCE: (claude_code.is_session_data, claude_code.convert_lines),
        codex.SOURCE: (codex.is_session_data, codex.convert_lines),
        gemini.SOURCE: (gemini.is_session_data, gemini.convert_lines),
        pi.SOURCE: (pi.is_session_data, pi.convert_lines),
    }
)

_ConvertValue: TypeAlias = Callable[[object, str, Counter[str]], list[ImportedSession]]
_VALUE_FORMATS: Final[Mapping[str, tuple[Callable[[object], bool], _ConvertValue]]] = (
    MappingProxyType(
        {
            gemini.SOURCE: (gemini.is_session_data, gemini.convert_value),
            opencode.SOURCE: (opencode.is_session_data, opencode.convert_value),
            trajectories.SOURCE: (trajectories.is_session_data, trajectories.convert_value),
        }
    )
)

SOURCES: Final = (*dict.fromkeys((*_LINE_FORMATS, *_VALUE_FORMATS)), TREADLE)
"""The programs whose files are known."""

FORMATS: Final = (
    "sessions of Claude Code, Codex CLI, Gemini CLI and Pi (JSON Lines), `opencode export`, "
    "trajectories of SWE-agent and mini-swe-agent (.traj, .traj.json), exported journals"
)


class SessionFile(Struct, frozen=True):
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


def find_session_files(folder: Path) -> Iterator[Path]:
    """The files in a folder and all below it that may be sessions, sorted."""
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(SUFFIXES) and name != _PROMPTS_ONLY:
                yield Path(root, name)


def identify_file(path: Path) -> SessionFile:
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
            return SessionFile(path, TREADLE)
    if path.suffix in WHOLE_SUFFIXES:
        value = _read_value(path)
        known = (source for source, (is_one, _) in _VALUE_FORMATS.items() if is_one(value))
        return SessionFile(path, next(known, ""), is_one_value=True)
    for line in islice(_read_file_lines(path, Counter()), _HEAD_COUNT):
        for source, (is_one, _) in _LINE_FORMATS.items():
            if line.fields is not None and is_one(line.fields):
                return SessionFile(path, source)
    return SessionFile(path)


def read_sessions(found: SessionFile) -> list[ImportedSession]:
    """The sessions of a file of another program.

    Raises:
        UsageError: it is not one of a program that is known here.
        OSError: it cannot be read.
    """
    if found.source not in (_VALUE_FORMATS if found.is_one_value else _LINE_FORMATS):
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
        return _VALUE_FORMATS[found.source][1](_read_value(found.path), stem, faults)
    convert = _LINE_FORMATS[found.source][1]
    return convert(_read_file_lines(found.path, faults), stem, faults)


def _read_file_lines(path: Path, faults: Counter[str]) -> Iterator[JsonLine]:
    with path.open("rb") as file:
        pieces = iter(lambda: file.readline(LINE_SIZE_MAX + 1), b"")
        yield from read_lines(pieces, faults)


def _has_long_line(path: Path) -> bool:
    """Whether one stands where it is looked whose file it is."""
    with path.open("rb") as file:
        return any(
            len(file.readline(LINE_SIZE_MAX + 1)) > LINE_SIZE_MAX for _ in range(_HEAD_COUNT)
        )


def _read_value(path: Path) -> object:
    """What a file of JSON holds; nothing if it is none, as one that is half written."""
    try:
        return parse_json(path.read_bytes().decode("utf-8-sig", "replace"))
    except ValueError:
        return None
