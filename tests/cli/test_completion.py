"""What a shell completes: asked of a real bash, and by the protocol of each shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from treadle.cli.main import COMMANDS

TALK = '[[replies]]\ntext = "done"\n'


@pytest.fixture
def begun(treadle: Run, script: Any) -> str:
    """A thread of the repository's folder."""
    ran = treadle("-p", "Fix the flaky test", "-m", script(TALK))
    return ran.stderr.partition("thread ")[2].partition(",")[0]


@pytest.fixture
def bash(treadle: Run, environment: dict[str, str], repository: Path, tmp_path: Path) -> Any:
    """Ask a bash that has read what the command prints for these words."""
    (tmp_path / "completion").write_text(treadle("completion", "bash").stdout)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "treadle"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m treadle "$@"\n')
    program.chmod(0o755)
    path = f"{bin_folder}:{environment['PATH']}"

    def complete(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in ("treadle", *words))
        asked = (
            f"source {tmp_path / 'completion'}\n"
            f"COMP_WORDS=({line}); COMP_CWORD={len(words)}\n"
            f"_treadle_completion treadle '{words[-1]}' treadle\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        ran = subprocess.run(
            ["bash", "-c", asked],
            env={**environment, "PATH": path},
            cwd=repository,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ran.stderr == ""
        return ran.stdout.split()

    return complete


def test_bash_completes_commands_and_options(bash: Any) -> None:
    assert bash("") == list(COMMANDS)
    assert bash("com") == ["compact", "completion"]
    assert bash("--approval-mode", "a") == ["ask", "auto-edit", "auto"]
    assert "--max-cost" in bash("run", "--max-")


def test_bash_completes_the_ids_of_threads_with_and_without_their_prefix(
    bash: Any, begun: str, treadle: Run
) -> None:
    assert begun.startswith("T-")
    for words in (("show", ""), ("resume", "T-"), ("-r", begun[:12]), ("show", begun[2:9])):
        assert bash(*words) == [begun]
    assert bash("show", "T-ffffffff") == []
    assert bash("restore", "") == []
    assert treadle("trash", begun).returncode == 0
    assert bash("restore", "") == [begun]
    assert bash("show", "") == []


def test_where_nobody_has_a_thread_nothing_is_completed_and_nothing_is_made(
    bash: Any, environment: dict[str, str]
) -> None:
    assert bash("show", "") == []
    assert not Path(environment["TREADLE_HOME"]).exists()


@pytest.mark.parametrize(
    ("shell", "words", "at", "told"),
    [
        ("zsh", "treadle show T-", "2", "{id}\nFix the flaky test"),
        ("fish", "treadle show T-", "T-", "{id}\tFix the flaky test"),
        ("zsh", "treadle compl", "1", "completion\nPrint the lines"),
        ("fish", "treadle compl", "compl", "completion"),
    ],
)
def test_zsh_and_fish_are_told_titles_too(
    treadle: Run, begun: str, shell: str, words: str, at: str, told: str
) -> None:
    printed = treadle("completion", shell).stdout
    assert f"_TREADLE_COMPLETE={shell}_complete" in printed
    ran = treadle(COMP_WORDS=words, COMP_CWORD=at, _TREADLE_COMPLETE=f"{shell}_complete")
    assert told.format(id=begun) in ran.stdout


def test_another_shell_is_told_which_there_are(treadle: Run) -> None:
    ran = treadle("completion", "tcsh")
    assert ran.returncode == 2
    assert "'bash', 'zsh', 'fish'" in ran.stderr
