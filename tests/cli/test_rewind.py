"""`treadle rewind`: back to a place, with or without the files, and back again."""

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
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

Script = Callable[[str], str]

FIRST = """
[[replies]]
text = "First."
[[replies.calls]]
tool = "bash"
arguments.command = "echo one >> calc.py; echo one > made.txt; echo one > kept.log"
arguments.access = "write"
[[replies]]
text = "Done one."
"""

SECOND = """
[[replies]]
text = "Second."
[[replies.calls]]
tool = "bash"
arguments.command = "echo two >> calc.py; rm made.txt; mkdir sub; printf 'x\\\\r' > sub/x"
arguments.access = "write"
[[replies]]
text = "Done two."
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    home = tmp_path / "home"
    return LocalStore(Places(home / "data", home / "state", home / "config"))


@pytest.fixture
def thread(treadle: Run, script: Script, repository: Path, once: Once[str]) -> str:
    """A thread of two turns that change files by a command."""

    def make() -> str:
        (repository / ".gitignore").write_text("*.log\n")
        (repository / "mine.txt").write_text("mine\n")
        first = ("-p", "one", "-m", script(FIRST), "--approval-mode", "auto")
        assert treadle(*first).returncode == 0
        assert treadle("-c", "-p", "two", "-m", script(SECOND)).returncode == 0
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


def test_what_a_summary_stands_for_is_gone_back_to(
    treadle: Run, store: LocalStore, script: Script
) -> None:
    words = '[[replies]]\nwhen.last = "[Ss]ummar"\ntext = "In short."\n[[replies]]\ntext = "Yes."\n'
    assert treadle("-p", "one", "-m", script(words)).returncode == 0
    thread = str(json.loads(treadle("list", "--json").stdout)[0]["id"])
    assert treadle("-c", "-p", "two").returncode == 0
    assert treadle("compact", thread).returncode == 0
    assert [text for text in seen(store, thread) if text.startswith("[Summary")]
    done = treadle("rewind", thread, "--turn", "0")
    assert done.returncode == 0, done.stderr
    assert seen(store, thread) == []
    again = treadle("rewind", thread, "--turn", "0")
    assert "stands there already" in again.stderr


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def seen(store: LocalStore, thread: str) -> list[str]:
    return [message.content for message in store.load(thread).fold.conversation.in_view]


def done(treadle: Run, *arguments: str, code: int = 0, **more: Any) -> Any:
    ran = treadle("rewind", *arguments, "--json", **more)
    assert ran.returncode == code, ran.stderr
    return json.loads(ran.stdout) if code == 0 else ran.stderr


def test_the_last_turn_is_taken_back_and_comes_back(
    treadle: Run, thread: str, store: LocalStore, repository: Path
) -> None:
    whole, on_disk = seen(store, thread), files(repository)
    ran = treadle("rewind", thread)
    assert ran.returncode == 0
    assert "went back to the end of turn 1" in ran.stdout
    assert "no longer in view" in ran.stdout
    assert seen(store, thread) == whole[: len(whole) // 2]
    assert len(store.load(thread).fold.conversation) == len(whole)
    assert files(repository) == on_disk
    back = ran.stderr.rpartition("--version ")[2].strip()
    again = done(treadle, thread, "--version", back)
    assert again["messages_shown_again"] == len(whole) // 2
    assert seen(store, thread) == whole
    assert treadle("replay", thread, "--quiet").returncode == 0
    assert treadle("verify", thread).returncode == 0


def test_turn_after_turn_is_taken_back_until_there_is_none(
    treadle: Run, thread: str, store: LocalStore, script: Script
) -> None:
    assert done(treadle, thread)["turn"] == 1
    more = script('[[replies]]\ntext = "Three."\n')
    assert treadle("resume", thread, "-p", "three", "-m", more).returncode == 0
    assert seen(store, thread)[-2:] == ["three", "Three."]
    assert "Done two." not in seen(store, thread)
    assert done(treadle, thread)["turn"] == 1
    assert done(treadle, thread)["turn"] == 0
    assert seen(store, thread) == []
    assert "no turn in view" in done(treadle, thread, code=2)


def test_every_turn_and_version_can_be_gone_to(
    treadle: Run, thread: str, store: LocalStore
) -> None:
    whole = seen(store, thread)
    latest = store.load(thread).fold.version
    assert done(treadle, thread, "--turn", "0")["messages_hidden"] == len(whole)
    assert done(treadle, thread, "--turn", "2")["messages_shown_again"] == len(whole)
    for version in range(1, latest + 1, 3):
        found = done(treadle, thread, "--version", str(version), "--dry-run")
        assert found["version"] <= version
    assert "no place to go back to for turn 7" in done(treadle, thread, "--turn", "7", code=2)
    assert "has versions 1 to" in done(treadle, thread, "--version", "999", code=2)
    now = store.load(thread).fold.version
    assert "stands there already" in done(treadle, thread, "--version", str(now), code=2)
    assert store.load(thread).fold.version == now


def test_files_go_back_with_the_conversation_and_return_with_it(
    treadle: Run, thread: str, repository: Path
) -> None:
    both = files(repository)
    (repository / "mine.txt").write_text("changed by me\n")
    index = (repository / ".git" / "index").read_bytes()
    first = done(treadle, thread, "--files")
    assert {one["path"]: one["what"] for one in first["files"]} == {
        "calc.py": "put back",
        "made.txt": "made again",
        "sub/x": "removed",
    }
    found = files(repository)
    assert found["calc.py"].endswith(b"one\n")
    assert found["made.txt"] == b"one\n"
    assert found["mine.txt"] == b"changed by me\n"
    assert found["kept.log"] == b"one\n"
    assert not (repository / "sub").exists()
    assert (repository / ".git" / "index").read_bytes() == index
    done(treadle, thread, "--version", str(first["back"]), "--files")
    assert files(repository) == {**both, "mine.txt": b"changed by me\n"}
    done(treadle, thread, "--turn", "0", "--files")
    assert files(repository)["calc.py"] == b"def add(a, b):\n    return a - b\n"
    assert not (repository / "made.txt").exists()


def test_what_others_changed_as_well_stops_all_of_it_unless_forced(
    treadle: Run, thread: str, repository: Path, store: LocalStore
) -> None:
    (repository / "calc.py").write_text("mine now\n")
    before, version = files(repository), store.load(thread).fold.version
    why = done(treadle, thread, "--files", code=2)
    assert "calc.py" in why
    assert "made.txt" not in why
    assert files(repository) == before
    assert store.load(thread).fold.version == version
    found = done(treadle, thread, "--files", "--force")
    assert found["conflicts"] == ["calc.py"]
    assert files(repository)["calc.py"].endswith(b"one\n")
    done(treadle, thread, "--version", str(found["back"]), "--files")
    assert files(repository) == before


def test_a_dry_run_tells_the_same_and_does_nothing(
    treadle: Run, thread: str, repository: Path, store: LocalStore
) -> None:
    before, version = files(repository), store.load(thread).fold.version
    objects = sorted((repository / ".git").rglob("*"))
    planned = done(treadle, thread, "--files", "--dry-run")
    assert (files(repository), store.load(thread).fold.version) == (before, version)
    assert sorted((repository / ".git").rglob("*")) == objects
    real = done(treadle, thread, "--files")
    assert {**planned, "dry_run": False, "back": real["back"]} == real
    shown = treadle("rewind", thread, "--turn", "0", "--files", "--dry-run")
    assert "would go back to before the first prompt" in shown.stdout


def test_cut_short_while_files_go_back_the_same_command_finishes_it(
    treadle: Run, thread: str, repository: Path, store: LocalStore, environment: dict[str, str]
) -> None:
    both, version = files(repository), store.load(thread).fold.version
    code = (
        "import os, sys\n"
        "from treadle.workspace.files import restore\n"
        "change = restore._change\n"
        "left = [2]\n"
        "def stop(*given):\n"
        "    left[0] -= 1\n"
        "    os.kill(os.getpid(), 9) if not left[0] else change(*given)\n"
        "restore._change = stop\n"
        "sys.argv[1:] = ['rewind', sys.argv[1], '--files']\n"
        "from treadle.cli.main import main\n"
        "main()\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, thread], cwd=repository, env=environment, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    assert files(repository) != both
    assert done(treadle, thread, "--files")["turn"] == 1
    assert files(repository)["calc.py"].endswith(b"one\n")
    assert files(repository)["made.txt"] == b"one\n"
    assert not (repository / "sub").exists()
    done(treadle, thread, "--version", str(version), "--files")
    assert files(repository) == both


def test_work_that_was_cut_short_is_given_up_and_its_files_need_a_word(
    treadle: Run, script: Script, repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    pipe = tmp_path / "started"
    os.mkfifo(pipe)
    model = script(
        '[[replies]]\n[[replies.calls]]\ntool = "bash"\n'
        f'arguments.command = "echo half > made.txt; echo > {pipe}; sleep 600"\n'
        'arguments.access = "write"\n'
    )
    arguments = ("-p", "go", "-m", model, "--approval-mode", "auto", "--sandbox", "off")
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", *arguments],
        cwd=repository,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pipe.read_text()  # which lies where a sandbox would hide it
    busy = treadle("rewind", json.loads(treadle("list", "--json").stdout)[0]["id"])
    assert busy.returncode == 75
    process.kill()
    process.wait()
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    assert "made.txt" in done(treadle, thread, "--files", code=2)
    assert (repository / "made.txt").exists()
    ran = treadle("rewind", thread, "--files", "--force")
    assert ran.returncode == 0, ran.stderr
    assert "given up" in ran.stderr
    assert not (repository / "made.txt").exists()
    assert json.loads(treadle("list", "--json").stdout)[0]["state"] == "waiting_for_user_input"


def test_without_a_repository_only_the_conversation_goes_back(
    treadle: Run, script: Script, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    treadle("-p", "one", "-m", script('[[replies]]\ntext = "Yes."\n'), cwd=plain)
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    ran = treadle("rewind", thread, "--files")
    assert ran.returncode == 2
    assert "no git repository" in ran.stderr
    assert "without --files" in ran.stderr
    assert done(treadle, thread)["turn"] == 0


def test_a_task_is_not_rewound_but_forked(treadle: Run, script: Script) -> None:
    treadle("run", "do it", "-m", script('[[replies]]\ntext = "Yes."\n'))
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    ran = treadle("rewind", thread)
    assert ran.returncode == 2
    assert f"treadle fork {thread} --version N" in ran.stderr


@pytest.mark.parametrize(
    "arguments", [("--turn", "1", "--version", "3"), ("--force",), ("--turn", "-1")]
)
def test_what_contradicts_itself_is_refused_and_changes_nothing(
    treadle: Run, thread: str, store: LocalStore, arguments: tuple[str, ...]
) -> None:
    version = store.load(thread).fold.version
    assert treadle("rewind", thread, *arguments).returncode == 2
    assert store.load(thread).fold.version == version


def test_one_can_go_to_and_fro_between_turns_with_the_files(
    treadle: Run, thread: str, repository: Path
) -> None:
    """What a rewind puts back belongs to where one went, not to the turn that one left."""
    ends = {2: files(repository)}
    done(treadle, thread, "--turn", "1", "--files")
    ends[1] = files(repository)
    assert ends[1] != ends[2]
    for turn in (2, 1, 2, 1):
        done(treadle, thread, "--turn", str(turn), "--files")
        assert files(repository) == ends[turn]


def test_what_a_command_only_uncovered_is_neither_shown_nor_removed(
    treadle: Run, script: Script, repository: Path
) -> None:
    exclude = repository / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("private/\n")
    nested = repository / "vendor" / "lib"
    for path in (repository / "private" / "diary.txt", nested / "wip.c"):
        path.parent.mkdir(parents=True)
        path.write_text("mine\n")
    subprocess.run(["git", "init", "--quiet", str(nested)], check=True)
    command = ": > .git/info/exclude; rm -rf vendor/lib/.git; echo made > made.txt"
    model = script(
        '[[replies]]\n[[replies.calls]]\ntool = "bash"\n'
        f'arguments = {{access = "write", command = "{command}"}}\n[[replies]]\ntext = "Done."\n'
    )
    ran = treadle("-p", "go", "-m", model, "--approval-mode", "auto", "--no-commit")
    assert ran.returncode == 0, ran.stderr
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    shown = json.loads(treadle("diff", thread, "--json").stdout)
    assert [one["path"] for one in shown] == ["made.txt"]
    went = done(treadle, thread, "--files")
    assert went["files"] == [{"path": "made.txt", "what": "removed"}]
    assert (repository / "private" / "diary.txt").read_text() == "mine\n"
    assert (nested / "wip.c").read_text() == "mine\n"


def test_a_round_whose_files_were_not_kept_is_told_and_needs_a_word(
    treadle: Run, script: Script, repository: Path
) -> None:
    command = (
        "for ref in $(git for-each-ref --format='%(refname)' refs/treadle); "
        "do touch .git/$ref.lock; done; echo made > made.txt"
    )
    model = script(
        '[[replies]]\n[[replies.calls]]\ntool = "bash"\n'
        f'arguments = {{access = "write", command = "{command}"}}\n[[replies]]\ntext = "Done."\n'
    )
    ran = treadle("-p", "go", "-m", model, "--approval-mode", "auto", "--no-commit")
    assert ran.returncode == 0, ran.stderr
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    (lock,) = (repository / ".git" / "refs" / "treadle").glob("*.lock")
    lock.unlink()
    told = "what the agent changed in a round of calls was not kept"
    assert told in treadle("diff", thread).stderr
    planned = treadle("rewind", thread, "--files", "--dry-run")
    assert f"{told} (git update-ref failed" in planned.stderr
    assert "so --force is needed" in planned.stderr
    refused = done(treadle, thread, "--files", code=2)
    assert told in refused
    assert "--force" in refused
    assert told in done(treadle, thread, "--files", "--force")["gap"]


def test_a_dry_run_only_reads_even_while_the_thread_is_worked_on(
    treadle: Run, thread: str, store: LocalStore, tmp_path: Path
) -> None:
    def kept() -> dict[str, bytes]:
        return files(tmp_path / "home" / "data" / "threads")

    writer = store.open(thread)
    try:
        assert done(treadle, thread, code=75)
        before = kept()
        assert done(treadle, thread, "--files", "--dry-run")["turn"] == 1
        assert kept() == before
    finally:
        writer.close()


def test_a_file_with_a_known_secret_is_in_no_state_and_left_alone(
    treadle: Run, script: Script, repository: Path
) -> None:
    secret = "sk-ant-api03-0123456789abcdefghij"
    (repository / "mine.txt").write_text(f"{secret} is mine\n")
    model = script(
        '[[replies]]\n[[replies.calls]]\ntool = "bash"\n'
        'arguments = {access = "write", command = "cat mine.txt > k; echo > made.txt"}\n'
        '[[replies]]\ntext = "Done."\n'
    )
    more = {"ANTHROPIC_API_KEY": secret}
    ran = treadle("-p", "go", "-m", model, "--approval-mode", "auto", "--no-commit", **more)
    assert ran.returncode == 0, ran.stderr
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    went = done(treadle, thread, "--files", **more)
    assert went["files"] == [{"path": "made.txt", "what": "removed"}]
    assert went["left"] == ["k"]
    assert (repository / "k").exists()
    everything = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=repository, capture_output=True
    )
    assert everything.returncode == 0
    assert secret.encode() not in everything.stdout


def test_an_ignored_file_that_the_agent_made_known_to_git_is_not_removed(
    treadle: Run, script: Script, repository: Path
) -> None:
    (repository / ".gitignore").write_text("*.env\n")
    (repository / "my.env").write_text("mine\n")
    command = "echo more >> my.env; git add -f my.env; echo made > made.txt"
    turn = FIRST.replace("echo one >> calc.py; echo one > made.txt; echo one > kept.log", command)
    arguments = ("-p", "x", "-m", script(turn), "--approval-mode", "auto", "--no-commit")
    assert treadle(*arguments).returncode == 0
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    told = done(treadle, thread, "--files")
    assert (repository / "my.env").read_text() == "mine\nmore\n"
    assert not (repository / "made.txt").exists()
    assert "my.env" in told["left"]
