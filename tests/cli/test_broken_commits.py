"""A commit that a record names and git cannot read: who goes on is told, with what mends it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cli.conftest import Run

ONE_COMMIT = """
[[replies]]
calls = [{ tool = "read_file", arguments = { path = "calc.py" } }]

[[replies]]
calls = [{ tool = "write_file", arguments = { path = "calc.py", content = "changed\\n" } }]

[[replies]]
text = "It is done."
"""


@pytest.mark.parametrize("what", ["HEAD", "HEAD:calc.py"])
def test_a_recorded_commit_that_a_power_cut_emptied_is_told_with_what_mends_it(
    treadle: Run, environment: dict[str, str], repository: Path, tmp_path: Path, what: str
) -> None:
    script = tmp_path / "script.toml"
    script.write_text(ONE_COMMIT)

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=repository, env=environment, text=True, capture_output=True
        )

    done = treadle("-p", "go", "-m", f"scripted:{script}", "--approval-mode", "auto-edit")
    assert "committed" in done.stdout + done.stderr
    head, broken = (git("rev-parse", one).stdout.strip() for one in ("HEAD", what))
    path = repository / ".git/objects" / broken[:2] / broken[2:]
    path.chmod(0o600)
    path.write_bytes(b"")
    said = treadle("-c", "-p", "go", "-m", f"scripted:{script}").stderr
    assert f"git cannot read commit {head[:7]}" in said
    findings = json.loads(treadle("doctor", "--json").stdout)
    (found,) = (one for one in findings if one["name"] == "repository")
    assert found["status"] == "failure"
    assert found["text"].startswith(f"git cannot read commit {head[:7]} in {repository}: object")
    command = found["advice"].split("`")[1]
    mended = subprocess.run(command, shell=True, env=environment, cwd=tmp_path)
    assert mended.returncode == 0
    assert git("status", "--short").stdout == " M calc.py\n"
    assert (repository / "calc.py").read_text() == "changed\n"
    assert git("commit", "--all", "--message", "again").returncode == 0
    assert git("log", "--stat").returncode == 0
