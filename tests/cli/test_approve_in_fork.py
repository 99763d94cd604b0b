"""Calls that wait in a fork: they are looked at again before they are shown or answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from cli.conftest import Run
from cli.test_approve import ASK, COMMAND, KINDS, Script, begin, only_thread

__all__ = ["begin"]


def test_in_a_fork_a_question_shows_what_a_yes_covers_there(
    treadle: Run, script: Script, repository: Path, begin: Callable[..., str]
) -> None:
    # Folds drop what was seen of the call: it was seen in another thread, maybe on another machine.
    dangerous = COMMAND.replace("echo ran >> effects", "git reset --hard -q; echo $PWD")
    thread = begin(script(dangerous))
    fork = treadle("fork", thread).stdout.split()[0]
    shown, there = (
        json.loads(treadle("approve", one, "--json").stdout)[0] for one in (fork, thread)
    )
    assert shown["scope"] == there["scope"]
    assert shown["scope"]["reasons"]
    refused = treadle("approve", fork, "--yes", "--always")
    assert refused.returncode == 2
    assert "can only be allowed by itself" in refused.stderr
    assert treadle("approve", fork, "--yes").stdout == "It ran.\n"
    assert treadle("approve", fork, "--grants").stdout == ""


def test_in_a_fork_always_allows_kinds_as_anywhere(
    treadle: Run, script: Script, begin: Callable[..., str]
) -> None:
    fork = treadle("fork", begin(script(KINDS))).stdout.split()[0]
    assert treadle("approve", fork, "status", "--yes", "--always").returncode == 4
    assert treadle("approve", fork, "--grants").stdout == "bash: git status, up to high risk\n"
    assert treadle("approve", fork, "--yes").stdout == "Done.\n"
    assert treadle("verify", fork).returncode == 0


def test_in_a_fork_whose_folder_is_gone_what_waits_can_be_read(
    treadle: Run, script: Script, repository: Path
) -> None:
    assert treadle("-p", "go", "-m", script(COMMAND), *ASK, "--no-commit").returncode == 4
    fork = treadle("fork", str(only_thread(treadle)["id"])).stdout.split()[0]
    repository.rename(repository.with_name("moved"))
    told = treadle("approve", fork, cwd=repository.with_name("moved"))
    assert told.returncode == 0, told.stderr
    assert "the folder it would run in is not here" in told.stdout
