"""A file that is not there is answered with those that may have been meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from treadle.core.tools import ToolErrorKind
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.near_names import ENTRY_COUNT_MAX, NEAR_COUNT_MAX, find_near_names
from treadle.tools.paths import Root
from treadle.tools.registry import Registry

NAMES = (
    "README.md",
    "src/app/server.py",
    "src/app/settings.py",
    "src/lib/server.py",
    "tests/test_server.py",
    "web/index.tsx",
    "web/Button/Button.tsx",
    "ignored/server.py",
    ".git/config",
)


@pytest.fixture
def full(folder: Path) -> Path:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".gitignore").write_text("ignored/\n")
    return folder


@for_every_row(
    "asked, near",
    [
        ("server.py", ["src/app/server.py", "src/lib/server.py"]),
        ("lib/server.py", ["src/lib/server.py", "src/app/server.py"]),
        ("project/src/app/server.py", ["src/app/server.py", "src/lib/server.py"]),
        ("readme.md", ["README.md"]),
        ("src/app/Server.py", ["src/app/server.py", "src/lib/server.py"]),
        ("src/app/sever.py", ["src/app/server.py", "src/lib/server.py"]),
        ("src/app/setting.py", ["src/app/settings.py"]),
        ("web/index.ts", ["web/index.tsx"]),
        ("web/button/button.jsx", ["web/Button/Button.tsx"]),
        ("config", []),
        ("nothing/like/it.rs", []),
        ("server.py/", ["src/app/server.py", "src/lib/server.py"]),
        ("..", []),
        ("x" * 300, []),
    ],
)
def test_the_likest_stand_first_and_what_is_ignored_is_not_told(
    full: Path, asked: str, near: list[str]
) -> None:
    assert find_near_names(Root(full), asked)[: len(near) or None] == near


@for_every_row(
    "tool, more", [("read_file", {}), ("edit_file", {"edits": [{"old_str": "a", "new_str": "b"}]})]
)
async def test_both_tools_tell_it(fail: Any, full: Path, tool: str, more: dict[str, Any]) -> None:
    kind, message = await fail(tool, path="README", **more)
    assert (kind, message) == (ToolErrorKind.FILE_NOT_FOUND, "README; there is README.md")
    kind, message = await fail(tool, path="server.py", **more)
    assert message == "server.py; there are src/app/server.py, src/lib/server.py"


async def test_a_path_of_another_machine_is_answered_with_the_file_of_that_name_here(
    fail: Any, full: Path
) -> None:
    kind, message = await fail("read_file", path="/testbed/src/lib/server.py")
    assert kind is ToolErrorKind.PATH_OUTSIDE_WORKSPACE
    assert message.endswith("; there are src/lib/server.py, src/app/server.py")
    kind, message = await fail("read_file", path="/etc/servers.py")
    assert message == "/etc/servers.py"


async def test_what_is_hidden_is_not_told(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(full))
    (full / ".ssh").mkdir()
    (full / ".ssh" / "id_rsa").write_text("secret")
    box = Sandbox(Policy(), full)
    registry = Registry(builtin_tools(), workspace=Root(full, rules=box.rules))
    root = registry._root
    assert root is not None
    assert find_near_names(root, "id_rsa") == []


def test_so_many_files_are_looked_at_and_so_many_names_told(folder: Path) -> None:
    for number in range(NEAR_COUNT_MAX + 3):
        (folder / f"d{number}").mkdir()
        (folder / f"d{number}" / "same.py").touch()
    assert len(find_near_names(Root(folder), "same.py")) == NEAR_COUNT_MAX
    assert ENTRY_COUNT_MAX == 20_000
