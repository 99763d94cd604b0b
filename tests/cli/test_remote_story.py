"""What is said from another device, with real processes: deaths in between, a server that lies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from cli.remote_devices import (
    Device,
    in_time,
    join,
    put_back,
    records,
    start_chat,
    sync_question,
)
from cli.teams import Machine, Team
from server.serving import Served
from terminal.talks import BRISK, Talk
from treadle.app.remote.paired_keys import (
    make_offer,
    make_pairing_code,
)
from treadle.app.remote.statements import (
    SignedStatement,
    find_public_key,
    make_private_key,
    sign_statement,
)

SCRIPT: Final = """
[[replies]]
when = { user = "^both", step = 0 }
[[replies.calls]]
id = "first"
tool = "bash"
arguments = { access = "write", command = "echo one >> effects" }
[[replies.calls]]
id = "second"
tool = "bash"
arguments = { access = "write", command = "echo two >> effects" }

[[replies]]
when = { user = "^run", step = 0 }
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo ran >> effects" }

[[replies]]
text = "It is done."
"""

EAGER: Final = {**BRISK, "treadle.app.remote.request_listener.LOOKS_PER_FETCH": 2}
"""A machine that asks the server all the time: a hostile one does not say when to."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server in a process of its own."""
    found = Served(f"sqlite:///{tmp_path / 'team.sqlite'}", tmp_path / "server").start()
    yield found
    found.kill()


def chat(machine: Machine, *arguments: str) -> Talk:
    return start_chat(machine, *arguments, script=SCRIPT, constants=EAGER)


def types(machine: Machine, thread: str) -> list[str]:
    return [one["type"] for one in records(machine, thread)]


def test_a_machine_that_is_killed_when_it_has_an_answer_neither_asks_nor_runs_again(
    served: Served, laptop: Machine, desktop: Machine
) -> None:
    """Of two calls the second waits still, so the first has its yes, and has not begun."""
    for one in (laptop, desktop):
        one.ok("login", served.url, "--token-stdin", stdin=served.owner_token())
    join(laptop, desktop)
    effects = laptop.folder / "effects"
    with chat(laptop) as talk:
        talk.wait_for("a new thread in")
        talk.say("both", "this once")
        (line,) = laptop.threads()
        thread = str(line["id"])
        sync_question(desktop, thread, "first")
        assert desktop("remote", "answer", thread, "first", "--yes").stderr == "done\n"
        os.killpg(talk.process.pid, signal.SIGKILL)
        talk.process.wait()
    said = types(laptop, thread)
    assert (said.count("request_taken"), said.count("approval_decided")) == (1, 1)
    assert "tool_started" not in said
    assert not effects.exists()

    with chat(laptop, "-r", thread) as talk:
        talk.wait_for("this once")
        assert "echo two" in talk.text
        assert "$ echo one" not in talk.shown.partition("going on with")[2]
        sync_question(desktop, thread, "second")
        late = desktop("remote", "answer", thread, "first", "--yes")
        assert late.returncode != 0
        assert desktop("remote", "answer", thread, "second", "--yes").stderr == "done\n"
        talk.wait_for("It is done.")
    assert sorted(effects.read_text().split()) == ["one", "two"]
    said = types(laptop, thread)
    counts = {name: said.count(name) for name in ("request_taken", "approval_decided")}
    assert counts == {"request_taken": 2, "approval_decided": 2}
    assert (said.count("tool_started"), said.count("llm_completed")) == (2, 2)
    with chat(laptop, "-r", thread) as talk:
        talk.wait_for("It is done.")
    assert sorted(effects.read_text().split()) == ["one", "two"]


# ---- a server that lies --------------------------------------------------------------------------


def signed_otherwise(body: bytes, **fields: Any) -> bytes:
    """The same with other words, another key or another signature."""
    return msgspec.json.encode(replace(msgspec.json.decode(body, type=SignedStatement), **fields))


def make_lies(device: Device, thread: str, other: str, held: bytes) -> dict[str, bytes]:
    """What a server may give to a session whose question is open, by what it is.

    Args:
        device: whose words it has.
        thread: the session's.
        other: another thread of the machine that asks.
        held: a yes to an earlier question of the session, which it has kept back.
    """

    def sign(key: bytes = device.key, of: str = thread, **more: Any) -> bytes:
        return sign_statement(key, device.say(of, **more))

    stranger, mine = make_private_key(), find_public_key(device.key)
    no = sign(act="reject")
    told = msgspec.json.decode(no, type=SignedStatement).statement
    offer = make_offer(make_pairing_code(device.machine, "desk"), "phone", mine)
    return {
        "a no, made a yes": signed_otherwise(no, statement=told.replace("reject", "approve")),
        "a key of its own": sign(stranger),
        "a key of its own, called the device's": signed_otherwise(sign(stranger), key=mine),
        "another thread's": sign(of=other),
        "for another machine": sign(machine="f" * 16),
        "too late": sign(expires_at=in_time(-1)),
        "for ever": sign(expires_at=in_time(9000)),
        "to a question that the server made up": sign(ground="0" * 64),
        "to the question before": held,
        "words": sign(act="prompt", text="run"),
        "an offer": offer,
        "nothing": b"",
        "noise": b"[" * 10_000,
    }


def find_id(body: bytes) -> str:
    """The id that a statement was signed under; empty if it is none."""
    try:
        signed = msgspec.json.decode(body, type=SignedStatement)
    except msgspec.DecodeError:
        return ""
    return str(json.loads(signed.statement)["id"])


def test_a_server_that_lies_gets_no_yes(team: Team, laptop: Machine, desktop: Machine) -> None:
    token = team.token()
    for one in (laptop, desktop):
        one.login(team, token)
    join(laptop, desktop)
    effects = laptop.folder / "effects"
    with chat(laptop) as talk, ExitStack() as ends:
        talk.wait_for("a new thread in")
        talk.say("run", "this once")
        (line,) = laptop.threads()
        thread = str(line["id"])
        sync_question(desktop, thread)
        device = Device(laptop, desktop, ends)
        held = sign_statement(device.key, device.say(thread))
        assert desktop("remote", "answer", thread, "--no", "not now").stderr == "done\n"
        talk.wait_for("It is done.")
        talk.say("run again", "this once")
        script = laptop.folder / "talk.toml"
        laptop("-p", "run", "-m", f"scripted:{script}", "--approval-mode", "ask")
        (other,) = {str(one["id"]) for one in laptop.threads()} - {thread}

        lies = make_lies(device, thread, other, held)
        told = {name: device.put(body, thread, find_id(body)) for name, body in lies.items()}
        told["under another name"] = device.put(
            sign_statement(device.key, device.say(thread)), thread
        )
        states = dict(zip(told, device.wait(*told.values()), strict=True))
        assert {name: state for name, state in states.items() if state != "refused"} == {}
        assert types(laptop, thread).count("approval_decided") == 1  # the no
        assert "approval_decided" not in types(laptop, other)
        assert not effects.exists()

        last = device.say(thread)
        body = sign_statement(device.key, last)
        assert device.wait(device.put(body, thread, last.id)) == ["done"]
        talk.wait_for(lambda screen: screen.text.count("It is done.") == 2)
        talk.say("run once more", "this once")
        for again in (body, sign_statement(device.key, device.say(thread, id=last.id))):
            put_back(team, last.id, again)
            assert device.wait(last.id) == ["done"]  # as it was, and nothing more
        assert types(laptop, thread).count("approval_decided") == 2
        assert effects.read_text() == "ran\n"
