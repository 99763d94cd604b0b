"""The examples are run as a reader would run them, and say what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(name: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_example_is_run_by_a_test_of_this_file() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert len(EXAMPLES) == 4
    assert [path.name for path in EXAMPLES if f'"{path.name}"' not in tested] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read_in_a_minute(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 90


def test_a_task_with_two_tools_gets_to_its_answer() -> None:
    told = run("two_tools.py")
    assert told.startswith("Five pears cost 20.\n")
    assert re.search(r"Acting +TOOL_SUCCESS +multiply: SUCCESS: 20\n", told)


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ("yes", "The database old-orders is gone.\n"),
        ("no, it is in use", "I did not delete it: a person said no.\n"),
    ],
)
def test_a_call_is_approved_in_another_process(tmp_path: Path, answer: str, end: str) -> None:
    asked = run("approval.py", tmp_path)
    assert 'waits for approval of: delete {"name":"old-orders"}' in asked
    thread = re.search(r"T-[0-9a-f-]{36}", asked)
    assert thread is not None
    assert run("approval.py", tmp_path, thread[0], answer) == end


def test_a_custom_graph_reviews_every_answer() -> None:
    told = run("custom_graph.py")
    assert told.startswith("It came in the 11th century (source: the museum's catalogue).\n")
    assert len(re.findall(r"Review +REVIEWED", told)) == 2


def test_the_pure_machine_is_driven_by_a_program_of_ones_own() -> None:
    assert run("pure_machine.py") == (
        "Planning: SendLlmRequest\n"
        "Acting: ExecuteTools\n"
        "Planning: SendLlmRequest\n"
        "Done: The word has seven letters.\n"
    )


def test_the_programs_of_the_guide_run(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(programs) == 2
    told = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, "TREADLE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for program in programs
    ]
    assert told[0].startswith("About 3.9 million people live in Berlin.\nstep ")
