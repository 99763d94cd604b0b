"""Listing: short answers, and plain words where something is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from treadle.core.tools import ToolErrorKind
from treadle.tools.list_files import ENTRY_COUNT_MAX

TREE = ["README.md", "src/a.py", "src/b.txt", "src/deep/c.py", "build/out.py", ".git/config"]


@pytest.fixture(autouse=True)
def tree(folder: Path) -> None:
    for name in TREE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".gitignore").write_text("build/\n")


@for_every_row(
    "options, shown",
    [
        ({}, [".gitignore", "README.md", "src/a.py", "src/b.txt", "src/deep/c.py"]),
        ({"depth": 1}, [".gitignore", "README.md", "src/"]),
        ({"path": "src"}, ["src/a.py", "src/b.txt", "src/deep/c.py"]),
        ({"path": "src", "depth": 1}, ["src/a.py", "src/b.txt", "src/deep/"]),
        ({"pattern": "*.py"}, ["src/a.py", "src/deep/c.py"]),
        ({"pattern": "*.{md,txt}"}, ["README.md", "src/b.txt"]),
        ({"path": "src", "pattern": "/*.py"}, ["src/a.py"]),
        ({"path": "build"}, ["build/out.py"]),
        ({"pattern": "*.rs"}, ["[no files]"]),
    ],
)
async def test_the_files_asked_for_are_listed(
    succeed: Any, options: dict[str, Any], shown: list[str]
) -> None:
    assert await succeed("list_files", **options) == "\n".join(shown)


async def test_a_long_list_says_that_it_stopped(succeed: Any, folder: Path) -> None:
    (folder / "many").mkdir()
    for number in range(ENTRY_COUNT_MAX):
        (folder / f"many/{number:04}").touch()
    *_, last = (await succeed("list_files", path="many")).split("\n")
    assert last == f"many/{ENTRY_COUNT_MAX - 1:04}"
    (folder / "many/zzz").touch()
    *names, remark = (await succeed("list_files", path="many")).split("\n")
    assert len(names) == ENTRY_COUNT_MAX
    assert remark == f"[stopped after {ENTRY_COUNT_MAX} files: there are more]"


async def test_a_file_is_not_a_folder(fail: Any) -> None:
    expected = (ToolErrorKind.FAILED, "README.md: a part of the path is not a folder")
    assert await fail("list_files", path="README.md") == expected
    assert await fail("list_files", path="no") == (ToolErrorKind.FILE_NOT_FOUND, "no")
