"""How a chat shows what calls have changed: as a diff, where it can be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from terminal.test_view import Scene, call, ended
from treadle import outputs
from treadle.core.approval import Question
from treadle.core.tools import (
    RiskLevel,
)


def test_an_edit_is_a_diff_with_the_numbers_of_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    edit = call("edit_file", path="a.py", edits=[{"old_str": "line 10\n", "new_str": "ten\n10\n"}])
    scene = Scene(folder=tmp_path)
    scene.show(outputs.ToolStarted(edit))
    file.write_text(file.read_text().replace("line 10\n", "ten\n10\n"))
    assert scene.show(ended(edit, "edited a.py")).splitlines() == [
        *("", "● edit_file a.py  +2 -1, 0.0 s", "   7   line 7", "   8   line 8"),
        *("   9   line 9", "  10 - line 10", "  10 + ten", "  11 + 10", "  12   line 11"),
        *("  13   line 12", "  14   line 13"),
    ]


def test_an_edit_that_cannot_be_checked_is_told_by_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("new and new\n")  # written before it was looked at
    edit = call("edit_file", path="a.py", edits=[{"old_str": "new", "new_str": "new and new"}])
    scene = Scene(folder=tmp_path)
    scene.show(outputs.ToolStarted(edit))
    assert scene.show(ended(edit, "edited")).splitlines()[1:] == [
        *("● edit_file a.py  +1 -1, 0.0 s", "  - new", "  + new and new")
    ]


def test_an_edit_that_somebody_else_wrote_over_is_told_by_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    edit = call("edit_file", path="a.py", edits=[{"old_str": "two", "new_str": "2"}])
    scene = Scene(folder=tmp_path)
    scene.show(outputs.ToolStarted(edit))
    (tmp_path / "a.py").write_text("theirs\n")
    assert scene.show(ended(edit, "edited")).splitlines()[2:] == ["  - two", "  + 2"]


def test_a_file_that_is_written_over_is_a_diff_and_a_new_one_is_all_new(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    scene = Scene(folder=tmp_path)
    for name in ("a.txt", "b.txt"):
        write = call("write_file", path=name, content="one\n2\n")
        scene.show(outputs.ToolStarted(write))
        (tmp_path / name).write_text("one\n2\n")
        scene.show(ended(write, "wrote"))
    assert scene.terminal.text().splitlines() == [
        *("", "● write_file a.txt  +1 -1, 0.0 s", "  1   one", "  2 - two", "  2 + 2"),
        *("", "● write_file b.txt  +2 -0, 0.0 s", "  1 + one", "  2 + 2"),
    ]


def test_a_long_diff_is_cut(tmp_path: Path) -> None:
    scene = Scene(folder=tmp_path)
    write = call("write_file", path="a.txt", content="".join(f"{n}\n" for n in range(100)))
    scene.show(outputs.ToolStarted(write))
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(100)))
    assert scene.show(ended(write, "wrote")).endswith("  40 + 39\n  … 60 more lines (Ctrl+O)\n")


@pytest.mark.parametrize("is_plain", [False, True], ids=["drawn", "plain"])
def test_a_change_is_shown_once_in_the_scrollback(tmp_path: Path, is_plain: bool) -> None:
    (tmp_path / "a.py").write_text("x\n")
    scene = Scene(folder=tmp_path, is_plain=is_plain)
    edit = call("edit_file", path="a.py", edits=[{"old_str": "x", "new_str": "y"}])
    diff = scene.view.preview_diff(Question(edit, RiskLevel.MEDIUM, "asked"))
    assert diff is not None
    assert "+y" in diff
    scene.show(outputs.ToolStarted(edit))
    (tmp_path / "a.py").write_text("y\n")
    lines = scene.show(ended(edit, "edited")).splitlines()
    # A plain terminal has printed the question, which stays there.
    assert ("  1 + y" in lines) != is_plain
    assert ("● edit_file a.py  +1 -1, 0.0 s" in lines) != is_plain
