"""`log`: the threads behind commits, as people and programs are told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from treadle.thread.codec import decode_entry
from treadle.thread.commits import MadeCommit, read_commit
from treadle.thread.record import scan_journal

HERE = """
[[replies]]
when.system = "commit message"
text = "fix: add"

[[replies]]
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }

[[replies]]
text = "Done."
"""
ELSEWHERE = "T-01890a5d-ac96-774b-bcce-b302099a8057"
ALSO = "T-01890a5d-ac96-774b-bcce-b302099a8058"


@pytest.fixture
def git(repository: Path, environment: dict[str, str]) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments],
            cwd=repository,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    return run


@pytest.fixture
def thread(treadle: Run, script: Callable[[str], str]) -> str:
    """A thread of one turn, which ended in a commit."""
    done = treadle("-p", "mend add", "-m", script(HERE), "--approval-mode", "auto")
    assert "committed" in done.stderr
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


def test_commits_are_told_newest_first_with_thread_turn_and_prompt(
    treadle: Run, thread: str, git: Callable[..., str]
) -> None:
    done = treadle("log")
    assert (done.returncode, done.stderr) == (0, "")
    new, behind, old, nobody, _, *summary = done.stdout.splitlines()
    assert new.startswith(git("rev-parse", "--short=7", "HEAD"))
    assert new.endswith("fix: add")
    assert behind == f"    {thread}  turn 1: mend add"
    assert old.endswith("feat: add")
    assert nobody == "    (no trailer)"
    assert summary == ["2 commits by 1 thread, 1 without a trailer", f"    {thread}  1 commit"]


def test_the_record_of_a_commit_holds_its_whole_hash(
    treadle: Run, thread: str, git: Callable[..., str], tmp_path: Path
) -> None:
    records = scan_journal(
        (tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl").read_bytes()
    ).records
    entries = [(one.seq, decode_entry(one.event)) for one in records]
    ((version, made),) = [(seq, one) for seq, entry in entries if (one := read_commit(entry))]
    assert made == MadeCommit(git("rev-parse", "HEAD"), "fix: add", 1)
    (behind,) = json.loads(treadle("log", "--json").stdout)[0]["threads"]
    assert behind["version"] < version  # the trailer was written before the record


def test_a_range_leaves_out_what_it_does_not_hold(
    treadle: Run, thread: str, git: Callable[..., str]
) -> None:
    found = json.loads(treadle("log", "HEAD~1..", "--json").stdout)
    assert [one["hash"] for one in found] == [git("rev-parse", "HEAD")]
    (behind,) = found[0]["threads"]
    assert (behind["thread"], behind["turn"], behind["prompt"]) == (thread, 1, "mend add")
    empty = treadle("log", "HEAD..")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "no commits\n")
    assert treadle("log", "HEAD..", "--json").stdout == "[]\n"


def test_several_threads_and_merges_are_all_told(treadle: Run, git: Callable[..., str]) -> None:
    git("checkout", "-q", "-b", "side")
    both = f"side\n\nTreadle-Thread: {ELSEWHERE}@3\nTreadle-Thread: {ALSO}@4"
    git("commit", "-q", "--allow-empty", "-m", both)
    git("checkout", "-q", "main")
    main = f"main\n\nTreadle-Thread: {ALSO}@9\nTreadle-Thread: {ALSO}@10"
    git("commit", "-q", "--allow-empty", "-m", main)
    git("merge", "-q", "--no-ff", "-m", "join", "side")
    lines = treadle("log").stdout.splitlines()
    assert lines[0].endswith("join (merge)")
    assert lines[1] == "    (no trailer)"
    assert lines.count(f"    {ALSO}  (not on this machine)") == 3
    start = lines.index("4 commits by 2 threads, 2 without a trailer")
    assert set(lines[start + 1 :]) == {f"    {ALSO}  2 commits", f"    {ELSEWHERE}  1 commit"}


def test_what_is_left_out_is_told_and_the_limit_moves_it(
    treadle: Run, git: Callable[..., str]
) -> None:
    for number in range(20):
        git("commit", "-q", "--allow-empty", "-m", f"number {number}")
    done = treadle("log", "--json")
    assert len(json.loads(done.stdout)) == 20
    assert done.stderr == "these are the newest 20; --limit COUNT lists more\n"
    assert "newest 3;" in treadle("log", "--limit", "3").stderr
    whole = treadle("log", "HEAD", "--json")
    assert (len(json.loads(whole.stdout)), whole.stderr) == (21, "")


def test_a_range_is_taken_for_no_option(treadle: Run, repository: Path) -> None:
    before = sorted(repository.iterdir())
    for span in ("--output=stolen", "-p", "--exec=x"):
        done = treadle("log", "--", span)
        assert done.returncode == 2
        assert "no range of commits" in done.stderr
    done = treadle("log", "nope..")
    assert (done.returncode, done.stdout) == (2, "")
    assert "knows no range of commits 'nope..'" in done.stderr
    assert sorted(repository.iterdir()) == before


def test_a_subject_does_not_steer_the_terminal(treadle: Run, git: Callable[..., str]) -> None:
    git("commit", "-q", "--allow-empty", "-m", "red \x1b[31m \x9b text")
    out = treadle("log").stdout
    assert "red \N{REPLACEMENT CHARACTER}[31m" in out
    assert "\x1b" not in out
    assert "\x9b" not in out


def test_a_folder_without_a_repository_is_told(treadle: Run, tmp_path: Path) -> None:
    for arguments in (["-C", str(tmp_path)], ["-C", str(tmp_path / "nowhere")]):
        done = treadle("log", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "the folder is" in done.stderr


def test_another_folder_is_looked_at_on_request(
    treadle: Run, repository: Path, tmp_path: Path
) -> None:
    assert "feat: add" in treadle("log", "-C", str(repository), cwd=tmp_path).stdout
