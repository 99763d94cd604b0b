"""What was entered is kept across sessions, whatever befalls the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.terminal import history as module
from treadle.terminal.history import ENTRY_LENGTH_MAX, InputHistory

HOSTILE = ["two\nlines", "漢字 🦕 \x1b[2J", '"quoted" \\ back', "half \ud83d", " spaced "]


def test_entries_of_any_kind_come_back_in_order(tmp_path: Path) -> None:
    history = InputHistory(tmp_path / "new" / "history")
    for text in HOSTILE:
        history.append(text)
    wanted = [text.encode(errors="replace").decode() for text in HOSTILE]
    assert InputHistory(tmp_path / "new" / "history").read() == wanted


def test_the_file_is_the_persons_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        InputHistory(tmp_path / "new" / "history").append("text")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "history").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_what_says_nothing_or_too_much_is_not_kept(tmp_path: Path) -> None:
    history = InputHistory(tmp_path / "history")
    for text in ("", " \n", "x" * (ENTRY_LENGTH_MAX + 1)):
        history.append(text)
    history.append("kept")
    assert history.read() == ["kept"]


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"first"\n{"not": "text"}\n\xff\xfe\n"second"\n"cut of')
    assert InputHistory(path).read() == ["first", "second"]
    InputHistory(path).append("third")
    assert InputHistory(path).read() == ["first", "second", "third"]


def test_only_the_newest_stay_and_the_file_is_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 10)
    history = InputHistory(tmp_path / "history")
    for number in range(45):
        history.append(f"entry {number}")
        assert history.read()[-1] == f"entry {number}"
        assert len((tmp_path / "history").read_bytes().splitlines()) < 20
    assert history.read() == [f"entry {number}" for number in range(35, 45)]
    assert [one.name for one in tmp_path.iterdir()] == ["history"]
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600


APPENDING = """
import sys
from pathlib import Path
from treadle.terminal import history
history.ENTRIES_MAX = 50
for number in range(300):
    history.InputHistory(Path(sys.argv[1])).append(f"{sys.argv[2]} {number}")
"""


def test_terminals_that_append_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"
    ends = [subprocess.Popen([sys.executable, "-c", APPENDING, str(path), name]) for name in "abc"]
    assert [one.wait() for one in ends] == [0, 0, 0]
    entries = InputHistory(path).read()
    assert len(entries) >= 50
    for name in "abc":  # the file is shortened all the time, but never by an entry in between
        kept = [entry for entry in entries if entry[0] == name]
        assert kept == [f"{name} {number}" for number in range(300 - len(kept), 300)]


def test_a_file_that_cannot_be_read_or_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "below", Path("/proc/nothing/here")):
        history = InputHistory(path)
        history.append("text")
        assert history.read() == []
