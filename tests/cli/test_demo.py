"""`treadle demo`: the transcript says what happened, piped and in a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from cli.conftest import Run

MUST_SAY = (
    "The model is scripted",
    "FAILED (failures=1)",
    "kill -9",
    "record the doubt and tell the model",
    "committed",
    "fix: average the two middle values in median",
    "Treadle-Thread: T-",
    "says the same",
    "treadle show ",
)


def _check(transcript: str) -> None:
    places = [transcript.find(words) for words in MUST_SAY]
    missing = [words for words, place in zip(MUST_SAY, places, strict=True) if place < 0]
    assert not missing, transcript
    assert "Traceback" not in transcript
    started = re.findall(r"check\.py (\d+)", transcript)
    assert "500" in started
    assert "50" in started


def test_the_demo_reads_well_when_piped(treadle: Run, tmp_path: Path) -> None:
    done = treadle("demo", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b[" not in done.stdout
    _check(done.stdout)
    end = done.stdout[done.stdout.index("\n4. ") :].splitlines()
    assert len(end) <= 24, "what to do next, and what there is, on one screen"
    assert "ToolUncertain" not in done.stdout
    (folder,) = tmp_path.glob("treadle-demo-*")
    log = (folder / "median" / "checks.log").read_text().splitlines()
    assert log == [
        "a check of 500 rounds began",
        "a check of 50 rounds began",
        "a check of 50 rounds ended well",
    ]


def test_the_demo_runs_in_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", "demo", "-v"],
        env={**environment, "TERM": "xterm-256color", "TMPDIR": str(tmp_path)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    transcript = bytearray()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux tells the end of a terminal so
            break
        if not piece:
            break
        transcript += piece
    os.close(ours)
    assert process.wait() == 0, transcript.decode()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", transcript.decode()).replace("\r\n", "\n")
    _check(plain)
    assert "ToolUncertain" in plain
