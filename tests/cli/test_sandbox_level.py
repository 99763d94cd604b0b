"""What the levels of the sandbox leave the agent, through the whole command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from cli.conftest import Run

Script: TypeAlias = Callable[[str], str]

CHANGES = """
[[replies]]
calls = [
  { tool = "write_file", arguments = { path = "written", content = "x" } },
  { tool = "edit_file", arguments.path = "calc.py", arguments.edits = [
    { old_str = "a - b", new_str = "a + b" },
  ] },
  { tool = "bash", arguments = { command = "touch touched; cat calc.py" } },
]
[[replies]]
text = "Done."
"""


@pytest.mark.parametrize("begin", [("-p",), ("run",)])
def test_with_read_only_nothing_changes_files_but_commands_still_run(
    treadle: Run, script: Script, repository: Path, begin: tuple[str, ...]
) -> None:
    before = {path: path.read_bytes() for path in repository.iterdir() if path.is_file()}
    model = script(CHANGES)
    arguments = (*begin, "go", "-m", model, "--approval-mode", "auto")
    done = treadle(*arguments, "--sandbox", "read-only")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "sandbox read-only: the agent can run commands" in done.stderr
    assert {path: path.read_bytes() for path in repository.iterdir() if path.is_file()} == before
    (line,) = json.loads(treadle("list", "--json").stdout)
    shown = treadle("show", line["id"]).stdout
    assert "return a - b" in shown
    assert "Read-only file system" in shown or "Permission denied" in shown
    done = treadle(*arguments)
    assert "read-only" not in done.stderr
    assert (repository / "written").read_text() == "x"
