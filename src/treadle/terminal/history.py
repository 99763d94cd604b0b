"""What was entered, across sessions: one file that several terminals append to.

Each line is one entry as a JSON string. A line that cannot be read is passed over. The file is the
person's alone (0600).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

ENTRIES_MAX: Final = 10_000
"""That many are kept; the file is shortened when it has twice as many lines."""

ENTRY_LENGTH_MAX: Final = 100_000
"""Longer entries, in characters, are not kept."""


class InputHistory:
    """The entries of one file. A file that cannot be read or written is none: nothing raises."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[str]:
        """All entries, the oldest first."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return []
        return _entries(data)[-ENTRIES_MAX:]

    def append(self, text: str) -> None:
        """Keep an entry: one write, behind what others have written."""
        if not text.strip() or len(text) > ENTRY_LENGTH_MAX:
            return
        line = msgspec.json.encode(text.encode(errors="replace").decode()) + b"\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._open()
            try:
                if _ends_within_a_line(file):
                    line = b"\n" + line
                os.write(file, line)
                self._shorten(file)
            finally:
                os.close(file)

    def _open(self) -> int:
        """The file that stands at the path, locked until it is closed."""
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), self._path.stat()):
                    return file
            os.close(file)  # another terminal has put a shorter one in its place

    def _shorten(self, file: int) -> None:
        if os.fstat(file).st_size < 2 * ENTRIES_MAX * len('"/help"\n'):
            return  # cannot have that many lines worth the reading
        entries = _entries(self._path.read_bytes())
        if len(entries) < 2 * ENTRIES_MAX:
            return
        shorter = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        target = os.open(shorter, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(target, "wb") as stream:
            stream.writelines(msgspec.json.encode(e) + b"\n" for e in entries[-ENTRIES_MAX:])
        shorter.replace(self._path)


def _ends_within_a_line(file: int) -> bool:
    """Whether a write of another was cut off, by a full disk or a death."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _entries(data: bytes) -> list[str]:
    entries = []
    for line in data.splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            entries.append(msgspec.json.decode(line, type=str))
    return entries
