"""`treadle` alone: what was left unfinished in this folder is told, counted, and offered."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from case_tables import for_every_row
from cli.conftest import Run
from cli.test_signals import SLOW, Script, Turn
from store.shelf import CREATOR, fill
from treadle.app.threads.unfinished_threads import SHOWN_MAX, describe_pending_work
from treadle.cli.main import WELCOME
from treadle.core.events import UserInput
from treadle.core.messages import Message
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.document import ThreadSummary

ECHO = '[[replies]]\ntext = "Yes."\n'
ASK = """
[[replies]]
when.step = 0
calls = [{ tool = "bash", arguments = { access = "write", command = "true" } }]

[[replies]]
text = "It ran."
"""


@pytest.fixture
def store(environment: dict[str, str]) -> LocalStore:
    return LocalStore(Places.find(environment), program="treadle run")


@pytest.fixture
def killed(treadle: Run, repository: Path, environment: dict[str, str], script: Script) -> str:
    """A thread whose command was running when its process was killed."""
    turn = Turn(repository, environment, script(SLOW))
    turn.process.kill()
    turn.process.communicate()
    os.close(turn.fifo)
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


def begun(store: LocalStore, folder: Path, prompt: str = "go") -> str:
    """A thread of a folder on which a prompt was recorded and nothing followed."""
    writer = store.create(CREATOR, workspace=str(folder))
    fill(writer, (UserInput(Message.user(prompt)),))
    writer.close()
    return writer.thread_id


def test_who_has_no_threads_is_welcomed_and_nothing_is_made(
    treadle: Run, environment: dict[str, str]
) -> None:
    done = treadle()
    assert (done.returncode, done.stdout, done.stderr) == (0, WELCOME, "")
    assert not Path(environment["TREADLE_HOME"]).exists()


def test_what_is_piped_in_without_a_prompt_is_told_where_it_is_read(treadle: Run) -> None:
    done = treadle(stdin="hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert "treadle -p" in done.stderr
    assert treadle(stdin="").stdout == WELCOME


def test_where_nothing_is_left_nothing_is_said_of_it(treadle: Run, script: Script) -> None:
    assert "unfinished" not in treadle("-p", "first", "-m", script(ECHO)).stderr
    done = treadle()
    assert (done.returncode, done.stdout, done.stderr) == (0, WELCOME, "")
    assert "unfinished" not in treadle("-p", "second", "-m", script(ECHO)).stderr


def test_what_was_left_is_told_with_the_command_that_goes_on(treadle: Run, killed: str) -> None:
    done = treadle()
    assert (done.returncode, done.stdout) == (0, WELCOME)
    told = done.stderr.splitlines()
    assert told[1] == "unfinished here:"
    assert told[2].startswith("  1  go: 1 call not over  ")
    assert told[2].endswith(killed)
    assert told[3] == f"     treadle resume {killed}"


def test_a_call_that_waits_for_a_yes_is_counted(treadle: Run, script: Script) -> None:
    assert treadle("-p", "go", "-m", script(ASK), "--approval-mode", "ask").returncode == 4
    assert "go: 1 call waits for a yes" in treadle().stderr


def test_other_folders_are_not_told_of_and_those_below_are_others(
    treadle: Run, store: LocalStore, repository: Path, tmp_path: Path
) -> None:
    below = repository / "below"
    for folder in (below, tmp_path / "elsewhere"):
        folder.mkdir()
        begun(store, folder)
    assert treadle().stderr == ""
    assert "unfinished here" in treadle(cwd=below).stderr
    assert "unfinished here" in treadle("-C", str(below)).stderr


def test_a_thread_that_is_worked_on_is_told_of_as_running_and_not_offered(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    thread = begun(store, repository)
    writer = store.open(thread)
    done = treadle()
    assert "at work here now: go: " in done.stderr
    assert f"treadle watch {thread}" in done.stderr
    assert "unfinished" not in done.stderr
    assert "resume" not in done.stderr
    writer.close()
    assert f"treadle resume {thread}" in treadle().stderr


def test_of_very_many_the_last_few_are_told_one_by_one(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    threads = [begun(store, repository, f"prompt {number}") for number in range(SHOWN_MAX + 2)]
    told = treadle().stderr
    assert [thread in told for thread in threads] == [False] * 2 + [True] * SHOWN_MAX
    assert "and 2 more: treadle list" in told


def test_a_new_thread_is_begun_with_a_word_about_what_was_left(
    treadle: Run, store: LocalStore, repository: Path, script: Script
) -> None:
    thread = begun(store, repository)
    new = treadle("-p", "new", "-m", script(ECHO))
    assert (new.returncode, new.stdout) == (0, "Yes.\n")
    (line,) = [line for line in new.stderr.splitlines() if "unfinished" in line]
    assert line == (
        f"{thread} is unfinished here (stopped in the middle); to go on with it: "
        f"treadle resume {thread}"
    )
    begun(store, repository)
    assert "2 threads are unfinished here" in treadle("-p", "new", "-m", script(ECHO)).stderr
    assert "unfinished" not in treadle("-r", thread, "-p", "on", "-m", script(ECHO)).stderr


def test_titles_cannot_steer_the_terminal(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    begun(store, repository, "\x1b[2Jgo" + "x" * 100)
    told = treadle().stderr
    assert "\x1b" not in told
    assert "�[2Jgoxx" in told


def test_threads_that_cannot_be_listed_do_not_spoil_the_welcome(
    treadle: Run, store: LocalStore, repository: Path
) -> None:
    thread = begun(store, repository)
    journal = Path(store.folders.path(thread, ".jsonl"))
    Path(store.folders.path(thread, ".json")).unlink()
    journal.write_bytes(b"not a journal\n" * 3)
    done = treadle()
    assert (done.returncode, done.stdout) == (0, WELCOME)
    assert "Traceback" not in done.stderr


@for_every_row(
    "counts, words",
    [
        ({}, "stopped in the middle"),
        ({"open_calls": 1}, "1 call not over"),
        ({"open_calls": 2, "queued": 1}, "2 calls not over, 1 prompt not delivered"),
        ({"questions": 2, "queued": 3}, "2 calls wait for a yes, 3 prompts not delivered"),
    ],
)
def test_what_is_pending_is_counted_in_words(counts: dict[str, int], words: str) -> None:
    assert describe_pending_work(ThreadSummary("T-1", 1, "", "", None, "", 0, **counts)) == words  # type: ignore[arg-type]
