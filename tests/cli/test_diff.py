"""`treadle diff`: what the agent changed, and not what others did."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run

Script = Callable[[str], str]


def reply(command: str) -> str:
    call = f"tool = 'bash'\narguments = {{command = '''{command}'''}}\n"
    return f"[[replies]]\n[[replies.calls]]\n{call}[[replies]]\ntext = 'Done.'\n"


@pytest.fixture
def turn(treadle: Run, script: Script) -> Callable[[str], str]:
    """One turn that runs a command; returns the thread."""

    def run(command: str, *more: str) -> str:
        chosen = more or ("-c",)
        model = script(reply(command))
        ran = treadle(*chosen, "-p", "go", "-m", model, "--approval-mode", "auto")
        assert ran.returncode == 0, ran.stderr
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return run


@pytest.fixture
def thread(turn: Callable[..., str], repository: Path) -> str:
    """Two turns; a person changes things before, between and after."""
    (repository / "calc.py").write_text("mine first\n")
    turn("echo agent >> calc.py; echo new > new.txt", "--private")
    (repository / "other.txt").write_text("not the agent's\n")
    (repository / "new.txt").write_text("new\nperson\n")
    made = turn("echo agent >> new.txt; printf '\\0' > data.bin")
    (repository / "calc.py").write_text("mine last\n")
    return made


def test_the_whole_diff_holds_the_agents_changes_only(treadle: Run, thread: str) -> None:
    ran = treadle("diff", thread)
    assert ran.returncode == 0
    lines = ran.stdout.splitlines()
    assert [line for line in lines if line.startswith("diff ")] == [
        "diff --git a/calc.py b/calc.py",
        "diff --git a/data.bin b/data.bin",
        "diff --git a/new.txt b/new.txt",
    ]
    assert "+agent" in lines
    assert " mine first" in lines
    assert "other.txt" not in ran.stdout
    assert "mine last" not in ran.stdout
    assert "others changed these between the agent's changes, or later: new.txt" in ran.stderr


def test_the_diff_can_be_applied_to_what_was_there_before(
    treadle: Run, turn: Callable[..., str], repository: Path, tmp_path: Path
) -> None:
    before = (repository / "calc.py").read_bytes()
    thread = turn("printf 'a\\r\\nb' >> calc.py", "--private")
    after = (repository / "calc.py").read_bytes()
    (tmp_path / "calc.py").write_bytes(before)
    (tmp_path / "diff").write_text(treadle("diff", thread).stdout, newline="")
    subprocess.run(["git", "apply", "diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "calc.py").read_bytes().replace(b"\r", b"") == after.replace(b"\r", b"")


def test_versions_narrow_it_down(treadle: Run, thread: str) -> None:
    latest = json.loads(treadle("list", "--json").stdout)[0]["version"]
    whole = treadle("diff", thread).stdout
    for span in ("..", f"0..{latest}", "0..", f"..{latest}"):
        assert treadle("diff", thread, span).stdout == whole
    parts = [
        {one["path"] for one in json.loads(treadle("diff", thread, span, "--json").stdout)}
        for span in (f"..{middle_of(treadle, thread)}", f"{middle_of(treadle, thread)}..")
    ]
    assert parts == [{"calc.py", "new.txt"}, {"new.txt", "data.bin"}]
    for wrong in ("5", "a..b", "9..3", f"..{latest + 1}"):
        assert treadle("diff", thread, wrong).returncode == 2


def middle_of(treadle: Run, thread: str) -> int:
    """The version at which the second turn began."""
    lines = treadle("replay", thread).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if " UserInput " in line][1]


def test_programs_get_lines_and_blobs(treadle: Run, thread: str) -> None:
    found = {one["path"]: one for one in json.loads(treadle("diff", thread, "--json").stdout)}
    assert (found["calc.py"]["added"], found["calc.py"]["deleted"]) == (1, 0)
    assert found["calc.py"]["status"] == "M"
    assert found["new.txt"]["old"] is None
    assert found["new.txt"]["by_others"]
    assert found["data.bin"]["is_binary"]
    assert found["data.bin"]["new"]["mode"] == "100644"
    stat = treadle("diff", thread, "--stat").stdout
    assert "3 files changed" in stat


def test_what_steers_a_terminal_is_taken_out_before_colors_come_in(
    treadle: Run, turn: Callable[..., str]
) -> None:
    thread = turn("printf '\\033[2Jclear\\n' > x; echo y > z", "--private")
    assert "\x1b[2J" in treadle("diff", thread).stdout
    colored = treadle("diff", thread, "--color").stdout
    assert "\x1b[2J" not in colored
    assert "\x1b[32m+y\x1b[0m" in colored


def test_what_was_taken_back_is_no_change_any_more(treadle: Run, thread: str) -> None:
    assert treadle("rewind", thread, "--turn", "0", "--files", "--force").returncode == 0
    ran = treadle("diff", thread)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "what the agent changed is as it was" in ran.stderr


def test_a_fork_begins_with_the_state_of_its_base(
    treadle: Run, thread: str, turn: Callable[..., str]
) -> None:
    assert treadle("fork", thread).returncode == 0
    fork = turn("echo fork > fork.txt")
    assert fork != thread
    found = {one["path"] for one in json.loads(treadle("diff", fork, "--json").stdout)}
    assert found == {"fork.txt"}


def test_without_states_the_reason_is_told(
    treadle: Run, script: Script, tmp_path: Path, repository: Path, thread: str
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    treadle("-p", "one", "-m", script('[[replies]]\ntext = "Yes."\n'), cwd=plain)
    bare = json.loads(treadle("list", "--json").stdout)[0]["id"]
    ran = treadle("diff", bare)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "no states of its files are recorded" in ran.stderr
    for arguments in (
        ["update-ref", "-d", f"refs/treadle/{thread}"],
        ["gc", "--quiet", "--prune=now"],
    ):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    gone = treadle("diff", thread)
    assert gone.returncode == 1
    assert "not in the repository any more" in gone.stderr
