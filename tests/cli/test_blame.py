"""`blame`: the thread, turn and prompt behind a line, as people and programs are told."""

from __future__ import annotations

import json
import subprocess
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

SCRIPT = """
[[replies]]
when.system = "commit message"
text = "fix: add"

[[replies]]
when.user = "first"
calls = [{ tool = "write_file", arguments = { path = "new.py", content = "one = 1\\n" } }]

[[replies]]
when.user = "first"
text = "Done."

[[replies]]
when.user = "mend"
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }

[[replies]]
when.user = "mend"
text = "Done."
"""


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
def thread(treadle: Run, script: Script, once: Once[str]) -> str:
    """A thread of two turns, each of which ended in a commit."""

    def make() -> str:
        model = script(SCRIPT)
        for prompt in (["first\nand more"], ["  \nmend \x1b[31madd", "-c"]):
            done = treadle("-p", *prompt, "-m", model, "--approval-mode", "auto")
            assert "committed" in done.stderr
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


def told(treadle: Run, what: str) -> dict[str, Any]:
    done = treadle("blame", what, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_line_names_its_commit_thread_turn_prompt_and_what_shows_it(
    treadle: Run, thread: str, git: Callable[..., str]
) -> None:
    done = treadle("blame", "calc.py:2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "line 2       return a + b"
    assert lines[1].startswith(f"commit   {git('rev-parse', '--short=7', 'HEAD')} ")
    assert lines[2].endswith(" by Ada")
    (named,) = (line for line in lines if line.startswith("thread"))
    version = int(named.rpartition(" ")[2])
    assert named == f"thread   {thread} at version {version}"
    assert lines[4].strip() == "turn 2: mend \N{REPLACEMENT CHARACTER}[31madd"
    assert lines[5] == f"look     treadle show {thread} --version {version}"
    shown = treadle(*lines[5].split()[2:])
    assert shown.returncode == 0
    assert f"{thread} at version {version}" in shown.stdout


def test_a_file_is_told_in_runs_of_lines_people_by_name_and_agents_by_turn(
    treadle: Run, thread: str
) -> None:
    first, second = treadle("blame", "calc.py").stdout.splitlines()
    assert first.startswith("1  ")
    assert first.split()[3:] == ["Ada", "feat:", "add"]
    assert second.startswith("2  ")
    assert thread in second
    assert "turn 2: mend" in second
    (only,) = treadle("blame", "new.py:1-1").stdout.splitlines()[4:5]
    assert only.strip() == "turn 1: first"


def test_json_tells_all_that_is_known(treadle: Run, thread: str, git: Callable[..., str]) -> None:
    found = told(treadle, "calc.py")
    assert (found["file"], found["is_tracked"]) == ("calc.py", True)
    person, agent = found["runs"]
    assert (person["threads"], person["commit"]["subject"]) == ([], "feat: add")
    assert agent["commit"]["hash"] == git("rev-parse", "HEAD")
    (behind,) = agent["threads"]
    assert behind == {
        "thread": thread,
        "version": behind["version"],
        "place": "here",
        "turn": 2,
        "turn_thread": thread,
        "prompt": "  \nmend \x1b[31madd",
    }
    assert isinstance(behind["version"], int)


def test_a_line_that_is_not_committed_says_so(treadle: Run, repository: Path) -> None:
    (repository / "calc.py").write_text("def add(a, b):\n    return b + a\n")
    assert "not committed" in treadle("blame", "calc.py:2").stdout
    assert "(no thread)" in treadle("blame", "calc.py:2").stdout
    (repository / "new.py").write_text("x\n")
    done = treadle("blame", "new.py")
    assert (done.stdout, done.stderr) == ("1  not committed (untracked)\n", "")


def test_a_thread_of_somebody_elses_machine_is_named_as_such(
    treadle: Run, git: Callable[..., str], repository: Path
) -> None:
    other = "T-01890a5d-ac96-774b-bcce-b302099a8057"
    (repository / "calc.py").write_text("x = 1\n")
    git("commit", "-qam", f"fix: x\n\nTreadle-Thread: {other}@12")
    line = treadle("blame", "calc.py:1").stdout
    assert f"thread   {other} at version 12" in line
    assert "(not on this machine)" in line
    assert "treadle show" not in line
    (behind,) = told(treadle, "calc.py")["runs"][0]["threads"]
    assert (behind["place"], behind["turn"], behind["prompt"]) == ("elsewhere", None, "")


@pytest.mark.parametrize(("at", "turn"), [("@999999", None), ("@1", None), ("", None), ("@4", 1)])
def test_a_version_that_a_thread_does_not_have_has_no_turn(
    treadle: Run, thread: str, git: Callable[..., str], repository: Path, at: str, turn: int | None
) -> None:
    (repository / "calc.py").write_text("y = 1\n")
    git("commit", "-qam", f"fix: y\n\nTreadle-Thread: {thread}{at}")
    (behind,) = told(treadle, "calc.py")["runs"][0]["threads"]
    assert behind["turn"] == turn
    shown = treadle("blame", "calc.py:1").stdout
    assert ("(no turn of it is known)" in shown) == (turn is None)
    assert f"treadle show {thread}" in shown


def test_a_thread_in_the_trash_still_tells_its_turn(
    treadle: Run, thread: str, tmp_path: Path
) -> None:
    data = tmp_path / "home" / "data"
    (data / "trash").mkdir(mode=0o700, exist_ok=True)
    for path in (data / "threads").glob(f"{thread}.json*"):
        path.rename(data / "trash" / path.name)
    line = treadle("blame", "calc.py:2").stdout
    assert "turn 2: mend" in line
    assert "(in the trash)" in line
    assert f"treadle restore {thread}" in line


def test_a_thread_that_cannot_be_read_is_named_as_such(
    treadle: Run, thread: str, tmp_path: Path
) -> None:
    journal = tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl"
    journal.write_bytes(b"garbage\n" + journal.read_bytes())
    done = treadle("blame", "calc.py:2")
    assert done.returncode == 0
    assert "(cannot be read here)" in done.stdout


def test_records_of_a_newer_program_hide_no_turn_before_them(
    treadle: Run, thread: str, tmp_path: Path
) -> None:
    from treadle.thread.record import encode_batch, scan_journal

    journal = tmp_path / "home" / "data" / "threads" / f"{thread}.jsonl"
    found = scan_journal(journal.read_bytes())
    lines, _ = encode_batch(found.head, found.head.at, [b'{"type":"of_tomorrow"}'])
    journal.write_bytes(journal.read_bytes() + lines)
    assert "turn 2: mend" in treadle("blame", "calc.py:2").stdout


def test_a_fork_in_the_middle_of_a_turn_goes_on_in_the_turn_of_its_base(
    treadle: Run, thread: str, git: Callable[..., str], repository: Path
) -> None:
    (behind,) = told(treadle, "new.py")["runs"][0]["threads"]
    fork = treadle("fork", thread, "--version", str(behind["version"])).stdout.strip()
    (repository / "calc.py").write_text("z = 1\n")
    git("commit", "-qam", f"fix: z\n\nTreadle-Thread: {fork}@1")
    (of_fork,) = told(treadle, "calc.py")["runs"][0]["threads"]
    assert (of_fork["thread"], of_fork["version"]) == (fork, 1)
    assert (of_fork["turn_thread"], of_fork["turn"]) == (thread, 1)
    assert of_fork["prompt"] == "first\nand more"


def test_a_squashed_commit_names_every_thread(
    treadle: Run, thread: str, git: Callable[..., str], repository: Path
) -> None:
    other = "T-01890a5d-ac96-774b-bcce-b302099a8057"
    (repository / "calc.py").write_text("x = 1\n")
    message = f"squash\n\n    Treadle-Thread: {other}@1\n\nTreadle-Thread: {thread}@3\n"
    git("commit", "-qam", message)
    line = treadle("blame", "calc.py:1").stdout
    assert line.index(other) < line.index(thread)
    assert treadle("blame", "calc.py").stdout.rstrip().endswith("(and 1 more)")


@pytest.mark.parametrize("name", ["a:1", "a:1-2", "a:b:2", "x y", "ünï"])
def test_a_file_whose_name_looks_like_lines_is_the_file(
    treadle: Run, repository: Path, name: str
) -> None:
    (repository / name).write_text("one\ntwo\n")
    assert told(treadle, name)["file"] == name
    runs = told(treadle, f"{name}:2")["runs"]
    assert [(run["first"], run["last"]) for run in runs] == [(2, 2)]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("calc.py:3", "there is no line 3"),
        ("calc.py:0", "counted from 1"),
        ("calc.py:2-1", "counted from 1"),
        ("calc.py:99999999999999999999", "there is no file"),
        ("calc.py:1-", "there is no file"),
        ("nowhere.py:1", "there is no file"),
        ("", "is a folder"),
        (".", "is a folder"),
        ("/etc/passwd", "no git repository"),
        ("bytes", "binary"),
    ],
)
def test_what_cannot_be_blamed_is_refused_with_the_reason(
    treadle: Run, repository: Path, what: str, said: str
) -> None:
    (repository / "bytes").write_bytes(b"\0\1")
    done = treadle("blame", what)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_another_folder_is_where_names_begin(
    treadle: Run, repository: Path, tmp_path: Path
) -> None:
    done = treadle("blame", "-C", str(repository), "calc.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "feat: add" in done.stdout
