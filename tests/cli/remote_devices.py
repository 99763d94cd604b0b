"""A machine of a person, and a device of theirs that may answer there."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from cli.teams import Machine, Team
from terminal.talks import BRISK, SCRIPT, Talk
from treadle import LocalStore
from treadle.api.types import NewRemoteRequest
from treadle.app.remote.paired_keys import read_device_key, read_machine_keys
from treadle.app.remote.statements import RemoteStatement
from treadle.server.data.schema import remote_requests
from treadle.store.id_beginnings import make_thread_id
from treadle.store.paths import Places
from treadle.sync.credentials import require_account
from treadle.sync.request_client import RequestClient
from treadle.thread.question_digest import digest_question


def join(machine: Machine, device: Machine) -> None:
    """Pair the two; both show the same fingerprint."""
    with begin(machine, "remote", "pair") as pairing:
        assert pairing.stdout is not None
        found = re.search(r"treadle remote join (\S+)", pairing.stdout.readline())
        assert found is not None
        told = device("remote", "join", found[1], "--name", "phone")
        assert told.returncode == 0, told.stderr
        said = pairing.communicate(timeout=60)[0]
    fingerprint = re.search(r"key of this device is (\S+):", told.stderr)
    assert fingerprint is not None
    assert f"its key is {fingerprint[1]}" in said


def begin(machine: Machine, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "treadle", *arguments],
        cwd=machine.folder,
        env={**machine.environment, "TREADLE_HOME": str(machine.home)},
        stdout=subprocess.PIPE,
        text=True,
    )


def start_chat(
    machine: Machine,
    *arguments: str,
    script: str = SCRIPT,
    constants: Mapping[str, float] = BRISK,
) -> Talk:
    """The chat on a machine that takes answers."""
    name = machine.folder / "talk.toml"
    name.write_text(script)
    model = () if "-r" in arguments else ("-m", f"scripted:{name}")
    environment = {
        **machine.environment,
        "TREADLE_HOME": str(machine.home),
        "TREADLE_REMOTE": "answer",
    }
    told = ("--approval-mode", "ask", *model, *arguments)
    return Talk(machine.folder, environment, told, constants=constants)


def records(machine: Machine, thread: str) -> list[dict[str, Any]]:
    """What its journal holds."""
    return [json.loads(line)["event"] for line in machine.journal(thread).splitlines()]


def sync_question(device: Machine, thread: str, *call: str) -> None:
    """The device has the question: its machine sends it a moment after it was asked."""
    for _ in range(100):
        device("sync")
        if device("remote", "answer", thread, *call).returncode == 0:
            return
    raise AssertionError(device("remote", "answer", thread, *call).stderr)


@contextmanager
def on_device(machine: Machine) -> Iterator[None]:
    """The variables of a machine, for what is called in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREADLE_HOME", str(machine.home))
        yield


class Device:
    """A device with a server that puts whatever it likes where a machine looks.

    Args:
        machine: whose session listens.
        device: who may answer there, and is logged in as the same person.
        ends: at its end it speaks with the server no more.
    """

    def __init__(self, machine: Machine, device: Machine, ends: ExitStack) -> None:
        keys = read_machine_keys(Places.below(machine.home))
        own = read_device_key(Places.below(device.home))
        assert keys is not None
        assert own is not None
        self._store = LocalStore(Places.below(machine.home))
        self.machine, self.key = keys.machine, bytes.fromhex(own.private_key)
        with on_device(device):
            account = require_account(Places.below(device.home), os.environ)
        self.client = ends.enter_context(RequestClient(account))

    def make_id(self) -> str:
        return f"of-this-device-{secrets.token_hex(8)}"

    def begin(self, prompt: str, **more: Any) -> RemoteStatement:
        """That a conversation is to be begun."""
        whole = (self.make_id(), self.machine, make_thread_id(), "start", in_time(600))
        return replace(RemoteStatement(*whole, "", "", prompt), **more)

    def say(self, thread: str, **more: Any) -> RemoteStatement:
        """A yes to the open question of a thread."""
        (question,) = self._store.load(thread).fold.machine.questions
        ground = digest_question(thread, question)
        whole = (self.make_id(), self.machine, thread, "approve", in_time(600))
        return replace(RemoteStatement(*whole, question.call.id, ground, ""), **more)

    def put(self, body: bytes, thread: str | None, request_id: str = "") -> str:
        """Have the machine be told this of a thread; the id that it is told."""
        request_id = request_id or self.make_id()
        text = body.decode("utf-8", "replace")
        self.client.leave(NewRemoteRequest(request_id, self.machine, in_time(600), text, thread))
        return request_id

    def wait(self, *request_ids: str) -> list[str]:
        """What has become of them, when something has."""
        end = time.monotonic() + 60
        while True:
            found = [self.client.get(one).state for one in request_ids]
            if not {"waiting", "taken"} & {*found}:
                return found
            assert time.monotonic() < end, found


def in_time(seconds: int) -> str:
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def put_back(team: Team, request_id: str, body: bytes) -> None:
    """Have a request that is over wait again, as if nobody had seen it."""
    again = update(remote_requests).where(remote_requests.c.id == request_id)
    again = again.values(state="waiting", body=body.decode())
    team.running.database.run(lambda db: db.execute(again), is_write=True)
