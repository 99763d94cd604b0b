"""Skills and slash commands from files, on the command line: told, read, run, called by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from treadle.models.recording.file import load_recording

EXAMPLES = Path(__file__).parents[1] / "workspace" / "example_skills"

SCRIPT = """
[[replies]]
when = {{ user = "^use it", step = 0 }}
[[replies.calls]]
tool = "read_file"
arguments = {{ path = "{folder}/SKILL.md" }}
[[replies.calls]]
tool = "read_file"
arguments = {{ path = "{folder}/references/FIELDS.md" }}

[[replies]]
when = {{ user = "^use it", step = 1 }}
[[replies.calls]]
tool = "bash"
arguments = {{ command = "python3 {folder}/scripts/check.py a.inv" }}

[[replies]]
text = "Done."
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The user's own skills, with one in it."""
    place = tmp_path / "user" / ".agents" / "skills"
    shutil.copytree(EXAMPLES / "invoice-forms", place / "invoice-forms")
    return place


def read_systems(path: Path) -> list[str]:
    """What the model was told first in each request."""
    return [one.settings.system for one in load_recording(path).exchanges]


def messages(treadle: Run, thread: str = "") -> list[dict[str, Any]]:
    if not thread:
        (line,) = json.loads(treadle("list", "--json").stdout)
        thread = line["id"]
    found: list[dict[str, Any]] = json.loads(treadle("show", thread, "--json").stdout)[
        "conversation"
    ]["messages"]
    return found


def test_in_plan_mode_a_skill_is_read_and_its_script_runs_in_the_sandbox(
    treadle: Run, script: Callable[[str], str], mine: Path, tmp_path: Path
) -> None:
    folder = mine / "invoice-forms"
    record = tmp_path / "record.jsonl"
    model = script(SCRIPT.format(folder=folder))
    done = treadle(
        *("-p", "use it", "-m", model, "--approval-mode", "plan", "--record", str(record))
    )
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    results = [one["content"] for one in messages(treadle) if one["role"] == "tool"]
    assert "references/FIELDS.md" in results[0]
    assert results[1] == (folder / "references/FIELDS.md").read_text()
    assert results[2] == "checked a.inv: 2 fields\n[exit code 0]"
    system, *later = read_systems(record)
    assert later == [system, system]
    assert f"- invoice-forms ({folder}/SKILL.md): Use this skill whenever an invoice" in system
    assert "python3 scripts/check.py FILE" not in system


def test_a_skill_that_comes_later_is_told_to_the_next_thread(
    treadle: Run, script: Callable[[str], str], mine: Path, tmp_path: Path
) -> None:
    """The prefix of a thread stays the same bytes, whatever becomes of the files."""
    model, record = script('[[replies]]\ntext = "Hi."'), tmp_path / "record.jsonl"
    assert treadle("-p", "hello", "-m", model, "--record", str(record)).returncode == 0
    shutil.copytree(EXAMPLES / "meeting-notes", mine / "meeting-notes")
    shutil.rmtree(mine / "invoice-forms")
    assert treadle("-c", "-p", "again", "-m", model, "--record", str(record)).returncode == 0
    assert treadle("-p", "anew", "-m", model, "--record", str(record)).returncode == 0
    first, again, anew = read_systems(record)
    assert first == again
    assert "invoice-forms" in first
    assert "invoice-forms" not in anew
    assert "meeting-notes" in anew


def test_what_a_repository_brings_along_is_looked_at_first(
    treadle: Run, script: Callable[[str], str], repository: Path, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLES / "invoice-forms", repository / ".agents/skills/invoice-forms")
    (repository / ".treadle/commands").mkdir(parents=True)
    (repository / ".treadle/commands/fix.md").write_text("Fix $ARGUMENTS.\u202e\n")
    (repository / ".treadle/commands/Bad Name.md").write_text("x")
    model, record = script('[[replies]]\ntext = "Hi."'), tmp_path / "record.jsonl"
    done = treadle("-p", "hello", "-m", model, "--record", str(record))
    assert "fix, invoice-forms; `treadle config trust` looks at them" in done.stderr
    assert "Bad Name.md is not used: a command's name has small letters" in done.stderr
    refused = treadle("-p", "/fix it", "-m", model)
    assert refused.returncode == 2
    assert "/fix (" in refused.stderr
    assert "nobody has trusted it yet" in refused.stderr
    nobody = treadle("config", "trust")
    assert nobody.returncode == 2
    shown = treadle("config", "trust", "--yes")
    assert shown.returncode == 0, shown.stderr
    assert "Fix $ARGUMENTS.\ufffd" in shown.stdout
    assert "python3 scripts/check.py FILE" in shown.stdout
    again = treadle("config", "trust", "--yes")
    assert "trusted already" in again.stderr
    done = treadle("-p", "hello", "-m", model, "--record", str(record))
    assert "config trust" not in done.stderr
    first, trusted = read_systems(record)
    assert "invoice-forms" not in first
    assert "- invoice-forms (.agents/skills/invoice-forms/SKILL.md): Use this skill" in trusted
    assert treadle("config", "trust", "--remove").returncode == 0
    assert treadle("-p", "/fix it", "-m", model).returncode == 2


def test_a_prompt_that_names_a_file_says_its_text_and_is_shown_as_it_was_typed(
    treadle: Run, script: Callable[[str], str], tmp_path: Path
) -> None:
    place = tmp_path / "home/config/commands"
    place.mkdir(parents=True)
    (place / "fix.md").write_text("---\ndescription: Fix it\n---\nFix issue $1.\n\n$ARGUMENTS\n")
    model = script('[[replies]]\nwhen.user = "Fix issue 12\\\\."\ntext = "Fixed."')
    done = treadle("-p", "/fix 12", "-m", model, stdin="a log 'with quotes\n")
    assert (done.returncode, done.stdout) == (0, "Fixed.\n"), done.stderr
    (said, _) = messages(treadle)
    assert said["content"] == (
        "/fix 12\n\na log 'with quotes\n\n\n"
        f"[The person's words above call this prompt, {place}/fix.md]\n"
        "Fix issue 12.\n\n12\n\na log 'with quotes"
    )
    (line,) = json.loads(treadle("list", "--json").stdout)
    assert line["title"] == "/fix 12"
    unknown = treadle("-p", "/fxi 12", "-m", model)
    assert unknown.returncode == 2
    assert "there is no skill or command /fxi; did you mean /fix?" in unknown.stderr
    assert "with a space before it" in unknown.stderr
    missing = treadle("-p", "/fix", "-m", model)
    assert missing.returncode == 2
    assert "/fix: it needs more words: /fix [ARGUMENTS]" in missing.stderr
    assert len(json.loads(treadle("list", "--json").stdout)) == 1
    task = treadle("run", "/fix 12", "-m", model, "--approval-mode", "plan")
    assert (task.returncode, task.stdout) == (0, "Fixed.\n"), task.stderr
