"""The person's own editor writes a text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.errors import UsageError
from treadle.terminal.editor import edit_text, find_editor


def test_visual_comes_before_editor_and_both_may_have_arguments() -> None:
    both = {"VISUAL": "code --wait", "EDITOR": "nano"}
    assert find_editor(both) == ["code", "--wait"]
    assert find_editor({"VISUAL": " ", "EDITOR": "'my editor' -x"}) == ["my editor", "-x"]
    assert find_editor({}) == ["vi"]


Use = Callable[[str], None]


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes a shell script the editor."""

    def use(script: str) -> None:
        path = tmp_path / "editor"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(path))

    return use


def test_what_the_editor_leaves_is_the_text(use: Use, tmp_path: Path) -> None:
    use(f'cp "$1" {tmp_path}/seen; echo "$1" > {tmp_path}/name; printf "new\\n漢\\n" > "$1"')
    assert edit_text("old\ntext") == "new\n漢"
    assert (tmp_path / "seen").read_text() == "old\ntext"
    assert not Path((tmp_path / "name").read_text().strip()).exists()


def test_an_editor_that_fails_leaves_the_text(use: Use) -> None:
    use('echo garbage > "$1"; exit 1')
    assert edit_text("old") == "old"


def test_bytes_that_are_no_text_are_marked(use: Use) -> None:
    use("printf 'a\\377b' > \"$1\"")
    assert edit_text("") == "a\N{REPLACEMENT CHARACTER}b"


def test_an_editor_that_deletes_the_file_leaves_the_text(use: Use) -> None:
    use('rm "$1"')
    assert edit_text("old") == "old"


def test_an_editor_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/ed -x")
    with pytest.raises(UsageError, match="the editor /nowhere/ed cannot be started"):
        edit_text("")


def test_a_variable_that_is_no_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "vi 'unclosed")
    with pytest.raises(UsageError, match="VISUAL"):
        edit_text("")
