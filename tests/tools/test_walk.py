"""What is ignored is what git would ignore; git itself is asked."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from treadle.tool_failure import ToolFailure
from treadle.tools.paths import Root
from treadle.tools.walk import walk

GIT_ENV = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}


def files(folder: Path, start: str = ".", depth: int | None = None) -> list[str]:
    return [entry.path for entry in walk(Root(folder), start, depth=depth)]


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def git_files(folder: Path) -> list[str]:
    argv = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    return sorted(
        subprocess.check_output(argv, cwd=folder, env=GIT_ENV, text=True).split("\0")[:-1]
    )


NAMES = ["a", "b", "ab", "a.c", "b.c", ".d", "a b"]
PIECES = ["a", "b", "*", "?", "[ab]", "[!a]", "*.c", ".d", "**", "a*", "*b", r"\a", "a b"]


def some_rules(choose: random.Random) -> str:
    lines = []
    for _ in range(choose.randint(1, 4)):
        pattern = "/".join(choose.choices(PIECES, k=choose.choice([1, 1, 2, 3])))
        begin = choose.choice(["", "", "", "!", "!", "/", "!/"])
        lines.append(begin + pattern + choose.choice(["", "", "", "/", " ", "\r"]))
    return "\n".join([*lines, choose.choice(["# comment", "", "\\#x", "!"])])


@pytest.mark.skipif(not shutil.which("git"), reason="git says what is right")
def test_the_same_files_are_left_out_as_by_git(tmp_path: Path) -> None:
    subprocess.check_call(["git", "init", "-q", tmp_path], env=GIT_ENV)
    wrong = []
    for seed in range(60):
        choose = random.Random(seed)
        tree = tmp_path / "tree"
        folders = ["tree"]
        for _ in range(choose.randint(3, 25)):
            parts = choose.choices(NAMES, k=choose.randint(1, 4))
            name = "tree/" + "/".join(parts)
            is_free = not any((tmp_path / parent).is_file() for parent in Path(name).parents)
            if is_free and not (tmp_path / name).exists():
                make(tmp_path, name)
                folders.append(str(Path(name).parent))
        for folder in choose.sample(folders, k=min(3, len(folders))):
            (tmp_path / folder / ".gitignore").write_text(some_rules(choose))
        (tmp_path / ".gitignore").write_text(some_rules(choose))
        expected = git_files(tmp_path)
        if sorted(files(tmp_path)) != expected:
            wrong.append((seed, set(files(tmp_path)) ^ set(expected)))
        inside = [name.removeprefix("tree/") for name in expected if name.startswith("tree/")]
        if inside and sorted(files(tree)) != inside:
            wrong.append((seed, "from above", set(files(tree)) ^ set(inside)))
        shutil.rmtree(tree)
    assert wrong == []


def test_rules_need_no_git_and_stop_at_the_workspace_without_one(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    make(tmp_path, "ws/a.log", "ws/b.log", "ws/c", "ws/sub/d.tmp", "ws/sub/e")
    (tmp_path / "ws/.gitignore").write_text("b.*\n*.tmp\n")
    assert files(tmp_path / "ws") == [".gitignore", "a.log", "c", "sub/e"]


def test_the_order_is_by_component(tmp_path: Path) -> None:
    make(tmp_path, "a/z", "a-b/y", "a.c", "B", "ä")
    assert files(tmp_path) == ["B", "a/z", "a-b/y", "a.c", "ä"]


def test_the_repository_itself_is_left_out_at_any_depth(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", "sub/.git/config", "sub/a", "worktree/.git", ".github/b")
    assert files(tmp_path) == [".github/b", "sub/a"]


def test_links_are_named_but_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "ws/sub/a", "outside/b")
    (tmp_path / "ws/in").symlink_to("sub")
    (tmp_path / "ws/out").symlink_to("../outside")
    (tmp_path / "ws/self").symlink_to(".")
    entries = list(walk(Root(tmp_path / "ws")))
    assert [entry.path for entry in entries] == ["in", "out", "self", "sub/a"]
    assert [entry.is_regular for entry in entries] == [False, False, False, True]


def test_a_folder_that_is_asked_for_is_walked_even_if_it_is_ignored(tmp_path: Path) -> None:
    make(tmp_path, "node_modules/x/a.js", "node_modules/x/b.log")
    (tmp_path / ".gitignore").write_text("node_modules/\n*.log\n")
    assert files(tmp_path) == [".gitignore"]
    assert files(tmp_path, "node_modules/x") == ["node_modules/x/a.js"]


def test_the_last_level_shows_its_folders(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c", "a/d", "e")
    found = [(entry.path, entry.is_folder) for entry in walk(Root(tmp_path), depth=1)]
    assert found == [("a", True), ("e", False)]
    assert files(tmp_path, depth=2) == ["a/b", "a/d", "e"]
    assert files(tmp_path, "a", depth=1) == ["a/b", "a/d"]


def test_strange_ignore_files_do_no_harm(tmp_path: Path) -> None:
    make(tmp_path, "a/x", "b/x", "c/x", "d/x\udcff", "d/y")
    os.mkfifo(tmp_path / "a/.gitignore")
    (tmp_path / "b/.gitignore").mkdir()
    (tmp_path / "c/.gitignore").symlink_to("/etc/passwd")
    (tmp_path / "d/.gitignore").write_bytes(
        b"\xef\xbb\xbfx\xff\r\n[\n**\\\n!\n/\n//\n[[:nonsense:]]"
    )
    assert files(tmp_path) == [
        "a/.gitignore",
        "a/x",
        "b/x",
        "c/.gitignore",
        "c/x",
        "d/.gitignore",
        "d/y",
    ]


def test_folders_deeper_than_any_path_are_left_out(tmp_path: Path) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("very_deep_folder", dir_fd=place)
        inner = os.open("very_deep_folder", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
        os.close(os.open("file", os.O_CREAT, dir_fd=place))
    os.close(place)
    assert len(files(tmp_path)) == 4095 // len("very_deep_folder/")


def test_where_to_begin_must_be_a_folder_inside(tmp_path: Path) -> None:
    make(tmp_path, "a")
    for start in ("..", "a", "missing"):
        with pytest.raises(ToolFailure):
            files(tmp_path, start)
