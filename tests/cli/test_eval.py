"""`treadle eval`: real repositories, real kills, checks that hang, judges that speak nonsense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path

Script = Callable[[str], str]

FIXES = """
[[replies]]
when.user = "fix"
text = "Look."
calls = [{ tool = "read_file", arguments = { path = "calc.py" } }]
[[replies]]
when.user = "fix"
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }
[[replies]]
when.user = "fix"
text = "It adds."
[[replies]]
when.user = "name"
[[replies.calls]]
tool = "bash"
arguments = { command = "echo sum > name.txt", access = "write" }
[[replies]]
when.user = "name"
text = "Named."
"""
ADDS = "python3 -c 'import calc; assert calc.add(1, 1) == 2'"


@pytest.fixture
def thread(treadle: Run, script: Script, repository: Path, once: Once[str]) -> str:
    """A thread of two turns; before each its person has changed a file without a commit."""

    def make() -> str:
        (repository / "mine.txt").write_text("first\n")
        (repository / ".gitignore").write_text("*.log\n")
        first = ("-p", "fix it", "-m", script(FIXES), "--approval-mode", "auto", "--no-commit")
        assert treadle(*first).returncode == 0
        (repository / "mine.txt").write_text("second\n")
        assert treadle("-c", "-p", "name it", "--no-commit").returncode == 0
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


def evaluate(treadle: Run, *arguments: str, **extra: Any) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is said as JSON."""
    done = treadle("eval", *arguments, "--output-format", "json", **extra)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def start_waiting(
    thread: str, repository: Path, environment: dict[str, str], script: Script, tmp_path: Path
) -> Callable[[str], subprocess.Popen[str]]:
    """Start an evaluation of the thread, and come back when its second turn runs a command."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    waiting = script(FIXES.replace("echo sum > name.txt", f"echo > {fifo}; sleep 600"))

    def start(turn: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "eval", f"{thread}{turn}", "-m", waiting],
            cwd=repository,
            env=environment | {"TREADLE_SANDBOX": "off"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        fifo.read_text()
        return process

    return start


def git(repository: Path, environment: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=repository,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def look(repository: Path, environment: dict[str, str]) -> list[object]:
    """All of a person's that could be touched: files, index, branches, worktrees, stash."""
    files = {
        str(path.relative_to(repository)): path.read_bytes()
        for path in sorted(repository.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
    asked = (
        ("status", "--porcelain"),
        ("for-each-ref", "refs/heads", "refs/tags", "refs/remotes"),
        ("reflog",),
        ("worktree", "list"),
        ("ls-files", "--stage"),
        ("config", "--list", "--local"),
    )
    return [files, *(git(repository, environment, *one) for one in asked)]


def test_each_turn_runs_again_with_the_files_of_then_and_nothing_else_is_touched(
    treadle: Run,
    thread: str,
    repository: Path,
    environment: dict[str, str],
    script: Script,
    tmp_path: Path,
) -> None:
    journal = tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl"
    (repository / "mine.txt").write_text("third\n")
    before = look(repository, environment), journal.read_bytes()
    listing = tmp_path / "seen.txt"
    score = tmp_path / "score.py"
    score.write_text(
        "def keep(run):\n"
        f"    with open({str(listing)!r}, 'a') as file:\n"
        "        text = (run.folder / 'calc.py').read_text()\n"
        "        mine = (run.folder / 'mine.txt').read_text()\n"
        "        print(repr((mine, text, run.prompt, run.answer)), file=file)\n"
        "    return len(run.calls) > 0 and 'calc.py' in run.diff\n"
    )
    code, found = evaluate(
        treadle, thread, "-m", script(FIXES), "--check", ADDS, "--score", f"{score}:keep"
    )
    first, second = found["results"]
    assert (code, found["passed"], found["failed"], found["left"]) == (1, 1, 1, 0)
    assert (first["verdict"], first["divergence"]) == ("passed", None)
    assert (second["verdict"], second["divergence"]) == ("failed", None)
    assert second["reason"] == f"{score}:keep says no", "its diff is of the other file"
    assert first["tokens"] > 0
    assert first["recorded_usage"]["input_tokens"] > 0
    seen = [eval(line) for line in listing.read_text().splitlines()]
    fixed = "def add(a, b):\n    return a + b\n"
    assert seen == [
        ("first\n", fixed, "fix it", "It adds."),
        ("second\n", fixed, "name it", "Named."),
    ]
    assert (look(repository, environment), journal.read_bytes()) == before
    tagged = json.loads(treadle("list", "--tag", f"eval:{found['id']}", "--json").stdout)
    assert {one["id"] for one in tagged} == {first["thread"], second["thread"]}
    assert {one["forked_from"] for one in tagged} == {thread}
    assert "+sum" in treadle("diff", second["thread"], "-C", str(repository)).stdout
    scratch = tmp_path / "home" / "cache" / "scratch"
    assert [one for one in scratch.iterdir() if one.name.startswith("eval-")] == []


def test_other_instructions_and_fewer_tools_reach_the_model(
    treadle: Run, thread: str, repository: Path, script: Script, tmp_path: Path
) -> None:
    words = tmp_path / "words.md"
    words.write_text("Speak like a weaver.\n")
    model = script(
        '[[replies]]\nwhen.system = "weaver"\nwhen.step = 0\n'
        'calls = [{ tool = "bash", arguments = { command = "true" } }]\n'
        '[[replies]]\nwhen.last = "(?i)not|no tool"\ntext = "Without."\n'
        '[[replies]]\ntext = "With it."\n'
    )
    code, found = evaluate(
        treadle,
        *(f"{thread}:1", "-m", model, "--instructions", str(words), "--leave-out", "bash"),
    )
    (result,) = found["results"]
    assert code == 0
    assert result["divergence"] == {
        "call": 1,
        "recorded": "read_file calc.py",
        "now": "$ true",
    }
    shown = treadle("show", result["thread"]).stdout
    assert "Without." in shown
    refused = treadle("eval", thread, "--leave-out", "loom")
    assert (refused.returncode, "no tool is called loom" in refused.stderr) == (2, True)


def test_after_kill_9_what_has_a_result_is_not_run_again(
    treadle: Run,
    thread: str,
    repository: Path,
    environment: dict[str, str],
    script: Script,
    start_waiting: Callable[[str], subprocess.Popen[str]],
) -> None:
    """The process is killed while a command runs, with a worktree in place."""
    before = look(repository, environment)
    process = start_waiting("")
    process.kill()
    process.communicate()
    (listed,) = json.loads(treadle("eval", "list", "--output-format", "json").stdout)
    assert (listed["passed"], listed["left"]) == (1, 1)
    assert len(look(repository, environment)[4].splitlines()) == 2, "its worktree is there"  # type: ignore[attr-defined]
    script(FIXES)
    code, found = evaluate(treadle, "--resume", listed["id"])
    assert (code, found["passed"], found["left"]) == (0, 2, 0)
    assert found["results"][0] == listed["results"][0]
    tagged = json.loads(treadle("list", "--tag", f"eval:{found['id']}", "--json").stdout)
    assert len(tagged) == 3, "the case that was cut began anew"
    used = sum(one["tokens"] for one in found["results"])
    spent = found["spent"]["input_tokens"] + found["spent"]["output_tokens"]
    assert spent > used, "what the case that was cut had used counts"
    assert look(repository, environment) == before
    again = evaluate(treadle, "--resume", listed["id"])
    assert again == (code, found)
    assert "-m" not in treadle("eval", "--resume", listed["id"], "-m", "x").stdout


def test_what_all_of_it_may_use_bounds_it_and_more_goes_on(
    treadle: Run, thread: str, script: Script
) -> None:
    code, found = evaluate(treadle, thread, "-m", script(FIXES), "--max-tokens", "1")
    assert (code, found["is_out_of_budget"], found["left"]) == (3, True, 2)
    assert found["results"] == []
    text = treadle("eval", "--resume", found["id"])
    assert (text.returncode, text.stdout) == (3, "")
    assert f"treadle eval --resume {found['id']} --max-tokens MORE" in text.stderr
    code, more = evaluate(
        treadle, "--resume", found["id"], "--max-tokens", "1000000", "--jobs", "2"
    )
    assert (code, more["passed"], more["left"]) == (0, 2, 0)


JUDGE = """
[[replies]]
when.system = "judge"
when.last = "fix it"
text = 'The diff is right. {"reason": "it \\u001b[31madds", "passed": true}'
[[replies]]
when.system = "judge"
text = "It is nice, and I pass it on."
"""


def test_a_judge_that_speaks_nonsense_scores_nothing(
    treadle: Run, thread: str, script: Script, tmp_path: Path
) -> None:
    model = script(FIXES)
    (tmp_path / "judge.toml").write_text(JUDGE)
    judge = f"scripted:{tmp_path / 'judge.toml'}"
    code, found = evaluate(treadle, thread, "-m", model, "--judge", judge, "--rubric", "It adds.")
    first, second = found["results"]
    assert (code, first["verdict"], second["verdict"]) == (1, "passed", "not scored")
    assert "gave no verdict, but said: It is nice" in second["reason"]
    assert second["judge_usage"]["input_tokens"] > first["judge_usage"]["input_tokens"] > 0
    total = sum(
        one[kind]["input_tokens"] for one in found["results"] for kind in ("usage", "judge_usage")
    )
    assert found["spent"]["input_tokens"] == total
    for lone in (("--judge", judge), ("--rubric", "It adds.")):
        refused = treadle("eval", thread, *lone)
        assert (refused.returncode, "a judge needs a rubric" in refused.stderr) == (2, True), lone


def test_checks_that_hang_and_functions_that_fail_are_said(
    treadle: Run, thread: str, script: Script, tmp_path: Path
) -> None:
    model, case = script(FIXES), f"{thread}:1"
    late = ("--check", "sleep 600 & sleep 600", "--check-limit", "0.2s")
    code, found = evaluate(treadle, case, "-m", model, *late)
    assert (code, found["results"][0]["verdict"]) == (1, "failed")
    assert "was not done in 0.2 seconds" in found["results"][0]["reason"]
    score = tmp_path / "score.py"
    score.write_text(
        "def raises(run):\n    raise KeyError('loom')\ndef counts(run):\n    return 1\nthing = 3\n"
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n"
        "def hides(run):\n    raise Mute\n"
        "def stops(run):\n    raise KeyboardInterrupt\n"
        "def cancels(run):\n    import asyncio\n    raise asyncio.CancelledError\n"
        "def exits(run):\n    raise SystemExit(0)\n"
    )
    wanted = {
        "raises": "line 2: KeyError: 'loom'",
        "counts": "gave a int, not True or False",
        "thing": "it is no function",
        "missing": "has no missing",
        "hides": ":hides: ",
        "stops": ":stops: KeyboardInterrupt",
        "cancels": ":cancels: CancelledError",
        "exits": "SystemExit: 0",
    }
    for name, words in wanted.items():
        code, found = evaluate(treadle, case, "-m", model, "--score", f"{score}:{name}")
        assert (code, found["results"][0]["verdict"]) == (1, "not scored"), name
        assert words in found["results"][0]["reason"], name
    (tmp_path / "judge.toml").write_text("[[replies]]\ntext = '{\"passed\": true}'\n")
    judge = ("--judge", f"scripted:{tmp_path / 'judge.toml'}", "--rubric", "It adds.")
    code, found = evaluate(treadle, case, "-m", model, "--score", f"{score}:raises", *judge)
    assert (code, found["results"][0]["verdict"]) == (1, "not scored"), (
        "what nobody could say is not said by the next one"
    )


def test_a_run_that_came_to_its_end_is_kept_though_nothing_is_left_behind_it(
    treadle: Run, thread: str, script: Script
) -> None:
    model = script('[[replies]]\ntext = "I see nothing to do."\n')
    code, found = evaluate(treadle, f"{thread}:1", "-m", model, "--max-tokens", "1")
    (result,) = found["results"]
    assert (code, result["verdict"], found["is_out_of_budget"]) == (0, "passed", False)
    assert result["tokens"] > 1
    assert treadle("list", "--tag", f"eval:{found['id']}").stdout.count("\n") >= 1


def test_a_case_whose_model_did_not_answer_is_tried_again_on_resuming(
    treadle: Run, thread: str, script: Script
) -> None:
    broken = '[[replies]]\nerror = { kind = "authentication", message = "who are you" }\n'
    tried = treadle("eval", thread, "-m", script(broken))
    assert (tried.returncode, tried.stdout.count("not run")) == (1, 2), tried.stderr
    (listed,) = json.loads(treadle("eval", "list", "--output-format", "json").stdout)
    assert f"to try what is left: treadle eval --resume {listed['id']}" in tried.stderr
    assert all("who are you" in one["reason"] for one in listed["results"])
    script(FIXES)
    code, found = evaluate(treadle, "--resume", listed["id"])
    assert (code, found["passed"], found["not_run"]) == (0, 2, 0)


def test_a_case_that_cannot_be_as_it_was_is_not_run_and_counted_apart(
    treadle: Run,
    thread: str,
    repository: Path,
    environment: dict[str, str],
    script: Script,
    tmp_path: Path,
) -> None:
    file = tmp_path / "cases.txt"
    file.write_text(f"# what is tried\n{thread}:1\n{thread}:2  # the second\n")
    kept = git(repository, environment, "rev-parse", f"refs/treadle/{thread}").strip()
    git(repository, environment, "update-ref", "-d", f"refs/treadle/{thread}")
    git(repository, environment, "gc", "--quiet", "--prune=now")
    code, found = evaluate(treadle, "--from", str(file), "-m", script(FIXES))
    assert (code, found["not_run"], found["left"]) == (1, 2, 0)
    assert all("cannot be restored" in one["reason"] for one in found["results"])
    assert kept not in git(repository, environment, "for-each-ref")


def test_a_repository_that_has_moved_is_named_on_resuming(
    treadle: Run, thread: str, repository: Path, script: Script, tmp_path: Path
) -> None:
    moved = repository.with_name("elsewhere")
    repository.rename(moved)
    tried = treadle("eval", thread, "-m", script(FIXES), cwd=tmp_path)
    assert (tried.returncode, tried.stdout.count("not run")) == (1, 2)
    assert "-C FOLDER says where" in tried.stderr
    (listed,) = json.loads(treadle("eval", "list", "--output-format", "json", cwd=moved).stdout)
    code, found = evaluate(treadle, "--resume", listed["id"], "-C", str(moved), cwd=tmp_path)
    assert (code, found["passed"]) == (0, 2), found["results"]


def test_a_task_begins_anew_within_its_limits_and_those_of_the_evaluation(
    treadle: Run, thread: str, repository: Path, environment: dict[str, str], script: Script
) -> None:
    model = script(FIXES)
    limits = ("--max-steps", "7", "--max-tokens", "900000", "--private")
    done = treadle("run", "name it", "-m", model, "--approval-mode", "auto", *limits)
    assert done.returncode == 0, done.stderr
    listed = json.loads(treadle("list", "--json").stdout)
    task = next(one["id"] for one in listed if one["machine"] == "task")
    (repository / "name.txt").unlink(missing_ok=True)
    before = look(repository, environment)
    code, found = evaluate(treadle, task, "--check", "grep sum name.txt", "--max-tokens", "800000")
    (result,) = found["results"]
    assert (code, result["verdict"], result["divergence"]) == (0, "passed", None), result
    (made,) = json.loads(treadle("list", "--tag", f"eval:{found['id']}", "--json").stdout)
    assert (made["id"], made["is_private"]) == (result["thread"], True)
    assert look(repository, environment) == before
    code, found = evaluate(treadle, task, "--max-tokens", "1", "--jobs", "3")
    assert (code, found["left"]) == (3, 1)


def test_what_it_kept_of_files_is_scrubbed_and_removed_with_its_threads(
    treadle: Run, thread: str, repository: Path, environment: dict[str, str], script: Script
) -> None:
    """Its worktrees are gone by then; the states of files are in the repository."""
    task = treadle("run", "name it", "-m", script(FIXES), "--approval-mode", "auto")
    assert task.returncode == 0, task.stderr
    (repository / "name.txt").unlink()
    names = {one["id"] for one in json.loads(treadle("list", "--json").stdout)}
    code, found = evaluate(treadle, *names, "-m", script(FIXES.replace("sum", "loom-4711")))
    assert (code, found["passed"]) == (0, 3), found["results"]
    assert treadle("scrub", "--all-threads", "loom-4711", "--yes").returncode == 0
    assert "loom-4711" not in git(repository, environment, "log", "--all", "-p")
    names |= {one["thread"] for one in found["results"]}
    assert treadle("trash", *names).returncode == 0
    assert treadle("gc", "--yes").returncode == 0
    assert git(repository, environment, "for-each-ref", "refs/treadle") == ""


def test_told_to_end_it_leaves_no_worktree_and_can_be_resumed(
    treadle: Run,
    thread: str,
    repository: Path,
    environment: dict[str, str],
    script: Script,
    tmp_path: Path,
    start_waiting: Callable[[str], subprocess.Popen[str]],
) -> None:
    before = look(repository, environment)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        process = start_waiting(":2")
        process.send_signal(number)
        _, said = process.communicate()
        assert process.returncode == code, said
        assert "if it is stopped: treadle eval --resume" in said
        assert look(repository, environment) == before, number
    script(FIXES)
    listed = json.loads(treadle("eval", "list", "--output-format", "json").stdout)
    for one in json.loads(treadle("list", "--tag", f"eval:{listed[0]['id']}", "--json").stdout):
        (tmp_path / "home" / "data" / "threads" / f"{one['id']}.jsonl").unlink()
        (tmp_path / "home" / "data" / "threads" / f"{one['id']}.json").unlink(missing_ok=True)
    code, found = evaluate(treadle, "--resume", listed[0]["id"])
    assert (code, found["passed"]) == (0, 1)


def test_what_is_wrong_with_one_thread_stops_no_other(
    treadle: Run, thread: str, script: Script, repository: Path
) -> None:
    other = treadle("-p", "fix it", "-m", script(FIXES), "--approval-mode", "auto", "--no-commit")
    assert other.returncode == 0
    listed = json.loads(treadle("list", "--json").stdout)
    gone = next(one["id"] for one in listed if one["id"] != thread)
    code, found = evaluate(treadle, gone, thread, "--max-tokens", "1")
    assert (code, found["left"]) == (3, 3)
    assert treadle("trash", gone).returncode == 0
    code, found = evaluate(treadle, "--resume", found["id"], "--max-tokens", "1000000")
    assert (code, found["passed"], found["not_run"]) == (1, 2, 1)
    assert "trash" in found["results"][0]["reason"]
    keyless = treadle("eval", thread, "-m", "anthropic:claude-sonnet-5", ANTHROPIC_API_KEY="")
    assert keyless.returncode == 5, keyless.stderr
    (listed_first, *_) = json.loads(treadle("eval", "list", "--output-format", "json").stdout)
    assert (listed_first["left"], listed_first["results"]) == (2, [])


def test_forks_of_a_private_thread_are_private(
    treadle: Run, thread: str, script: Script, repository: Path
) -> None:
    assert treadle("private", thread).returncode == 0
    code, found = evaluate(treadle, "--search", "fix", "-m", script(FIXES), "--jobs", "2")
    assert (code, len(found["results"])) == (0, 2)
    shown = json.loads(treadle("list", "--tag", f"eval:{found['id']}", "--json").stdout)
    assert [one["is_private"] for one in shown] == [True, True]
    assert evaluate(treadle, "--search", "fix", "-m", script(FIXES))[1]["passed"] == 2, (
        "threads of evaluations are no cases of the next one"
    )


def test_a_thread_that_was_recorded_plays_again(
    treadle: Run, thread: str, script: Script, tmp_path: Path
) -> None:
    recording = tmp_path / "session.jsonl"
    made = treadle("-p", "fix it", "-m", script(FIXES), "--record", str(recording), "--no-commit")
    assert made.returncode == 0, made.stderr
    newest = json.loads(treadle("list", "--json").stdout)[0]["id"]
    code, found = evaluate(treadle, newest, "-m", f"recorded:{recording}")
    assert (code, found["results"][0]["verdict"]) == (0, "passed"), found["results"]
