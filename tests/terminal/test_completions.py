"""What stands at the cursor is completed: commands, and the files of a folder."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_time import GROWTH_MAX, growth
from treadle.app.files import file_names
from treadle.app.files.file_names import FileNames
from treadle.terminal.completions import complete_command, complete_file, find_mention, rank_paths
from treadle.terminal.ports import SlashCommand


async def _nothing(_: str) -> None: ...


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long this machine stands still, a listing is not given up, nor made anew."""
    monkeypatch.setattr(file_names, "LISTING_SECONDS_MAX", 60.0)
    monkeypatch.setattr(file_names, "FRESH_S", 3600.0)


COMMANDS = [
    SlashCommand("model", "another model", _nothing, argument="[NAME]"),
    SlashCommand("mode", "another mode", _nothing, argument="[MODE]"),
    SlashCommand("help", "what there is", _nothing),
]


def test_commands_are_completed_at_the_beginning_only() -> None:
    found = complete_command("/mo", COMMANDS)
    assert [(c.text, c.shown, c.words) for c in found] == [
        ("/model ", "/model [NAME]", "another model"),
        ("/mode ", "/mode [MODE]", "another mode"),
    ]
    assert [c.text for c in complete_command("/", COMMANDS)] == ["/model ", "/mode ", "/help"]
    for text in ("", "a /mo", "/mo ", "/x", "/model x", "//", "/mo\n"):
        assert complete_command(text, COMMANDS) == []


def test_the_command_that_stands_there_whole_comes_first() -> None:
    assert [c.text for c in complete_command("/mode", COMMANDS)] == ["/mode ", "/model "]


def test_a_mention_begins_with_an_at_sign_behind_a_blank() -> None:
    assert find_mention("see @src/a") == "src/a"
    assert find_mention("@") == ""
    assert find_mention('see @"two words') is None
    assert find_mention('see @"two') == "two"
    for text in ("ada@example.org", "@a ", "", "a\n"):
        assert find_mention(text) is None
    assert find_mention("a\n@b") == "b"


def test_the_likeliest_file_comes_first() -> None:
    paths = [
        "docs/calculator/notes.md",
        "src/calc.py",
        "src/local_calc.py",
        "very/long/way/to/calc.py",
        "cool/and/tiny",
        "README.md",
    ]
    assert rank_paths("calc", paths) == [
        "src/calc.py",
        "very/long/way/to/calc.py",
        "src/local_calc.py",
        "docs/calculator/notes.md",
    ]
    assert rank_paths("CLC", ["a/calc.py", "README.md"]) == ["a/calc.py"]
    assert rank_paths("", paths) == sorted(paths, key=lambda path: (len(path), path))


@settings(deadline=None)
@given(st.text("ab/.", max_size=6), st.lists(st.text("abc/.", min_size=1), max_size=20))
def test_what_is_found_has_the_letters_in_order(typed: str, paths: list[str]) -> None:
    found = rank_paths(typed, paths)
    pattern = re.compile(".*".join(map(re.escape, typed)))
    assert sorted(found) == sorted(path for path in paths if pattern.search(path))


def test_a_completed_file_is_a_word_quoted_if_it_has_blanks() -> None:
    [one] = complete_file("see @two", ["two words.txt"])
    assert (one.text, one.start) == ('@"two words.txt" ', 4)
    [one] = complete_file('see @"tw', ["two words.txt"])
    assert (one.text, one.start) == ('@"two words.txt" ', 4)
    [one] = complete_file("@a", ["a.py"])
    assert (one.text, one.start) == ("@a.py ", 0)
    assert complete_file("nothing", ["a.py"]) == []


def test_in_a_repository_the_files_are_those_that_git_shows(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "build").mkdir()
    names = ["a.py", "über.txt", "two words", "x.log", "build/out", "evil\x1b[2J"]
    for name in names:
        (tmp_path / name).write_text("")
    assert FileNames(tmp_path).list() == [".gitignore", "a.py", "two words", "über.txt"]
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "inner.py").write_text("")
    assert FileNames(sub).list() == ["inner.py"]


def test_without_git_hidden_files_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("b/c.py", "a.py", ".hidden/x", "b/.secret"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert FileNames(tmp_path).list() == ["a.py", "b/c.py"]


def test_a_folder_with_too_many_files_is_looked_at_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(file_names, "PATHS_MAX", 3)
    for number in range(9):
        (tmp_path / f"{number}").write_text("")
    assert FileNames(tmp_path).list() == ["0", "1", "2"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert FileNames(tmp_path).list() == ["0", "1", "2"]


def test_a_listing_is_kept_for_a_while(tmp_path: Path) -> None:
    files = FileNames(tmp_path)
    assert files.list() == []
    (tmp_path / "new").write_text("")
    assert files.list() == []
    assert FileNames(tmp_path).list() == ["new"]


def test_what_a_search_costs_grows_with_the_files_and_with_their_names() -> None:
    paths = [f"package{number % 100}/module_{number}/source_file.py" for number in range(50_000)]
    slow = {
        "pkgmodsrc": growth(
            lambda: rank_paths("pkgmodsrc", paths), lambda: rank_paths("pkgmodsrc", paths[:12_500])
        )
    }
    for typed in ("a" * 8 + "b", "ab" * 40, "a" * 10_000):
        long, short = ["a" * 400] * 1000, ["a" * 100] * 1000
        assert rank_paths(typed, long) == []
        # One that fits almost could be tried in as many ways as there are letters.
        slow[typed] = growth(lambda: rank_paths(typed, long), lambda: rank_paths(typed, short))  # noqa: B023
    assert {typed[:9]: times for typed, times in slow.items() if times > GROWTH_MAX} == {}


@settings(deadline=None)
@given(st.characters(exclude_categories=["Cs"]))
def test_no_character_that_is_typed_has_a_meaning_of_its_own(typed: str) -> None:
    assert rank_paths(typed, [f"x{typed}y"]) == [f"x{typed}y"]


def test_a_git_that_does_not_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (bin_ / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_) + os.pathsep + os.environ["PATH"])
    monkeypatch.setattr(file_names, "LISTING_SECONDS_MAX", 1.0)
    (tmp_path / "a.py").write_text("")
    assert FileNames(tmp_path).list() == ["a.py", "bin/git"]
