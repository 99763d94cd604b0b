"""`treadle diff`: what the agent changed, and not what others did."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path
from cli.test_signals import Turn
from exchange.recorded import CLAUDE, NAME

Script = Callable[[str], str]


FIFO = """
[[replies]]
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo half > half.txt; cat fifo" }
"""


def reply(command: str) -> str:
    call = f"tool = 'bash'\narguments = {{access = 'write', command = '''{command}'''}}\n"
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
def thread(turn: Callable[..., str], repository: Path, once: Once[str]) -> str:
    """Two turns; a person changes things before, between and after."""

    def make() -> str:
        (repository / "calc.py").write_text("mine first\n")
        turn("echo agent >> calc.py; echo new > new.txt", "--private")
        (repository / "other.txt").write_text("not the agent's\n")
        (repository / "new.txt").write_text("new\nperson\n")
        made = turn("echo agent >> new.txt; printf '\\0' > data.bin")
        (repository / "calc.py").write_text("mine last\n")
        return made

    return once(make)


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


def test_a_bound_in_the_midst_of_a_write_counts_to_its_end(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    call = 'calls = [{ tool = "write_file", arguments = { path = "n.py", content = "x = 1" } }]'
    model = script(f'[[replies]]\n{call}\n[[replies]]\ntext = "Written."\n')
    treadle("-p", "write", "-m", model, "--approval-mode", "auto")
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    journal = tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    kinds = [record["event"]["type"] for record in records]
    commit = kinds.index("hook_completed") + 1
    assert kinds[commit] == "files_saved"
    found = json.loads(treadle("diff", thread, f"..{commit}", "--json").stdout)
    assert [one["path"] for one in found] == ["n.py"]
    assert json.loads(treadle("diff", thread, f"{commit}..", "--json").stdout) == []


def test_where_it_is_not_known_what_changed_that_is_said(
    treadle: Run, repository: Path, environment: dict[str, str], script: Script
) -> None:
    turn = Turn(repository, environment, script(FIFO))
    thread = str(json.loads(treadle("list", "--json").stdout)[0]["id"])
    under_way = treadle("diff", thread)
    turn.process.kill()
    turn.process.communicate()
    os.close(turn.fifo)
    cut = treadle("diff", thread)
    assert "a round is under way" in under_way.stderr
    assert (
        f"a round is unfinished: what it has changed is not known yet: treadle resume {thread}"
        in (cut.stderr)
    )
    for done in (under_way, cut):
        assert (done.returncode, done.stdout) == (0, "")
        assert "changed no file" not in done.stderr


def test_of_a_damaged_thread_the_damage_is_told(treadle: Run, thread: str, tmp_path: Path) -> None:
    journal = tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if b'"files_saved"' in line)
    lines[place] = lines[place].replace(b"files_saved", b"files_sawed")
    journal.write_bytes(b"".join(lines))
    journal.with_suffix(".json").unlink(missing_ok=True)
    done = treadle("diff", thread)
    assert "is not known" in done.stderr
    assert "changed no file" not in done.stderr


def test_an_imported_thread_has_no_states_of_its_files(
    treadle: Run, tmp_path: Path, repository: Path
) -> None:
    session = tmp_path / f"sessions/{NAME}.jsonl"
    session.parent.mkdir()
    text = "".join(f"{json.dumps(record)}\n" for record in CLAUDE)
    session.write_text(text.replace('"/w"', json.dumps(str(repository))))
    assert treadle("import", str(session)).returncode == 0
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    for arguments in (("diff", thread), ("rewind", thread, "--turn", "0", "--files")):
        done = treadle(*arguments)
        assert "no states of its files are recorded: it was imported" in done.stderr
        assert "changed no file" not in done.stderr


def test_a_folder_with_a_new_name_is_named_with_an_option(
    treadle: Run, thread: str, repository: Path, tmp_path: Path
) -> None:
    before = treadle("diff", thread).stdout
    moved = repository.rename(tmp_path / "moved")
    gone = treadle("diff", thread, cwd=tmp_path)
    assert (gone.returncode, "-C FOLDER" in gone.stderr) == (1, True)
    gone = treadle("rewind", thread, "--files", cwd=tmp_path)
    assert (gone.returncode, "-C FOLDER" in gone.stderr) == (2, True)
    assert treadle("diff", thread, "-C", "moved", cwd=tmp_path).stdout == before
    done = treadle("rewind", thread, "--files", "-C", str(moved), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (moved / "new.txt").read_text() == "new\nperson\n"
    assert not (moved / "data.bin").exists()
    assert treadle("diff", thread, "-C", "nowhere", cwd=tmp_path).returncode == 2


def test_a_thread_that_goes_on_in_another_folder_is_found_there(
    treadle: Run, thread: str, repository: Path, tmp_path: Path
) -> None:
    moved = repository.rename(tmp_path / "moved")
    ran = treadle("-r", thread, "-C", "moved", "-p", "go", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(treadle("show", thread, "--json", cwd=moved).stdout)
    assert shown["workspace_root"] == str(moved)
    assert thread in treadle("list", "--workspace", cwd=moved).stdout
    assert "going on with " + thread in treadle("-c", "-p", "go", cwd=moved).stderr
    assert treadle("-r", thread, "-p", "go", cwd=tmp_path).returncode == 0
    moved.rename(repository)
    ran = treadle("-r", thread, "-C", str(repository), "-p", "go", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(treadle("show", thread, "--json", cwd=tmp_path).stdout)
    assert shown["workspace_root"] == str(repository)
