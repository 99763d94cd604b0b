"""A thread offers its tools in the shape that its first model knows, and keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.test_model_wiring import chat, configure, journal_of, local
from cli.test_real_models import Shell
from models.loopback import Loopback, Seen, stream

PATCH = """\
*** Begin Patch
*** Update File: calc.py
@@
+TWO = 2
*** Add File: new.txt
+new
*** End Patch"""
WORK: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "openai": [
        ("update_plan", {"plan": [{"step": "Write", "status": "in_progress"}]}),
        ("shell_command", {"command": "cat calc.py", "workdir": ".", "timeout_ms": 9000}),
        ("apply_patch", {"input": PATCH}),
    ],
    "gemini": [
        ("write_todos", {"todos": [{"description": "Write", "status": "in_progress"}]}),
        ("run_shell_command", {"command": "cat calc.py", "description": "Look"}),
        ("read_file", {"file_path": "calc.py"}),
        ("list_directory", {"dir_path": "."}),
        ("glob", {"pattern": "*.py"}),
        ("grep_search", {"pattern": "def", "include_pattern": "*.py"}),
        (
            "replace",
            {"file_path": "calc.py", "old_string": "def ", "new_string": "TWO = 2\n\n\ndef "},
        ),
        ("write_file", {"file_path": "new.txt", "content": "new\n"}),
    ],
    "claude": [
        ("read_file", {"path": "calc.py"}),
        (
            "edit_file",
            {"path": "calc.py", "edits": [{"old_str": "def ", "new_str": "TWO = 2\n\n\ndef "}]},
        ),
        ("write_file", {"path": "new.txt", "content": "new\n"}),
    ],
}


@pytest.fixture
def shell(repository: Path, environment: dict[str, str]) -> Shell:
    return Shell(repository, environment)


def settings_of(server: Loopback, families: dict[str, str], default: str) -> str:
    """A provider of this machine for each name, whose models are of a family."""
    tables = "".join(
        f"{local(name, server)}{f'family = {json.dumps(family)}' if family else ''}\n\n"
        for name, family in families.items()
    )
    return f'[models]\ndefault = "{default}:m"\n\n{tables}'


def head_of(request: Seen) -> tuple[Any, Any]:
    """What stands before all messages: the system prompt and the tools."""
    return request.json["messages"][0], request.json["tools"]


@pytest.mark.parametrize("family", WORK)
async def test_a_model_works_with_the_tools_that_its_family_knows(
    shell: Shell, family: str, repository: Path
) -> None:
    calls = [stream(chat("", ((f"call_{n}", *call),))) for n, call in enumerate(WORK[family])]
    async with Loopback(*calls, stream(chat("Done."))) as server:
        configure(shell.environment, settings_of(server, {"one": family}, "one"))
        done = await shell("-p", "go", "--approval-mode", "auto", "--no-commit")
    assert (done.code, done.stdout) == (0, "Done.\n"), done.stderr
    assert "TWO = 2" in (repository / "calc.py").read_text()
    assert (repository / "new.txt").read_text() == "new\n"
    offered = {tool["function"]["name"] for tool in server.requests[0].json["tools"]}
    assert {name for name, _ in WORK[family]} <= offered
    results = [one for one in server.requests[-1].json["messages"] if one["role"] == "tool"]
    assert len(results) == len(WORK[family])
    assert not [one["content"] for one in results if one["content"].startswith("ERROR")]
    shown = (await shell("show", journal_of(shell.environment).stem)).stdout
    assert "calc.py" in shown


async def test_a_thread_keeps_its_family_when_its_model_is_another(shell: Shell) -> None:
    families = {"one": "openai", "two": "claude", "three": ""}
    async with Loopback(stream(chat("Done."))) as server:
        configure(shell.environment, settings_of(server, families, "one"))
        await shell("-p", "a")
        await shell("-c", "-p", "b", "-m", "two:m")
        await shell("-c", "-p", "c", "-m", "three:m")
        journal = journal_of(shell.environment)
        await shell("fork", journal.stem)
        await shell("-p", "d", "-m", "three:m")
    heads = [head_of(one) for one in server.requests]
    assert heads[0] == heads[1] == heads[2] != heads[-1]
    assert "apply_patch" in json.dumps(heads[0])
    assert "apply_patch" not in json.dumps(heads[-1])
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    configured = [one["event"]["config"] for one in lines if one["event"]["type"] == "configured"]
    assert configured
    assert {one.get("family") for one in configured} <= {"openai", None}


async def test_a_recording_is_played_with_the_tools_that_were_recorded(
    shell: Shell, tmp_path: Path
) -> None:
    recording = str(tmp_path / "run.rec")
    async with Loopback(stream(chat("Done."))) as server:
        configure(shell.environment, settings_of(server, {"one": "gemini"}, "one"))
        await shell("-p", "go", "--record", recording)
    configure(shell.environment, "")
    played = await shell("-p", "go", "-m", f"recorded:{recording}")
    assert (played.code, played.stdout) == (0, "Done.\n"), played.stderr


def test_a_script_has_the_family_whose_tools_its_replies_call(
    treadle: Run, script: Callable[[str], str], tmp_path: Path
) -> None:
    wanted = {
        ("read_file", "edit_file"): "",
        ("read_file", "apply_patch"): "openai",
        ("replace",): "gemini",
        ("apply_patch", "replace"): "",
        ("list_files",): "",
    }
    found = {}
    for tools in wanted:
        calls = ", ".join(f'{{ tool = "{one}" }}' for one in tools)
        model = script(f'replies = [{{ calls = [{calls}] }}, {{ text = "done" }}]')
        done = treadle("-p", "go", "-m", model)
        assert done.returncode == 0, done.stderr
        journal = max((tmp_path / "home/data/threads").glob("*.jsonl"))
        events = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
        config = next(one["config"] for one in events if one["type"] == "configured")
        found[tools] = config.get("family", "")
    assert found == wanted
