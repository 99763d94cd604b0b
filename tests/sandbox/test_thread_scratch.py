"""The folder of a thread: kept between commands, named to them, never part of the workspace."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Level, Policy
from treadle.sandbox.thread_scratch import (
    UNUSED_S_MAX,
    find_old_scratch,
    make_scratch,
    remove_old_scratch,
    scratch_of,
)
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

WORKING: Final = [name for name in BACKENDS if find_backend((name,)).name]
THREAD: Final = "T-01a0aab2-bd2c-7ace-9c62-6563802125d0"
OTHER: Final = "T-01a0aab2-bd2c-7ace-9c62-6563802125d1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    (made / "ws").mkdir(parents=True)
    (made / "secret").write_text("SECRET")
    monkeypatch.setenv("HOME", str(made))
    subprocess.run(["git", "-C", str(made / "ws"), "init", "-q"], check=True)
    return made


@pytest.fixture
def base(home: Path) -> str:
    return str(home / ".cache/treadle/scratch")


def tools(home: Path, base: str, backend: str, level: Level = Level.WORKSPACE_WRITE) -> Registry:
    sandbox = Sandbox(Policy(level), home / "ws", backends=(backend,))
    sandbox.keep_scratch(scratch_of(base, THREAD))
    return Registry(builtin_tools(), workspace=home / "ws", sandbox=sandbox)


def names_in(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


async def run(registry: Registry, name: str, **arguments: object) -> Outcome:
    call = ToolCall("c", name, json.dumps(arguments))
    return await registry.execute(call, key="c", progress=lambda report: None)


async def shown(registry: Registry, command: str, access: str = "write") -> str:
    outcome = await run(registry, "bash", command=command, access=access)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


@pytest.mark.parametrize("backend", WORKING)
async def test_what_one_command_keeps_the_next_finds_and_those_that_read_leave_it(
    home: Path, base: str, backend: str
) -> None:
    registry = tools(home, base, backend)
    assert "exit code 0" in await shown(registry, 'echo "print(7)" > "$TREADLE_SCRATCH/repro.py"')
    for access in ("read", "write"):
        said = await shown(registry, 'python3 "$TREADLE_SCRATCH/repro.py"', access)
        assert said == "7\n[exit code 0]"
    said = await shown(registry, 'echo x >> "$TREADLE_SCRATCH/repro.py"', "read")
    assert "exit code 0" not in said
    again = tools(home, base, backend)
    assert (
        await shown(again, 'cat "$TREADLE_SCRATCH/repro.py"', "read") == "print(7)\n[exit code 0]"
    )
    assert names_in(home / "ws") == [".git"]


@pytest.mark.parametrize("backend", WORKING)
async def test_no_command_reaches_the_folder_of_another_thread(
    home: Path, base: str, backend: str
) -> None:
    other = Path(scratch_of(base, OTHER))
    make_scratch(str(other))
    (other / "log").write_text("theirs")
    registry = tools(home, base, backend)
    for access in ("read", "write"):
        said = await shown(registry, f"cat '{other}/log'; echo x > '{other}/new'", access)
        assert "theirs" not in said
    for command in ('rm -rf "$TREADLE_SCRATCH"', 'mv "$TREADLE_SCRATCH" "$TREADLE_SCRATCH.x"'):
        await shown(registry, command)
    assert names_in(base) == [THREAD, OTHER]
    assert names_in(other) == ["log"]


async def test_without_a_sandbox_the_variable_names_it_too(home: Path, base: str) -> None:
    registry = tools(home, base, "bubblewrap", Level.OFF)
    assert await shown(registry, 'echo "$TREADLE_SCRATCH"') == f"{base}/{THREAD}\n[exit code 0]"
    await shown(registry, 'echo kept > "$TREADLE_SCRATCH/log"')
    assert await shown(registry, 'cat "$TREADLE_SCRATCH/log"') == "kept\n[exit code 0]"


async def test_file_tools_take_its_name_and_nothing_of_the_workspace_has_changed(
    home: Path, base: str
) -> None:
    registry = tools(home, base, "bubblewrap")
    written = await run(
        registry, "write_file", path="$TREADLE_SCRATCH/a/repro.py", content="x = 1\n"
    )
    assert isinstance(written, ToolExecutionOutcome.Success), written
    assert written.changed == ()
    for path in ("$TREADLE_SCRATCH/a/repro.py", f"{base}/{THREAD}/a/repro.py"):
        outcome = await run(registry, "read_file", path=path)
        assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
        assert outcome.output == "x = 1\n"
    arguments = json.dumps({"path": "${TREADLE_SCRATCH}/repro.py", "content": ""})
    scope = registry.scope_of(ToolCall("c", "write_file", arguments))
    inside = registry.scope_of(ToolCall("c", "write_file", arguments.replace("${", "./{")))
    assert scope is not None
    assert inside is not None
    assert scope.file == f"{base}/{THREAD}/repro.py"
    assert scope.ground != inside.ground, "a grant for the workspace is none for it"
    assert names_in(home / "ws") == [".git"]


async def test_no_path_leads_out_of_it(home: Path, base: str) -> None:
    registry = tools(home, base, "bubblewrap")
    scratch = Path(scratch_of(base, THREAD))
    make_scratch(str(scratch))
    (scratch / "link").symlink_to(home / "secret")
    (scratch / "folder").symlink_to(home)
    for path in ("../../../../secret", "link", "folder/secret", "../x/../../../../secret"):
        for name, more in (("read_file", {}), ("write_file", {"content": "lost"})):
            outcome = await run(registry, name, path=f"$TREADLE_SCRATCH/{path}", **more)
            assert isinstance(outcome, ToolExecutionOutcome.Error), (path, outcome)
            assert "SECRET" not in outcome.error.text
    assert (home / "secret").read_text() == "SECRET"


def test_a_link_in_its_place_is_not_used(home: Path, base: str) -> None:
    Path(base).mkdir(parents=True)
    path = scratch_of(base, THREAD)
    Path(path).symlink_to(home)
    assert not make_scratch(path)
    assert scratch_of(base, "../../x") == ""
    assert scratch_of("", THREAD) == ""


def test_folders_of_threads_that_are_gone_or_unused_go_and_no_others(base: str) -> None:
    kept, gone, old = (THREAD[:-1] + end for end in "012")
    for name in (kept, gone, old):
        make_scratch(scratch_of(base, name))
        Path(scratch_of(base, name), "log").write_text("12345")
    shut = Path(scratch_of(base, gone), "shut")
    shut.mkdir()
    (shut / "file").write_text("67")
    shut.chmod(0o000)
    (Path(base) / "T-mine").mkdir()
    now_s = Path(scratch_of(base, kept)).stat().st_mtime
    os.utime(scratch_of(base, old), (now_s, now_s - UNUSED_S_MAX - 1))
    found = find_old_scratch(base, now_s, lambda one: one != gone)
    assert [Path(one.path).name for one in found] == [gone, old]
    assert remove_old_scratch(base, now_s, lambda _: True, [found[0].path]) == ()
    removed = remove_old_scratch(base, now_s, lambda one: one != gone, (one.path for one in found))
    assert [one.path for one in removed] == [one.path for one in found]
    assert names_in(base) == [kept, "T-mine"]
