"""A machine at which nobody sits: it begins what a device asks for, asks it, and goes on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

import warm_process
from cli.remote_devices import Device, in_time, join, put_back, records, sync_question
from cli.teams import Machine, Team
from treadle.app.remote.remote_answers import start_remotely
from treadle.app.remote.request_listener import claim_request
from treadle.app.remote.statements import RemoteStatement, make_private_key, sign_statement
from treadle.app.sessions.listener_ledger import ListenerLedger
from treadle.cli import remote_words_command
from treadle.errors import UsageError
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

SCRIPT: Final = """
[[replies]]
when = { user = "^run", step = 0 }
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo ran >> effects" }

[[replies]]
when = { user = "^leave", step = 0 }
[[replies.calls]]
tool = "bash"
arguments = { access = "write", outside = true, command = "echo out >> effects" }

[[replies]]
when = { user = "hello" }
text = "Hello there."

[[replies]]
text = "It is done."
"""

BRISK: Final = {
    "treadle.app.sessions.machine_listener.LOOK_S": 0.03,
    "treadle.app.sessions.machine_listener.LOOKS_PER_FETCH": 1,
    "treadle.app.remote.request_listener.LOOKS_PER_FETCH": 2,
}
"""A machine that asks the server all the time."""


class Listener(Struct, frozen=True):
    """`treadle remote listen` at work, and where it says what it does."""

    process: warm_process.WarmProcess
    log: Path

    def wait_for(self, words: str) -> None:
        """It has said that."""
        until(lambda: words in self.log.read_text(), self.log.read_text)

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def listening(machine: Machine, *arguments: str, mode: str = "ask") -> Iterator[Listener]:
    """It, killed at the end."""
    script = machine.folder / "talk.toml"
    script.write_text(SCRIPT)
    environment = {
        **machine.environment,
        "TREADLE_HOME": str(machine.home),
        "TREADLE_MODEL": f"scripted:{script}",
        "TREADLE_APPROVAL_MODE": mode,
    }
    log = machine.home.with_name(f"listen-{time.monotonic_ns()}.log")
    with log.open("wb") as said, Path(os.devnull).open("rb") as nothing:
        handles = (nothing.fileno(), said.fileno(), said.fileno())
        order = ("remote", "listen", *arguments)
        process = warm_process.start(order, machine.folder, environment, handles, constants=BRISK)
    listener = Listener(process, log)
    try:
        listener.wait_for("listening at")
        yield listener
    finally:
        listener.kill()


def until(is_so: Callable[[], bool], tell: Callable[[], Any]) -> None:
    """Look until something is so; what is told if it is not for a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, tell()
        threading.Event().wait(0.02)  # the server works in this process too


def wait_for_answer(machine: Machine, thread: str, words: str) -> None:
    until(lambda: words in str(records(machine, thread)), lambda: records(machine, thread))


def effects(machine: Machine) -> str:
    path = machine.folder / "effects"
    return path.read_text() if path.exists() else ""


def types(machine: Machine, thread: str) -> list[str]:
    return [one["type"] for one in records(machine, thread)]


@pytest.fixture
def pair(
    team: Team, laptop: Machine, desktop: Machine, monkeypatch: pytest.MonkeyPatch
) -> tuple[Machine, Machine]:
    """A machine that may be asked to begin something, and a device that may ask it."""
    monkeypatch.setattr(remote_words_command, "WAIT_S", 60.0)
    token = team.token()
    for one in (laptop, desktop):
        one.login(team, token)
    join(laptop, desktop)
    laptop.ok("config", "set", "remote", "start")
    return laptop, desktop


def put(device: Device, said: RemoteStatement, key: bytes = b"") -> str:
    """Leave a beginning at the server."""
    return device.put(sign_statement(key or device.key, said), None, said.id)


def why(device: Device, request_id: str) -> str:
    """What became of a request, once something has."""
    (state,) = device.wait(request_id)
    return f"{state}: {device.client.get(request_id).why}"


def test_a_device_begins_a_conversation_answers_it_and_goes_on_with_it(
    team: Team, pair: tuple[Machine, Machine]
) -> None:
    laptop, phone = pair
    with listening(laptop) as listener:
        begun = phone("remote", "start", "run")
        assert begun.returncode == 0
        assert "begun there" in begun.stderr
        thread = begun.stdout.strip()
        listener.wait_for("it waits for an answer")
        sync_question(phone, thread)
        assert phone("remote", "answer", thread, "--yes").stderr == "done\n"
        wait_for_answer(laptop, thread, "It is done.")
        assert effects(laptop) == "ran\n"
        taken = [one for one in records(laptop, thread) if one["type"] == "request_taken"]
        assert [one["act"] for one in taken] == ["start", "approve"]
        assert {one["by"].partition(" ")[0] for one in taken} == {"phone"}
        assert phone("remote", "say", thread, "hello").stderr == "done\n"
        wait_for_answer(laptop, thread, "Hello there.")
        listener.wait_for("the turn is done")
        until(lambda: LocalStore(laptop.home).find_holder(thread) is None, listener.log.read_text)
        assert "no turn is running" in phone("remote", "interrupt", thread).stderr

        second = warm_process.run(
            ("remote", "listen"),
            laptop.folder,
            {**laptop.environment, "TREADLE_HOME": str(laptop.home)},
            None,
            60,
        )
        assert "this machine listens already: pid" in second.stderr
    assert len(laptop.threads()) == 1


def test_what_does_not_count_begins_nothing_and_is_told(
    team: Team, pair: tuple[Machine, Machine]
) -> None:
    laptop, phone = pair
    with ExitStack() as ends:
        listener = ends.enter_context(listening(laptop))
        device = Device(laptop, phone, ends)
        good = device.begin("hello")
        assert why(device, put(device, good)) == f"done: {good.thread}"
        listener.wait_for("the turn is done")
        body = sign_statement(device.key, good)

        other = device.begin("hello", thread=good.thread)
        cases = {
            "is there already": put(device, other),
            "not paired": put(device, device.begin("run"), make_private_key()),
            "something else": device.put(sign_statement(device.key, device.begin("run")), None),
            "for another machine": put(device, device.begin("run", machine="f" * 16)),
            "its time is over": put(device, device.begin("run", expires_at=in_time(-1))),
            "no folder 'elsewhere'": put(device, device.begin("run", folder="elsewhere")),
        }
        found = {case: why(device, request_id) for case, request_id in cases.items()}
        assert {one.partition(":")[0] for one in found.values()} == {"refused"}
        del found["for another machine"]
        assert {case: told for case, told in found.items() if case not in told} == {}

        put_back(team, good.id, body)  # as if the server had seen nobody take it
        assert why(device, good.id) == f"done: {good.thread}"

        for mode in ("steer", "answer", "off"):
            laptop.ok("config", "set", "remote", mode)
            assert f"remote = {mode}" in why(device, put(device, device.begin("run")))
        assert "remote = off" in laptop("remote", "listen").stderr
        laptop.ok("config", "set", "remote", "start")

        laptop.ok("remote", "forget", "phone")
        assert "not paired" in why(device, put(device, device.begin("run")))
    assert [one["id"] for one in laptop.threads()] == [good.thread]
    assert types(laptop, good.thread).count("request_taken") == 1
    assert effects(laptop) == ""


def test_what_was_taken_back_or_is_too_late_is_not_begun(pair: tuple[Machine, Machine]) -> None:
    laptop, phone = pair
    with ExitStack() as ends:
        device = Device(laptop, phone, ends)
        back = put(device, device.begin("hello"))
        (seen,) = device.client.list_open(device.machine)
        phone.ok("remote", "withdraw", back)
        assert not claim_request(device.client, seen), "it was seen before it was taken back"

        # A machine that stopped when it had taken one, and went on when its time was over.
        late = device.begin("hello", expires_at=in_time(-1))
        claimed = put(device, late)
        (seen,) = device.client.list_open(device.machine)
        assert claim_request(device.client, seen)
        note_taken(laptop, late)
        with listening(laptop):
            assert "its time was over" in why(device, claimed)
        assert device.client.get(back).state == "withdrawn"
    assert laptop.threads() == []


def note_taken(machine: Machine, said: RemoteStatement) -> None:
    """As a listener that was killed right then had noted it."""
    from treadle.store.thread_requests import PersonRequest

    store = LocalStore(Places.below(machine.home))
    request = PersonRequest(said.id, said.thread, said.act, "phone", said.expires_at)
    with ListenerLedger(store, "a test") as ledger:
        ledger.note(request, store.now())


@pytest.mark.parametrize("moment", ["taken", "begun", "recorded", "waits"])
def test_a_listener_that_is_killed_begins_it_once_and_goes_on_with_it(
    pair: tuple[Machine, Machine], moment: str
) -> None:
    laptop, phone = pair
    with ExitStack() as ends:
        device = Device(laptop, phone, ends)
        said = device.begin("run")
        journal = laptop.home / "data" / "threads" / f"{said.thread}.jsonl"
        moments: dict[str, Callable[[], bool]] = {
            "taken": lambda: device.client.get(said.id).state != "waiting",
            "begun": journal.exists,
            "recorded": lambda: journal.exists() and b"request_taken" in journal.read_bytes(),
            "waits": lambda: journal.exists() and b"llm_completed" in journal.read_bytes(),
        }
        with listening(laptop) as listener:
            put(device, said)
            until(moments[moment], listener.log.read_text)
            listener.kill()
        with listening(laptop):
            assert device.wait(said.id) == ["done"]
            sync_question(phone, said.thread)
            assert phone("remote", "answer", said.thread, "--yes").stderr == "done\n"
            wait_for_answer(laptop, said.thread, "It is done.")
        assert effects(laptop) == "ran\n"
        seen = types(laptop, said.thread)
        assert (seen.count("user_input"), seen.count("tool_started")) == (1, 1)
        assert [
            one["act"] for one in records(laptop, said.thread) if one["type"] == "request_taken"
        ] == [
            "start",
            "approve",
        ]


def test_a_yes_to_a_call_of_critical_risk_counts_only_where_the_user_says_so(
    pair: tuple[Machine, Machine],
) -> None:
    laptop, phone = pair
    with listening(laptop):
        thread = phone("remote", "start", "leave").stdout.strip()
        sync_question(phone, thread)
        assert "critical risk" in phone("remote", "answer", thread, "--yes").stderr
        assert effects(laptop) == ""
        laptop.ok("config", "set", "remote_critical", "true")
        assert phone("remote", "answer", thread, "--yes").stderr == "done\n"
        wait_for_answer(laptop, thread, "It is done.")
    assert effects(laptop) == "out\n"


def test_a_folder_is_meant_by_its_name(pair: tuple[Machine, Machine]) -> None:
    laptop, phone = pair
    for name in ("api", "web"):
        (laptop.folder / name).mkdir()
    with listening(laptop, "-C", "api", "-C", "web") as listener:
        assert "several such folders" in phone("remote", "start", "hello").stderr
        begun = phone("remote", "start", "hello", "--folder", "web")
        created = records(laptop, begun.stdout.strip())[0]
        assert created["workspace"] == str(laptop.folder / "web")
        (laptop.folder / "api").rmdir()
        assert "not on the machine" in phone("remote", "start", "x", "--folder", "api").stderr
        listener.process.terminate()
        assert listener.process.wait(60) == 0


def test_what_a_device_calls_itself_steers_no_terminal(
    pair: tuple[Machine, Machine],
) -> None:
    laptop, phone = pair
    (path,) = laptop.home.rglob("remote_keys.json")
    path.write_text(path.read_text().replace('"phone"', '"\\u0007phone"'))
    assert "\a" not in laptop.ok("remote", "list")
    with listening(laptop) as listener:
        assert "begun there" in phone("remote", "start", "hello").stderr
        listener.wait_for("the turn is done")
        assert "phone (key" in listener.log.read_text()
        assert "\a" not in listener.log.read_text()


def test_a_prompt_that_is_too_long_to_be_signed_is_refused_before_it_is_sent(
    pair: tuple[Machine, Machine],
) -> None:
    _, phone = pair
    with pytest.raises(UsageError, match="too long to be said"):
        start_remotely(LocalStore(phone.home), "\n" * 300_000 + "go")
