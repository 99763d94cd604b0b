"""The power goes after a commit was recorded: the repository of the person still works."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import warm_process
from lab.git_traced import (
    GitReplay,
    check_history,
    check_repository,
    is_in_round,
    named_commits,
    put,
)
from lab.layers import SEED

WRITES = """
[[replies]]
text = "I write."
calls = [
  { tool = "write_file", arguments = { path = "a.txt", content = "changed\\n" } },
  { tool = "write_file", arguments = { path = "new/b.txt", content = "new\\n" } },
]
"""
RUNS = """
[[replies]]
text = "I run something."
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo c > c.txt; ARMED git add c.txt" }
"""
DONE = """
[[replies]]
text = "It is done."
"""
HOOKS = {
    "packs": "true",
    "off": "date +%s%N > made-by-hook; git add made-by-hook",
    # What it writes is not in the trace: nothing of the lab reaches into the sandbox.
    "workspace-write": 'test -n "$GIT_INDEX_FILE" && ! touch /etc/passwd 2> /dev/null',
}
"""What the hook does, by what holds it; with `packs` git streams each file into a pack."""
COMMIT_COUNTS = {"packs": 1, "off": 2, "workspace-write": 1}
STATE_COUNT_MAX = 60
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(("git", *WHO, *arguments), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=HOOKS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def work(fast_folder: Path, level: str) -> Path:
    """A repository with a commit and a hook; without a sandbox it may add to the next one."""
    folder = fast_folder / "work"
    (folder / "kept").mkdir(parents=True)
    (folder / "a.txt").write_text("old\n")
    (folder / "kept/same.txt").write_text("same\n")
    git(fast_folder, "init", "--quiet", "--initial-branch=main", str(folder))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    if level == "packs":
        git(folder, "config", "core.bigFileThreshold", "1")
    hook = folder / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\n{HOOKS[level]}\n")
    hook.chmod(0o755)
    return folder


def take_turn(library: Path, folder: Path, work: Path, level: str) -> bytes:
    """A turn of the real command with commits; the file calls of it and of its gits."""
    config = folder / "gitconfig"
    config.write_text("[user]\nname = Ada\nemail = ada@example.com\n")
    armed = {"LD_PRELOAD": str(library), "CRASH_DIR": str(folder), "HOME": str(folder)}
    armed["CRASH_TRACE"] = str(folder / "trace")
    words = " ".join(f"{name}={value}" for name, value in armed.items())  # commands get none of it
    turn = WRITES + (RUNS.replace("ARMED", words) if level == "off" else "") + DONE
    (folder / "turn.toml").write_text(turn)
    own = {"TREADLE_HOME": str(folder / "home"), "GIT_CONFIG_GLOBAL": str(config)}
    sandbox = "off" if level == "packs" else level
    free = ("--approval-mode", "auto", "--sandbox", sandbox)
    done = warm_process.run(
        ("-p", "go", "-m", f"scripted:{folder}/turn.toml", *free),
        work,
        {"PATH": os.environ["PATH"], **own, **armed},
        None,
        timeout_s=100,
    )
    assert (done.returncode, "It is done." in done.stdout) == (0, True), done.stdout + done.stderr
    return (folder / "trace").read_bytes()


@pytest.fixture
def replay(shim_library: Path, fast_folder: Path, work: Path, level: str) -> GitReplay:
    """A turn of the command, call by call; the folders are as they were before it."""
    home, start = fast_folder / "home", fast_folder / "start"
    home.mkdir()
    shutil.copytree(work, start)
    trace = take_turn(shim_library, fast_folder, work, level)
    assert git(work, "log", "--format=%s").count("\n") == 1 + COMMIT_COUNTS[level]
    assert [*work.glob(".git/objects/pack/*.pack")] != [] or level != "packs"
    shutil.rmtree(work)
    shutil.rmtree(home)
    home.mkdir()
    start.rename(work)
    return GitReplay(trace, [home, work / ".git"])


def test_what_a_record_says_of_git_is_so_after_any_power_cut(
    replay: GitReplay, work: Path, level: str
) -> None:
    known: set[object] = set()
    found: dict[str, None] = {}
    named_most = 0
    for number, (call, disk) in enumerate(replay.disks()):
        if not call.endswith(".jsonl") or call[0] != "s" or is_in_round(disk):
            continue  # only when a record is durable is anything said of git's work
        for state in disk.crash_states(STATE_COUNT_MAX, SEED + number):
            named, files = named_commits(state), state.files()
            kept = frozenset(one for one in files.items() if "/.git/" in one[0])
            named_most = max(named_most, len(named))
            if named and (kept, *named) not in known:
                known.add((kept, *named))
                put(files, work / ".git", work / ".git")
                found |= dict.fromkeys(f"{call}: {text}" for text in check_repository(work, named))
        if found:
            break
    assert list(found) == []
    assert named_most >= 1 + 2 * COMMIT_COUNTS[level]


def test_no_branch_names_what_is_not_on_the_disk_while_git_commits(
    replay: GitReplay, work: Path, level: str
) -> None:
    moved = 0
    for call, disk in replay.disks():
        if call[0] != "r" or "/.git/refs/heads/" not in call:
            continue
        moved += 1
        put(disk.with_names_kept(), work / ".git", work / ".git")
        assert check_history(work) == []
    assert moved == COMMIT_COUNTS[level]
