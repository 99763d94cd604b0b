"""A machine of a person, and a device of theirs that may answer there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from cli.teams import Machine
from terminal.talks import BRISK, SCRIPT, Talk


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
