"""The pages for people who write programs are true: they run, and have every public name."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.peers import compare

import treadle
from treadle import LocalStore

DOCS = Path(__file__).parents[2] / "docs"


def read_programs(name: str) -> list[str]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_programs_of_the_page_on_the_library_run_from_top_to_bottom(tmp_path: Path) -> None:
    programs = read_programs("library.md")
    assert len(programs) >= 7
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(programs)],
        cwd=tmp_path,
        env={**os.environ, "TREADLE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("A treadle is the pedal that drives a loom.")
    assert "ToolFinished" in done.stdout
    assert "Ann's orders ('vip',) {'region': 'north'}" in done.stdout
    assert done.stdout.endswith("It is cancelled.\n")
    assert not (tmp_path / "home").exists(), "nothing of it is among this user's threads"


def test_the_page_has_every_public_name_and_no_other() -> None:
    page = (DOCS / "library.md").read_text(encoding="utf-8")
    table = page.partition("## Every public name")[2].partition("\n`treadle.outputs`")[0]
    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == sorted({*treadle.__all__} - {"__version__"})


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_machine_with_ones_own_input_and_output_pays_once(tmp_path: Path) -> None:
    (program,) = read_programs("durable-sans-io.md")
    payments = tmp_path / "payments.txt"
    told = start(program, tmp_path).communicate()[0]
    assert told == "paying\nThe result of the payment: paid\n"
    assert payments.read_text() == "paid\n"

    folder = tmp_path / "killed"
    folder.mkdir()
    payments = folder / "payments.txt"
    os.mkfifo(payments)  # nobody reads from it: who opens it waits
    process = start(program, folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "paying\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    payments.unlink()
    again = start(program, folder).communicate()[0]
    assert again.startswith("The result of the payment: ERROR")
    assert "the process died while it ran" in again
    assert not payments.exists()


@pytest.mark.parametrize(
    ("scene", "end"),
    [
        (compare.kill_in_a_tool, "charged 1 times"),
        (compare.approve_after_a_restart, "works"),
        (compare.approve_twice, "paid back 1 times"),
        (compare.speak_at_the_same_time, "0 of "),
    ],
)
def test_the_comparison_is_true_of_ourselves(
    scene: Callable[[compare.Bot], str],
    end: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare, "ROUNDS", 2)
    bot = compare.Bot("treadle", tmp_path / "bot")
    assert scene(bot).startswith(end)
    if scene is compare.kill_in_a_tool:
        (thread,) = LocalStore(bot.folder).ids()
        said = str(list(LocalStore(bot.folder).load(thread).fold.conversation))
        assert "It was not run again." in said


def test_the_comparison_counts_lines_as_they_are() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    counted = " | ".join(str(compare.count_lines(bot)) for bot in compare.BOTS)
    assert f"| lines of the program | {counted} |" in page
