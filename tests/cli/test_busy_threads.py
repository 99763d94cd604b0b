"""A thread that another process has open: named, watched, forked, and raced for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path
from cli.test_ask import Terminal
from cli.test_signals import Script
from store.shelf import CREATOR, fill
from treadle.core.events import LlmEvent, UserInput
from treadle.core.llm import LlmResponse
from treadle.core.messages import Message
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import Configured
from treadle.thread.typed_words import strip_additions

ECHO = '[[replies]]\ntext = "Yes."\n'


@pytest.fixture
def store(environment: dict[str, str]) -> LocalStore:
    return LocalStore(Places.find(environment), program="treadle run")


@pytest.fixture
def thread(treadle: Run, script: Script, once: Once[str]) -> str:
    """A conversation of one turn."""

    def make() -> str:
        treadle("-p", "first", "-m", script(ECHO))
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


@pytest.fixture
def held(store: LocalStore, thread: str) -> Iterator[ThreadWriter]:
    """The thread, open in this process, in the middle of a turn."""
    writer = store.open(thread)
    fill(writer, (UserInput(Message.user("the other one's")),))
    yield writer
    writer.close()


def prompts(store: LocalStore, thread: str) -> list[str]:
    """What a person said on a thread."""
    said = store.load(thread).fold.conversation
    return [strip_additions(one.content) for one in said if one.role == "user"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["resume", "ID"],
        ["resume", "ID", "-p", "mine"],
        ["-r", "ID", "-p", "mine"],
        ["-c", "-p", "mine"],
        ["compact", "ID"],
    ],
)
def test_where_nobody_can_be_asked_the_holder_is_named_and_nothing_is_changed(
    treadle: Run, store: LocalStore, held: ThreadWriter, arguments: list[str]
) -> None:
    before = store.scan(held.thread_id).records
    done = treadle(*(held.thread_id if word == "ID" else word for word in arguments))
    assert (done.returncode, done.stdout) == (75, "")
    host = os.uname().nodename
    assert f"is open in another process: pid {os.getpid()} on {host}, since 2" in done.stderr
    assert "UTC (treadle run)" in done.stderr
    assert f"treadle watch {held.thread_id}" in done.stderr
    assert store.scan(held.thread_id).records == before
    assert len(store.ids()) == 1


class Asked(Terminal):
    """`treadle` in a terminal, until it asks what to do about a busy thread."""

    def __init__(self, cwd: Path, environment: dict[str, str], *arguments: str) -> None:
        program = [sys.executable, "-m", "treadle", *arguments]
        super().__init__("", cwd, environment, program)
        self.read_until("[q]uit: ")


def test_in_a_terminal_a_person_may_leave_it(
    held: ThreadWriter, repository: Path, environment: dict[str, str], store: LocalStore
) -> None:
    terminal = Asked(repository, environment, "resume", held.thread_id, "-p", "mine")
    assert f"pid {os.getpid()}" in terminal.shown
    terminal.type("maybe\rq\r")
    terminal.read_to_the_end()
    assert terminal.process.wait() == 75
    assert "mine" not in prompts(store, held.thread_id)
    assert len(store.ids()) == 1


@pytest.mark.parametrize(
    ("command", "answer"), [("resume", "w"), ("resume", "watch"), ("compact", "W")]
)
def test_in_a_terminal_a_person_may_watch_it(
    held: ThreadWriter, repository: Path, environment: dict[str, str], command: str, answer: str
) -> None:
    terminal = Asked(repository, environment, command, held.thread_id)
    assert "[f]ork" not in terminal.shown  # there is nothing to say there
    terminal.type(f"{answer}\r")
    terminal.read_until("the other one's")
    said = LlmEvent.Completed(LlmResponse(Message("assistant", "said meanwhile")))
    fill(held, (said,))
    terminal.read_until("said meanwhile")
    held.close()
    assert "the thread is idle" in terminal.read_to_the_end()
    assert terminal.process.wait() == 0


def test_in_a_terminal_a_person_may_go_on_in_a_fork(
    held: ThreadWriter, repository: Path, environment: dict[str, str], store: LocalStore
) -> None:
    """What the other process is in the middle of is left to it."""
    thread = held.thread_id
    before = store.scan(thread).records
    terminal = Asked(repository, environment, "resume", thread, "-p", "mine", "--no-commit")
    terminal.type("f\r")
    assert "Yes." in terminal.read_to_the_end()
    assert terminal.process.wait() == 0
    (fork,) = set(store.ids()) - {thread}
    assert fork[-8:] in terminal.shown
    assert prompts(store, fork) == ["first", "mine"]
    assert prompts(store, thread) == ["first", "the other one's"]
    assert store.scan(thread).records == before
    base = store.load(fork).fold.header.base
    assert base is not None
    assert (base.thread, base.version) == (thread, before[-2].seq)


def test_a_task_that_is_busy_is_not_forked(
    treadle: Run,
    script: Script,
    repository: Path,
    environment: dict[str, str],
    store: LocalStore,
) -> None:
    treadle("run", "a task", "-m", script(ECHO))
    (task,) = store.ids()
    writer = store.open(task)
    terminal = Asked(repository, environment, "resume", task)
    assert "[f]ork" not in terminal.shown
    terminal.type("q\r")
    terminal.read_to_the_end()
    assert terminal.process.wait() == 75
    writer.close()


def test_who_closes_the_terminal_instead_of_answering_has_changed_nothing(
    held: ThreadWriter, repository: Path, environment: dict[str, str], store: LocalStore
) -> None:
    terminal = Asked(repository, environment, "resume", held.thread_id, "-p", "mine")
    terminal.type("\x04")
    terminal.read_to_the_end()
    assert terminal.process.wait() == 130
    assert len(store.ids()) == 1


RACER = """
import subprocess, sys
thread, name, count = sys.argv[1:]
print("ready", flush=True)
input()
command = [sys.executable, "-m", "treadle", "-r", thread, "--no-commit", "-p"]
for number in range(int(count)):
    while True:
        code = subprocess.run(
            [*command, f"{name} {number}"], stdin=subprocess.DEVNULL, capture_output=True
        ).returncode
        if code == 0:
            break
        assert code == 75, code
"""


def test_two_that_race_for_a_thread_lose_no_turn_and_mix_none(
    thread: str, store: LocalStore, repository: Path, environment: dict[str, str]
) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, thread, name, "5"],
            cwd=repository,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("ann", "bob")
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == b"ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"\n")
        racer.stdin.flush()
    for racer in racers:
        racer.communicate()
    assert [racer.returncode for racer in racers] == [0, 0]
    said = store.load(thread).fold.conversation
    assert [message.role for message in said] == ["user", "assistant"] * 11
    for name in ("ann", "bob"):
        mine = [text for text in prompts(store, thread) if text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(5)]


def test_a_fork_of_what_has_only_begun_goes_on_from_there(
    store: LocalStore, repository: Path, environment: dict[str, str], script: Script
) -> None:
    """No turn has ended yet: the fork has nothing of it."""
    writer = store.create(CREATOR, workspace=str(repository))
    fill(writer, (Configured(store.load(writer.thread_id).fold.machine.config),))
    fill(writer, (UserInput(Message.user("the other one's")),))
    terminal = Asked(
        *(repository, environment, "resume", writer.thread_id, "-m", script(ECHO)),
        *("-p", "mine", "--no-commit"),
    )
    terminal.type("f\r")
    assert "Yes." in terminal.read_to_the_end()
    assert terminal.process.wait() == 0
    (fork,) = set(store.ids()) - {writer.thread_id}
    assert prompts(store, fork) == ["mine"]
    writer.close()


@pytest.mark.usefixtures("held")
def test_the_fork_of_a_busy_thread_leaves_out_what_is_under_way(
    treadle: Run, store: LocalStore, thread: str
) -> None:
    count = len(store.scan(thread).records)
    done = treadle("fork", thread)
    assert done.returncode == 0
    assert "another process has it open: what is under way there stays there" in done.stderr
    assert "work was in the middle there" not in done.stderr
    assert prompts(store, done.stdout.strip()) == ["first"]
    asked = treadle("fork", thread, "--version", str(count))
    assert "work was in the middle there" in asked.stderr
    assert prompts(store, asked.stdout.strip()) == ["first", "the other one's"]
