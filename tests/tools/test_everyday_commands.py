"""What a person is asked of a day's work: nothing of what only looks, all of what may last."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from tools.everyday_commands import list_reading, list_writing
from treadle.config.approval_modes import APPROVAL_MODES
from treadle.core.approval import OnlyRead
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import Access
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

WORKING: Final = tuple(name for name in BACKENDS if find_backend((name,)).name)
SAMPLE_STEP: Final = 12
"""Of the commands that are run, each so-manieth is in each change; all are under torture."""
CONFIG: Final = AgentConfig(tools=tuple(tool.definition for tool in builtin_tools()))

DAY: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("bash", {"command": "git status"}),
    ("bash", {"command": "git log --oneline -10"}),
    ("list_files", {"path": "."}),
    ("read_file", {"path": "app.py"}),
    ("bash", {"command": "grep -rn add ."}),
    ("bash", {"command": "git blame app.py"}),
    ("read_file", {"path": "tests/test_app.py"}),
    ("bash", {"command": "python3 -m unittest discover -s tests"}),
    ("search_files", {"pattern": "add"}),
    ("bash", {"command": "git diff HEAD~1"}),
    ("edit_file", {"path": "app.py", "old_text": "a - b", "new_text": "a + b"}),
    ("bash", {"command": "git diff"}),
    ("bash", {"command": "python3 -m unittest discover -s tests"}),
    ("bash", {"command": "python3 -c 'import app; print(app.add(1, 2))'"}),
    ("edit_file", {"path": "tests/test_app.py", "old_text": "2", "new_text": "3"}),
    ("bash", {"command": "python3 -m unittest discover -s tests"}),
    ("bash", {"command": "ruff check ."}),
    ("bash", {"command": "ruff format .", "access": "write"}),
    ("bash", {"command": "git diff --stat"}),
    ("bash", {"command": "ls tests"}),
    ("bash", {"command": "wc -l app.py"}),
    ("bash", {"command": "find . -name '*.md'"}),
    ("read_file", {"path": "README.md"}),
    ("write_file", {"path": "CHANGES.md", "content": "- add adds\n"}),
    ("bash", {"command": "git status --short"}),
    ("bash", {"command": "mypy app.py"}),
    ("bash", {"command": "cat package.json"}),
    ("bash", {"command": "make -n test"}),
    ("bash", {"command": "make test", "access": "write"}),
    ("bash", {"command": "git log -3 --stat"}),
    ("bash", {"command": "git show HEAD"}),
    ("read_file", {"path": "app.py"}),
    ("bash", {"command": "head -20 app.py"}),
    ("bash", {"command": "sed -n '1,5p' app.py"}),
    ("bash", {"command": "python3 -m unittest -q tests.test_app"}),
    ("bash", {"command": "git diff"}),
    ("bash", {"command": "git add -A", "access": "write"}),
    ("bash", {"command": "git commit -m 'add adds'", "access": "write"}),
    ("bash", {"command": "git log --oneline -2"}),
    ("bash", {"command": "git status"}),
)
"""The calls of a session in which a small bug is mended."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small project under git."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "app.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "tests/test_app.py").write_text("import unittest\n")
    (folder / "tests/__init__.py").touch()
    (folder / "package.json").write_text('{"name": "app", "scripts": {"build": "true"}}\n')
    (folder / "Makefile").write_text("test:\n\tpython3 -m unittest\n")
    for command in ("init -q", "add -A", "-c user.name=n -c user.email=e commit -qm one"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def make_registry(workspace: Path) -> Registry:
    return Registry(
        builtin_tools(), workspace=workspace, sandbox=Sandbox(Policy(), workspace, backends=WORKING)
    )


def make_call(command: str, access: str) -> ToolCall:
    return ToolCall("c", "bash", json.dumps({"command": command, "access": access}))


def list_asked_modes(registry: Registry, call: ToolCall) -> set[str]:
    """The modes in which a person is asked about the call."""
    risk, scope = registry.risk_of(call), registry.scope_of(call)
    return {
        mode
        for mode, policy in APPROVAL_MODES.items()
        if replace(CONFIG, approval=policy).make_question(call, risk, scope) is not None
    }


def fingerprint(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file of a folder: its content, mode and time of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (content, status.st_mode, status.st_mtime_ns)
    return found


def test_no_command_that_looks_is_asked_about_in_any_mode(workspace: Path) -> None:
    registry, misses = make_registry(workspace), []
    assert len({*list_reading()}) + len({*list_writing()}) >= 226
    for command in list_reading():
        call = make_call(command, "read")
        scope = registry.scope_of(call)
        assert scope is not None
        if asked := list_asked_modes(registry, call):
            misses.append(f"{command}: asked about in {asked}")
        if scope.access is not Access.READ or scope.refused:
            misses.append(f"{command}: {scope}")
    assert misses == []


def test_every_command_that_writes_is_asked_about_and_refused_in_plan_mode(
    workspace: Path,
) -> None:
    registry, misses = make_registry(workspace), []
    config = replace(CONFIG, approval=OnlyRead())
    for command in list_writing():
        call = make_call(command, "write")
        scope = registry.scope_of(call)
        assert scope is not None
        asked = list_asked_modes(registry, call)
        if not {"ask", "auto-edit"} <= asked or "plan" in asked:
            misses.append(f"{command}: asked about in {asked}")
        if config.access_of(call, scope) is not Access.WRITE:
            misses.append(f"{command}: {scope}")
    assert misses == []


async def find_changes(workspace: Path, commands: Iterable[str]) -> list[str]:
    """The commands that changed the workspace although they had said that they only read."""
    registry, misses = make_registry(workspace), []
    before = fingerprint(workspace)
    for command in commands:
        await registry.execute(make_call(command, "read"), key="k", progress=lambda _: None)
        if (after := fingerprint(workspace)) != before:
            misses.append(command)
            before = after
    return misses


async def test_whatever_is_said_to_read_changes_nothing(workspace: Path) -> None:
    commands = [*list_reading(), *list_writing()][::SAMPLE_STEP]
    assert await find_changes(workspace, commands) == []


@pytest.mark.torture
async def test_no_everyday_command_that_is_said_to_read_changes_anything(workspace: Path) -> None:
    assert await find_changes(workspace, [*list_reading(), *list_writing()]) == []


def test_of_a_session_of_forty_calls_a_person_is_asked_about_what_lasts(workspace: Path) -> None:
    registry, asked = make_registry(workspace), Counter[str]()
    assert len(DAY) == 40
    for name, arguments in DAY:
        call = ToolCall("c", name, json.dumps(arguments))
        asked.update(list_asked_modes(registry, call))
    # Three changes of files and four commands that write. Before commands said what they need,
    # each of the 31 was asked about: 34 questions in `ask`, 31 in `auto-edit`.
    assert asked == {"ask": 7, "auto-edit": 4}
