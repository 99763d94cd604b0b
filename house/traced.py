"""What an event passes on its way: the files and functions that really run, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from house.source import SRC
from server.serving import Served
from terminal.harness import ENTER, Screen

Called = set[tuple[str, str]]
"""Files below `src/treadle`, each with a function that ran."""

TRACE: Final = Path(__file__).with_name("call_trace.py")
SCRIPT: Final = '[[replies]]\ntext = "Hello."\n'
LAST: Final = r"^models/scripted/provider\.py .*\.stream$"
"""Where the request has arrived at the model."""

CALLING: Final = """[[replies]]
text = "I write it."
calls = [{ tool = "write_file", arguments = { path = "a", content = "b" } }]
"""
QUESTION: Final = r"^terminal/approvals\.py .*\._choose$"
"""Where a person is asked."""

FIRST: Final = r"^sync/"
DRAWING: Final = ("prompt_toolkit", "rich")


def prompt_to_request() -> Called:
    """From Enter in the chat to the request to the model, without drawing and without git."""
    with tempfile.TemporaryDirectory(prefix="treadle-house-") as folder:
        root = Path(folder)
        out = root / "called"
        environment = _environment(root)
        command = _traced(out, ("", LAST), "-m", f"scripted:{root / 'model.toml'}")
        with Screen(command, cwd=root / "work", env=environment) as screen:
            screen.wait_for("a new thread")
            screen.type("hi")
            screen.wait_for("> hi")
            screen.process.send_signal(signal.SIGUSR1)
            screen.type(ENTER)
            screen.wait_for("Hello.")
            screen.type("\x04")
            screen.process.wait()
        called = _read(out)
        if not any(path.startswith("models/") for path, _ in called):
            raise RuntimeError("the trace has no request to the model")
        return {(path, name) for path, name in called if not _is_left_out(path)}


def answer_to_question() -> Called:
    """From the model's stream, which asks for a call, to the question that a person sees."""
    with tempfile.TemporaryDirectory(prefix="treadle-house-") as folder:
        root = Path(folder)
        out = root / "called"
        environment = _environment(root)
        (root / "model.toml").write_text(CALLING)
        command = _traced(out, (LAST, QUESTION), "-m", f"scripted:{root / 'model.toml'}")
        with Screen(command, cwd=root / "work", env=environment) as screen:
            screen.wait_for("a new thread")
            screen.type(f"hi{ENTER}")
            screen.wait_for("needs your approval")
            screen.process.send_signal(signal.SIGUSR2)
            while not out.exists():
                screen.wait_for("needs your approval")
            screen.process.kill()
            screen.process.wait()
        return {(path, name) for path, name in _read(out) if not _is_left_out(path)}


def record_to_server() -> Called:
    """From `treadle sync` with one new turn to the answer of the server, both sides of it."""
    with tempfile.TemporaryDirectory(prefix="treadle-house-") as folder:
        root = Path(folder)
        ours, theirs = root / "ours", root / "theirs"
        environment = _environment(root)
        model = ("-m", f"scripted:{root / 'model.toml'}")
        program = _traced(theirs, ("", ""))
        served = Served(f"sqlite:///{root}/server.db", root / "server", program=program)
        served.start()
        try:
            login = [*_TREADLE, "login", served.url, "--token-stdin"]
            _run(login, root, environment, served.owner_token())
            _run([*_TREADLE, *model, "-p", "one"], root, environment)
            _run([*_TREADLE, "sync"], root, environment)
            manual = {**environment, "TREADLE_SYNC": "manual"}
            _run([*_TREADLE, *model, "-p", "two"], root, manual)
            os.kill(served.pid, signal.SIGUSR1)
            _run(_traced(ours, (FIRST, ""), "sync"), root, environment)
            os.kill(served.pid, signal.SIGUSR2)
            served.end(signal.SIGTERM)
        finally:
            served.kill()
        return _read(ours) | _read(theirs)


_TREADLE: Final = (sys.executable, "-P", "-m", "treadle")


def _traced(out: Path, span: tuple[str, str], *arguments: str) -> list[str]:
    return [sys.executable, "-P", str(TRACE), str(out), *span, "treadle", *arguments]


def _environment(root: Path) -> dict[str, str]:
    (root / "model.toml").write_text(SCRIPT * 9)
    (root / "work").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "TREADLE_HOME": str(root / "home"),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


def _run(command: list[str], root: Path, env: Mapping[str, str], given: str = "") -> None:
    done = subprocess.run(
        command,
        cwd=root / "work",
        env=env,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def _read(out: Path) -> Called:
    lines = out.read_text(encoding="utf-8").splitlines()
    return {(path, name) for path, _, name in (line.partition(" ") for line in lines)}


def _is_left_out(path: str) -> bool:
    """Whether a file draws, or is about git and the files of the folder."""
    text = (SRC / path).read_text(encoding="utf-8")
    draws = any(f"import {name}" in text or f"from {name}" in text for name in DRAWING)
    return draws or path.startswith("workspace/")
