"""`treadle watch`: what another process does with a thread, while it does it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from cli.conftest import Run
from cli.test_model_wiring import configure, local
from cli.test_signals import SLOW, Script, Turn
from models.loopback import Answer, Loopback, sse
from store.shelf import CREATOR, fill
from thread.journals import EVERY_ENTRY
from treadle.app.threads.thread_watch import FIRST_RECORDS_MAX
from treadle.cli.watch_text import WatchFormatter, WatchLine
from treadle.core.events import LlmEvent, ToolCompleted, UserInput
from treadle.core.llm import LlmResponse
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.store.live_answer import live_answer_path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import CommandBegun, CommandShown, InputQueued, Recovered
from treadle.thread.record import Record, encode_batch, scan_journal

IDLE = "the thread is idle, and nobody works on it"


class Watch:
    """`treadle watch` in a process of its own."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "watch", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.lines: Iterator[str] = iter(self.process.stdout)
        self.notices: Iterator[str] = iter(self.process.stderr)

    def read_until(self, words: str) -> list[str]:
        return _until(self.lines, words)

    def notice(self, words: str) -> list[str]:
        return _until(self.notices, words)

    def end(self) -> int:
        self.process.communicate()
        return self.process.returncode


def _until(lines: Iterator[str], words: str) -> list[str]:
    found: list[str] = []
    for line in lines:
        found.append(line)
        if words in line:
            return found
    raise AssertionError(f"{words!r} is not among {found}")


@pytest.fixture
def store(environment: dict[str, str]) -> LocalStore:
    return LocalStore(Places.find(environment), program="a test")


@pytest.fixture
def thread(store: LocalStore) -> str:
    """A conversation of two turns."""
    writer = store.create(CREATOR)
    for prompt, answer in (("first", "One."), ("second", "Two.\x1b[2J")):
        fill(writer, (UserInput(Message.user(prompt)), _said(answer)))
    writer.close()
    return writer.thread_id


def _said(text: str, *calls: ToolCall) -> Entry:
    return LlmEvent.Completed(LlmResponse(Message("assistant", text, calls)))


def test_of_a_thread_that_is_idle_the_last_turn_is_shown(treadle: Run, thread: str) -> None:
    done = treadle("watch", thread[:12])
    assert (done.returncode, done.stderr.splitlines()) == (0, [IDLE])
    assert done.stdout.splitlines() == ["user:", "second", "assistant:", "Two.�[2J"]


@pytest.mark.parametrize("since", range(1, 7))
def test_as_json_each_record_from_a_version_on_is_a_line(
    treadle: Run, store: LocalStore, thread: str, since: int
) -> None:
    done = treadle("watch", thread, "--json", "--from", str(since))
    assert (done.returncode, done.stderr.splitlines()) == (0, [IDLE])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = store.scan(thread).records[since - 1 :]
    assert [(line["seq"], line["at"]) for line in lines] == [(r.seq, r.at) for r in wanted]
    for line, record in zip(lines, wanted, strict=True):
        assert line["event"] == msgspec.json.decode(record.event)
        assert line["type"] == line["event"]["type"]


def test_a_turn_of_very_many_records_is_shown_from_its_middle(
    treadle: Run, store: LocalStore, thread: str
) -> None:
    writer = store.open(thread)
    count = FIRST_RECORDS_MAX + 50
    many = tuple(Recovered(f"number {number}") for number in range(count))
    fill(writer, (UserInput(Message.user("third")), *many))
    writer.close()
    done = treadle("watch", thread)
    assert "the first 51 records of this turn are left out" in done.stderr
    assert done.stdout.splitlines()[0].endswith("number 50")
    assert done.stdout.splitlines()[-1].endswith(f"number {count - 1}")


def test_a_thread_that_is_not_there_is_a_wrong_use(treadle: Run) -> None:
    assert treadle("watch", "0190").returncode == 2


def test_a_turn_is_followed_from_its_prompt_to_its_end(
    repository: Path, environment: dict[str, str], script: Script, treadle: Run
) -> None:
    turn = Turn(repository, environment, script(SLOW))
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    watch = Watch(environment, thread)
    (opened,) = watch.notice("is open in")
    assert f"pid {turn.process.pid} on {os.uname().nodename}" in opened
    assert watch.read_until("cat fifo")[:4] == ["user:\n", "go\n", "assistant:\n", "I run it.\n"]
    os.write(turn.fifo, b"through\n")
    os.close(turn.fifo)
    assert "  through\n" in watch.read_until("It went through.")
    turn.process.communicate()
    watch.notice(IDLE)
    assert watch.end() == turn.process.returncode == 0


def test_when_the_process_that_works_is_killed_the_way_to_go_on_is_told(
    repository: Path, environment: dict[str, str], script: Script, treadle: Run
) -> None:
    turn = Turn(repository, environment, script(SLOW))
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    watch = Watch(environment, thread)
    watch.read_until("cat fifo")
    turn.process.kill()
    turn.process.communicate()
    os.close(turn.fifo)
    watch.notice(f"left unfinished, and nobody works on it: treadle resume {thread}")
    assert watch.end() == 0


class Writing:
    """A turn whose answer comes in pieces."""

    def __init__(self, repository: Path, environment: dict[str, str], model: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "-p", "go gladly", "-m", model, "--no-commit"],
            cwd=repository,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _being_worked_on(store: LocalStore) -> str:
    """The thread that begins, as soon as it is there."""
    end, pause = time.monotonic() + 60, threading.Event()
    while not (found := store.folders.ids()):
        assert time.monotonic() < end
        pause.wait(0.01)
    return found[0]


def piece(text: str, finish: str | None = None) -> bytes:
    """A part of an answer, as the server sends it."""
    delta = {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return sse({**head, "choices": [choice]}, done=finish is not None)


async def test_an_answer_grows_while_it_is_written_and_is_not_shown_twice(
    repository: Path, environment: dict[str, str], store: LocalStore
) -> None:
    is_seen = asyncio.Event()

    async def said() -> AsyncIterator[bytes]:
        yield piece("It begins\nand ")
        await is_seen.wait()
        yield piece("goes on\n")
        yield piece("to its end.", "stop")

    def follow() -> list[str]:
        thread = _being_worked_on(store)
        watch = Watch(environment, thread)
        shown = watch.read_until("It begins")
        assert shown[:2] == ["user:\n", "go gladly\n"]
        assert "llm_completed" not in {_type(record) for record in store.scan(thread).records}
        assert live_answer_path(store.places, thread).exists()
        loop.call_soon_threadsafe(is_seen.set)
        shown += watch.read_until("to its end.")
        turn.process.communicate()
        watch.notice(IDLE)
        shown += list(watch.lines)
        assert (watch.end(), turn.process.returncode) == (0, 0)
        assert not live_answer_path(store.places, thread).exists()
        return shown

    loop = asyncio.get_running_loop()
    async with Loopback(Answer(said)) as server:
        configure(environment, local("mine", server))
        turn = Writing(repository, environment, "mine:m")
        shown = await asyncio.to_thread(follow)
    wanted = ["assistant:\n", "It begins\n", "and goes on\n", "to its end.\n"]
    assert shown[2:] == wanted


def test_the_last_words_of_a_killed_process_are_shown_to_nobody_who_comes_later(
    repository: Path,
    environment: dict[str, str],
    script: Script,
    store: LocalStore,
    treadle: Run,
) -> None:
    model = script(
        '[[replies]]\ntext = "It begins\\nand"\nhang = true\n[[replies]]\ntext = "Done."\n'
    )
    turn = Writing(repository, environment, model)
    thread = _being_worked_on(store)
    watch = Watch(environment, thread)
    watch.read_until("It begins")
    turn.process.kill()
    turn.process.communicate()
    watch.notice("left unfinished")
    assert watch.end() == 0
    assert live_answer_path(store.places, thread).exists(), "nobody could remove it"
    assert "It begins" not in treadle("watch", thread).stdout
    writer = store.open(thread)  # by a program that tells nothing of what is said
    late = Watch(environment, thread)
    late.notice("is open in")
    writer.close()
    assert "It begins" not in "".join(late.lines)
    late.end()
    done = treadle("scrub", thread, "-", "--yes", stdin="gladly")
    assert done.returncode == 0, done.stderr
    assert not live_answer_path(store.places, thread).exists()


def test_a_thread_that_waits_for_a_yes_says_how_to_give_it(treadle: Run, script: Script) -> None:
    call = '{ tool = "bash", arguments = { access = "write", command = "true" } }'
    ask = f"[[replies]]\ncalls = [{call}]\n"
    first = treadle("-p", "go", "-m", script(ask), "--approval-mode", "ask")
    assert first.returncode == 4
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    done = treadle("watch", thread)
    assert f"it waits for a yes, and nobody works on it: treadle approve {thread}" in done.stderr
    assert done.returncode == 0


def test_a_watch_that_is_kept_sees_the_next_writers_too_until_it_is_interrupted(
    store: LocalStore, environment: dict[str, str], thread: str
) -> None:
    watch = Watch(environment, thread, "--keep", "--json")
    watch.notice(IDLE)
    for text in ("third", "fourth"):
        writer = store.open(thread)
        fill(writer, (UserInput(Message.user(text)), _said("Yes.")))
        watch.read_until("Yes.")
        writer.close()
        watch.notice(IDLE)
    watch.process.send_signal(signal.SIGINT)
    assert watch.end() == 130


def test_a_session_that_waits_for_its_person_is_watched_on(
    store: LocalStore, environment: dict[str, str], thread: str
) -> None:
    writer = store.open(thread)
    watch = Watch(environment, thread, "--json")
    watch.read_until("Two.")
    fill(writer, (InputQueued(Message.user("and this?")),))
    watch.read_until("and this?")
    writer.close()
    assert watch.end() == 0


def test_watching_disturbs_no_writer_and_changes_no_file(
    treadle: Run, store: LocalStore, thread: str, environment: dict[str, str]
) -> None:
    data = Path(environment["TREADLE_HOME"]) / "data"
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    treadle("watch", thread)
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_what_was_rewritten_meanwhile_is_shown_as_it_stands_now(
    store: LocalStore, environment: dict[str, str], thread: str
) -> None:
    watch = Watch(environment, thread, "--keep", "--from", "1")
    watch.read_until("Two.")
    journal = Path(store.folders.path(thread, ".jsonl"))
    records = scan_journal(journal.read_bytes()).records
    events = [bytes(r.event).replace(b"second", b"hidden") for r in records]
    data, _ = encode_batch(scan_journal(b"").head, records[0].at, events)
    draft = journal.with_suffix(".draft")
    draft.write_bytes(data)
    draft.rename(journal)
    watch.notice("records that were shown were rewritten")
    assert "hidden\n" in watch.read_until("Two.")
    watch.process.send_signal(signal.SIGINT)
    assert watch.end() == 130


@pytest.mark.parametrize(("place", "words"), [("trash", "in the trash now"), ("", "is gone")])
def test_the_watch_ends_when_the_thread_is_put_away(
    store: LocalStore, environment: dict[str, str], thread: str, place: str, words: str
) -> None:
    watch = Watch(environment, thread, "--keep")
    watch.notice(IDLE)
    trash = Path(store.folders.trash)
    trash.mkdir()
    for suffix in (".json", ".jsonl"):
        path = Path(store.folders.path(thread, suffix))
        if place:
            path.rename(trash / path.name)
        else:
            path.unlink()
    watch.notice(words)
    assert watch.end() == 0


# ---- the words -----------------------------------------------------------------------------------


def _type(record: Record) -> str:
    return str(msgspec.json.decode(record.event)["type"])


def _record(entry: Entry) -> Record:
    data, _ = encode_batch(
        scan_journal(b"").head, "2026-11-21T08:15:30.000000Z", [encode_entry(entry)[1]]
    )
    return scan_journal(data).records[0]


def test_every_kind_of_record_can_be_told() -> None:
    told = {
        type(entry).__qualname__: list(WatchFormatter().format_record(_record(entry)))
        for entry in EVERY_ENTRY
    }
    silent = {name for name, lines in told.items() if not lines}
    assert silent <= {
        *("Configured", "ContextObserved", "ExtraSet", "FilesSaved", "GitObserved", "Pinned"),
        *("PostToolsHookCompleted", "RetryTimeoutFired", "Tagged", "TaskResumed", "ToolStarted"),
    }
    assert len(told) > 30


def test_a_record_of_a_newer_program_is_told_as_such() -> None:
    data, _ = encode_batch(scan_journal(b"").head, "2026", [b'{"type":"of tomorrow"}'])
    (line,) = WatchFormatter().format_record(scan_journal(data).records[0])
    assert line == WatchLine("aside", "record 1 was written by a newer Treadle")


def test_of_several_calls_each_result_names_its_own() -> None:
    calls = [ToolCall(name, "bash", json.dumps({"command": f"run {name}"})) for name in "ab"]
    narrator = WatchFormatter()
    assert [line.text for line in narrator.format_record(_record(_said("", *calls)))] == [
        "$ run a",
        "$ run b",
    ]
    for name in "ba":
        outcome = ToolExecutionOutcome.Success(name, f"output of {name}")
        assert [
            line.text for line in narrator.format_record(_record(ToolCompleted(name, outcome)))
        ] == [
            f"$ run {name}:",
            f"output of {name}",
        ]


def test_of_commands_that_began_those_are_told_whose_end_and_telling_did_not_come() -> None:
    narrator = WatchFormatter()
    begun = [CommandBegun(name, f"make {name}", "/w") for name in "abc"]
    ended = CommandShown("make b", "", 0, "b")
    lines = [line for entry in begun[:2] for line in narrator.format_record(_record(entry))]
    assert [line.text for line in lines] == ["a person runs $ make a", "a person runs $ make b"]
    assert len(list(narrator.format_record(_record(ended)))) == 2
    assert [words.partition(":")[0] for words in narrator.unfinished_commands] == [
        "a person began $ make a in /w"
    ]
    for entry in (UserInput(Message.user("go")), begun[2]):
        list(narrator.format_record(_record(entry)))
    assert [words.partition(":")[0] for words in narrator.unfinished_commands] == [
        "a person began $ make c in /w"
    ]
