"""What the levels of the sandbox leave the agent, through the whole command."""

from __future__ import annotations

import json
import subprocess
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
  { tool = "bash", arguments = { access = "write", command = "touch touched" } },
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
    assert "nothing can be changed here" in shown
    assert 'call it again with access="write"' not in shown
    done = treadle(*arguments)
    assert "read-only" not in done.stderr
    assert (repository / "touched").exists()
    assert (repository / "written").read_text() == "x"


PROBES = """
[[replies]]
calls = [
  { tool = "read_file", arguments = { path = ".bash_history" } },
  { tool = "search_files", arguments = { pattern = "canary" } },
  { tool = "read_file", arguments = { path = "own/config/config.toml" } },
]
[[replies]]
calls = [
  { tool = "write_file", arguments = { path = "own/config/config.toml", content = "evil" } },
  { tool = "write_file", arguments = { path = ".ssh/authorized_keys", content = "evil" } },
]
[[replies]]
calls = [
  { tool = "write_file", arguments = { path = ".bashrc", content = "evil" } },
  { tool = "write_file", arguments = { path = "plain.txt", content = "x" } },
  { tool = "bash", arguments = { access = "write", command = "cat .bash_history" } },
]
[[replies]]
text = "Done."
"""


@pytest.mark.parametrize("mode", ["plan", "ask", "auto-edit", "auto"])
def test_in_a_home_folder_nothing_hidden_comes_out_and_nothing_is_changed_unasked(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str], mode: str
) -> None:
    """Neither through a tool, nor AGENTS.md, nor a state of the files, nor a commit."""
    for name in (".bash_history", ".ssh/config", "own/config/plain"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("a canary sings\n")
    (repository / ".bashrc").write_text("true\n")
    (repository / "AGENTS.md").symlink_to(".ssh/config")
    own = {"HOME": str(repository), "TREADLE_HOME": str(repository / "own")}
    done = treadle("-p", "go", "-m", script(PROBES), "--approval-mode", mode, **own)
    assert "it is a link to what is hidden from tools" in done.stderr
    (line,) = json.loads(treadle("list", "--json", **own).stdout)
    shown = treadle("show", line["id"], "--json", **own).stdout
    assert "is hidden from tools" in shown
    assert "canary sings" not in shown + done.stdout + done.stderr
    assert (repository / ".bashrc").read_text() == "true\n"
    assert not (repository / "plain.txt").exists()
    assert not (repository / ".ssh/authorized_keys").exists()
    assert not (repository / "own/config/config.toml").exists()
    # A person says yes to what is asked about: then the files are kept, and a commit is made.
    if mode != "plan":
        done = treadle("approve", line["id"], "--yes", **own)
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        assert "canary sings" not in treadle("show", line["id"], "--json", **own).stdout
    objects = ["git", "cat-file", "--batch-all-objects", "--batch"]
    kept = subprocess.run(objects, cwd=repository, env=environment, capture_output=True, check=True)
    assert b"canary" not in kept.stdout
    assert (repository / "plain.txt").exists() == (mode != "plan")


FETCHES = """
[[replies]]
calls = [{ tool = "web_fetch", arguments = { url = "https://docs.example.com/" } }]
[[replies]]
text = "Done."
"""


@pytest.mark.parametrize("flags", [("--network", "off"), ()], ids=["off", "nobody to ask"])
def test_without_a_network_no_page_is_fetched_and_the_run_goes_on(
    treadle: Run, script: Script, repository: Path, flags: tuple[str, ...]
) -> None:
    model = script(FETCHES)
    done = treadle("run", "go", "-m", model, "--approval-mode", "auto", *flags)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    (line,) = json.loads(treadle("list", "--json").stdout)
    assert "no page may be fetched here: the network is off" in treadle("show", line["id"]).stdout
    recorded = treadle("export", line["id"], "--format", "jsonl").stdout
    assert ('"name":"web_fetch"' in recorded) is not bool(flags)
